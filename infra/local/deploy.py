"""Deploying to the local cloud with plain `cdk`: bootstrap once, deploy, hand back the stack's outputs."""

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from botocore.exceptions import ClientError

from infra.local import paths
from infra.local.cloud import LocalCloud
from infra.local.errors import LocalCloudError
from infra.local.install import Progress

ENVIRONMENT = "aws://000000000000/us-east-1"
TOOLKIT_STACK = "CDKToolkit"
TAIL_LINES = 40

# Node's advice on its own version is not what a failed deployment's last lines should show.
QUIET_NODE = {"NODE_NO_WARNINGS": "1", "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "18,20,22"}

# Of cdk's many lines, those that mark a step. Single resources come in a burst at the end: too late to be progress.
STEP = re.compile(r"Bundling asset|Synthesis time|: (creating|updating) stack|Deployment time|no changes")


def deploy(
    cloud: LocalCloud, *, context: Mapping[str, str], app: str | None = None, progress: Progress = print
) -> dict[str, str]:
    """Bring the cloud up, deploy every stack of the app to it and return all their outputs by name.

    `context` is added to `profile=local` and `opensearch_endpoint`; `app` is a command in place of cdk.json's.

    Raises:
        LocalCloudError: the cloud does not come up, or cdk failed; the message carries the end of its output.
    """
    cloud.up(progress)
    if not _bootstrapped(cloud):
        progress("bootstrapping cdk")
        # Away from cdk.json: bootstrapping needs no app, and synthesising one takes long.
        _cdk(cloud, cloud.home, progress, "bootstrap", ENVIRONMENT, "--toolkit-stack-name", TOOLKIT_STACK)
    outputs = cloud.home / "outputs.json"
    settings = {"profile": "local", "opensearch_endpoint": cloud.opensearch_url, **context}
    progress("deploying with cdk")
    _cdk(
        cloud,
        paths.REPOSITORY,
        progress,
        *("deploy", "--all", "--require-approval", "never", "--method", "direct", "--progress", "events"),
        *("--outputs-file", str(outputs)),
        *(("--app", app) if app else ()),
        *(part for name, value in settings.items() for part in ("--context", f"{name}={value}")),
    )
    return stack_outputs(outputs)


def stack_outputs(file: Path) -> dict[str, str]:
    """The outputs that `cdk deploy` wrote, those of all stacks together.

    Raises:
        LocalCloudError: nothing is deployed.
    """
    try:
        stacks = json.loads(file.read_text())
    except FileNotFoundError as error:
        raise LocalCloudError(f"nothing is deployed: {file} does not exist; run `logflume local deploy`") from error
    found = {name: value for outputs in stacks.values() for name, value in outputs.items()}
    if not found:
        # LocalStack calls an update complete whose custom resource failed; only the outputs are missing then.
        raise LocalCloudError(
            "the deployment failed: the stack has no outputs; `logflume local logs IndexSetup` says why"
        )
    return found


def _bootstrapped(cloud: LocalCloud) -> bool:
    cloudformation = cloud.session().client("cloudformation", endpoint_url=cloud.aws_url)
    try:
        stacks = cloudformation.describe_stacks(StackName=TOOLKIT_STACK)["Stacks"]
    except ClientError:
        return False
    return stacks[0]["StackStatus"] in ("CREATE_COMPLETE", "UPDATE_COMPLETE")


def _cdk(cloud: LocalCloud, directory: Path, progress: Progress, *arguments: str) -> None:
    """Run cdk, its assembly in the cloud's home, so that parallel deployments do not meet."""
    command = [str(paths.CDK), *arguments, "--output", str(cloud.home / "cdk.out"), "--ci", "--no-color"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= {**cloud.environment(), **QUIET_NODE}
    lines: list[str] = []
    with subprocess.Popen(
        command,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as running:
        assert running.stdout is not None  # noqa: S101 - a pipe was asked for
        for line in running.stdout:
            lines.append(line.rstrip())
            if STEP.search(line):
                progress(f"cdk: {line.strip().lstrip('✨✅ ')}")
    if running.returncode:
        tail = "\n".join(lines[-TAIL_LINES:])
        raise LocalCloudError(f"cdk {arguments[0]} failed (exit status {running.returncode}):\n{tail}")
