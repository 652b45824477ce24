"""CloudFormation's `AWS::CloudWatch::Dashboard`, which LocalStack reports as created without creating it."""

import uuid

from localstack.services.cloudformation.resource_provider import (  # type: ignore[import-not-found]
    OperationStatus,
    ProgressEvent,
    ResourceProvider,
    ResourceRequest,
)


class DashboardProvider(ResourceProvider):  # type: ignore[misc]
    """Puts and deletes the dashboard in LocalStack's CloudWatch."""

    TYPE = "AWS::CloudWatch::Dashboard"
    SCHEMA = {"typeName": TYPE, "primaryIdentifier": ["/DashboardName"], "properties": {}}  # noqa: RUF012

    def create(self, request: ResourceRequest) -> ProgressEvent:
        """Put the dashboard, under a generated name when none is given."""
        model = request.desired_state
        unique = f"{request.stack_name}-{request.logical_resource_id}-{uuid.uuid4().hex[:8]}"
        model.setdefault("DashboardName", unique)
        request.aws_client_factory.cloudwatch.put_dashboard(
            DashboardName=model["DashboardName"], DashboardBody=model["DashboardBody"]
        )
        return ProgressEvent(OperationStatus.SUCCESS, resource_model=model)

    def update(self, request: ResourceRequest) -> ProgressEvent:
        """Put the dashboard again under the name it has."""
        if name := (request.previous_state or {}).get("DashboardName"):
            request.desired_state.setdefault("DashboardName", name)
        return self.create(request)

    def delete(self, request: ResourceRequest) -> ProgressEvent:
        """Delete the dashboard."""
        name = request.desired_state["DashboardName"]
        request.aws_client_factory.cloudwatch.delete_dashboards(DashboardNames=[name])
        return ProgressEvent(OperationStatus.SUCCESS, resource_model={})
