"""A function's log group by its LoggingConfig, which LocalStack accepts and ignores."""

from typing import Any

from localstack.services.lambda_.invocation.execution_environment import (  # type: ignore[import-not-found]
    ExecutionEnvironment,
)


def honour_log_group() -> None:
    """Send a function's logs to the group that it names, else to the one that AWS names after it."""

    def log_group(environment: Any) -> str:
        version = environment.function_version
        group = version.config.logging_config.get("LogGroup")
        return group or f"/aws/lambda/{version.id.function_name}"

    ExecutionEnvironment.get_log_group_name = log_group
