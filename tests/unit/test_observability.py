"""What a function prints at a log level: its messages from that level on, and its metrics always."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

FUNCTION = """
from logflume.observability import observe

logger, metrics = observe()
for level in ("debug", "info", "warning", "error"):
    getattr(logger, level)(level)
metrics.add_metric(name="Done", unit="Count", value=1)
metrics.flush_metrics()
"""


def printed(level: str, lambdas: str) -> list[dict[str, Any]]:
    """The lines of a function with `log_level = level`, where Lambda's own level is `lambdas`."""
    environment = {
        "AWS_LAMBDA_LOG_LEVEL": lambdas,
        "LOGFLUME_DEPLOYMENT": "logflume",
        "POWERTOOLS_LOG_LEVEL": level,
        "POWERTOOLS_METRICS_NAMESPACE": "Logflume",
        "POWERTOOLS_SERVICE_NAME": "reader",
    }
    run = subprocess.run(
        [sys.executable, "-c", FUNCTION], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.mark.parametrize(
    ("level", "lambdas", "messages"),
    [
        ("DEBUG", "DEBUG", ["debug", "info", "warning", "error"]),
        ("WARNING", "INFO", ["warning", "error"]),
        ("ERROR", "INFO", ["error"]),
    ],
)
def test_the_logger_drops_what_is_below_its_level_and_lambda_need_not(
    level: str, lambdas: str, messages: list[str]
) -> None:
    lines = printed(level, lambdas)
    assert [line["message"] for line in lines if "message" in line] == messages
    [metrics] = [line for line in lines if "_aws" in line]
    assert metrics["Done"] == [1.0]
    # Which is why Lambda's level must never be above INFO.
    assert "level" not in metrics
