"""The entry points that LocalStack finds; each imports what it stands for only when it is asked."""

import os
from typing import Any

from localstack.runtime import hooks  # type: ignore[import-not-found]
from localstack.services.cloudformation.resource_provider import (  # type: ignore[import-not-found]
    CloudFormationResourceProviderPlugin,
)
from localstack.services.lambda_.invocation.plugins import RuntimeExecutorPlugin  # type: ignore[import-not-found]


class ProcessExecutorPlugin(RuntimeExecutorPlugin):  # type: ignore[misc]
    """LAMBDA_RUNTIME_EXECUTOR=process."""

    name = "process"

    def load(self, *_args: Any, **_kwargs: Any) -> Any:
        """The executor class."""
        from .executor import ProcessExecutor

        return ProcessExecutor


class CustomResourcePlugin(CloudFormationResourceProviderPlugin):  # type: ignore[misc]
    """Custom resources."""

    name = "AWS::CloudFormation::CustomResource"

    def load(self) -> None:
        """Set the provider's factory."""
        from .custom_resource import CustomResourceProvider

        self.factory = CustomResourceProvider


class DashboardPlugin(CloudFormationResourceProviderPlugin):  # type: ignore[misc]
    """Dashboards."""

    name = "AWS::CloudWatch::Dashboard"

    def load(self) -> None:
        """Set the provider's factory."""
        from .dashboard import DashboardProvider

        self.factory = DashboardProvider


@hooks.on_infra_start()  # type: ignore[untyped-decorator]
def mend_localstack() -> None:
    """Before any service starts: what LocalStack ignores, fakes or shares with other LocalStacks."""
    from . import alarms, backends, concurrency, function_urls, log_groups, object_storage, service_metrics

    backends.use_external_backends(int(os.environ["LOGFLUME_DYNAMODB_PORT"]), int(os.environ["LOGFLUME_KINESIS_PORT"]))
    object_storage.use_own_folder()
    log_groups.honour_log_group()
    concurrency.honour_maximum_concurrency()
    alarms.honour_alarms()
    function_urls.hand_over_bodies_as_they_came()
    function_urls.throttle_as_lambda_does()
    service_metrics.report_service_metrics()
