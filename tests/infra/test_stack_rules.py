"""Other people's rules over our templates: cdk-nag's AwsSolutions, CDK's own, cfn-lint."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_s3 as s3
from cdk_nag import AwsSolutionsChecks

from infra.config.settings import load
from infra.stacks.ingest import IngestStack
from tests.infra.synthesis import VARIANTS, build, new_app

# CDK makes every function depend on its role beside referring to it.
CFN_LINT_IGNORED = "W3005"


def findings(app: cdk.App, folder: Path) -> list[tuple[str, str]]:
    """(rule, construct path) of everything that the plugins object to."""
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks())
    with contextlib.suppress(RuntimeError):  # findings end synthesis; the report is written all the same
        app.synth()
    report = json.loads((folder / "validation-report.json").read_text())
    assert "AwsSolutions" in [plugin["pluginName"] for plugin in report["pluginReports"]]
    return [
        (violation["ruleName"], construct["constructPath"])
        for plugin in report["pluginReports"]
        for violation in plugin["violations"]
        for construct in violation["violatingConstructs"]
    ]


@pytest.fixture(scope="module")
def side_by_side(tmp_path_factory: pytest.TempPathFactory) -> tuple[cdk.App, list[IngestStack]]:
    """Every variant in one app, each deployed under its own name: checked in a fraction of the time."""
    app = new_app(tmp_path_factory.mktemp("side-by-side"), checked=True)
    return app, [IngestStack(app, load({**context, "deployment": name})) for name, context in VARIANTS.items()]


def test_nothing_is_found_in_any_variant_that_is_not_acknowledged(
    side_by_side: tuple[cdk.App, list[IngestStack]],
) -> None:
    app, _ = side_by_side
    assert findings(app, Path(app.outdir)) == []


def test_each_acknowledgement_is_of_one_construct_and_says_why(
    side_by_side: tuple[cdk.App, list[IngestStack]],
) -> None:
    reasons = [
        (construct, rule, reason)
        for stack in side_by_side[1]
        for construct in stack.node.find_all()
        for entry in construct.node.metadata
        if entry.type == cdk.Validations.ACKNOWLEDGED_RULES_METADATA_KEY
        for rule, reason in entry.data.items()
    ]
    assert reasons
    for construct, rule, reason in reasons:
        assert not isinstance(construct, cdk.Stack)
        assert not rule.endswith("AwsSolutions-IAM5"), "an IAM finding is acknowledged with its resource"
        assert len(reason.split()) > 5


def test_an_acknowledgement_covers_its_construct_only(tmp_path: Path) -> None:
    app, stack = build(VARIANTS["default"], tmp_path)
    s3.Bucket(stack, "Careless")
    found = findings(app, tmp_path)
    assert ("AwsSolutions-S1", "logflume/Careless/Resource") in found
    assert {path for _, path in found} == {"logflume/Careless/Resource"}


def test_cfn_lint_has_nothing_to_say(template_file: Callable[[str], Path]) -> None:
    files = [str(template_file(variant)) for variant in VARIANTS]
    command = [str(Path(sys.executable).with_name("cfn-lint")), "--ignore-checks", CFN_LINT_IGNORED, "--", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
