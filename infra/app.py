"""The CDK app: settings in, one stack out. `cdk synth -c opensearch_endpoint=https://…` needs no account."""

import sys

import aws_cdk as cdk

from infra.config.settings import load
from infra.stacks.ingest import IngestStack
from logflume.errors import ConfigurationError


def main() -> None:
    """Synthesise the stack that the context describes; `-c nag=true` checks it with cdk-nag."""
    # CDK's own rules would take three seconds of every synthesis; the tests apply them, and cfn-lint besides.
    app = cdk.App(builtin_cloud_formation_validation=False)
    try:
        IngestStack(app, load(app.node.get_all_context()))
    except ConfigurationError as error:
        sys.exit(f"logflume: {error}")
    if app.node.try_get_context("nag"):
        from cdk_nag import AwsSolutionsChecks

        cdk.Validations.of(app).add_plugins(AwsSolutionsChecks())
    app.synth()


if __name__ == "__main__":
    main()
