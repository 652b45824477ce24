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

from tests.infra.synthesis import VARIANTS, build

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


@pytest.mark.parametrize("variant", ["default", "domain"])
def test_nothing_is_found_that_is_not_acknowledged(variant: str, tmp_path: Path) -> None:
    app, _ = build(VARIANTS[variant], tmp_path, checked=True)
    assert findings(app, tmp_path) == []


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
