"""Layers: pinned dependencies and the shared library, each its own so that a code change uploads little."""

from pathlib import Path

from aws_cdk import Stack
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.config.settings import CONFIG_DIR, Settings
from infra.constructs import bundling

RUNTIME = lambda_.Runtime.PYTHON_3_13


class Layers(Construct):
    """Both layers, the dependencies for the settings' architecture.

    Built only when the stack's assets are wanted: not by `cdk destroy`, `cdk ls` and tests of the template.
    """

    def __init__(self, scope: Construct, name: str, settings: Settings) -> None:
        super().__init__(scope, name)
        wanted = Stack.of(self).bundling_required
        dependencies = bundling.dependencies(settings.machine) if wanted else bundling.REQUIREMENTS.parent
        ca_file = CONFIG_DIR / settings.opensearch_ca_file if settings.opensearch_ca_file else None
        library = bundling.library(ca_file) if wanted else bundling.LIBRARY.parent
        self.all: list[lambda_.ILayerVersion] = [
            self._layer("Dependencies", dependencies, [architecture(settings)]),
            self._layer("Library", library, [lambda_.Architecture.ARM_64, lambda_.Architecture.X86_64]),
        ]

    def _layer(self, name: str, folder: Path, machines: list[lambda_.Architecture]) -> lambda_.LayerVersion:
        return lambda_.LayerVersion(
            self,
            name,
            code=lambda_.Code.from_asset(str(folder)),
            compatible_runtimes=[RUNTIME],
            compatible_architectures=machines,
        )


def architecture(settings: Settings) -> lambda_.Architecture:
    """CDK's name for the settings' architecture."""
    return lambda_.Architecture.ARM_64 if settings.machine == "arm64" else lambda_.Architecture.X86_64
