"""The CDK app with the bench's sources in place of the deployment's own."""

import shutil
import tempfile
from pathlib import Path

from bench.http_source import CONFIG
from infra import app
from infra.constructs import bundling, index_setup

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        # The functions look for the name of the file that it stands for.
        pipeline = Path(shutil.copy(CONFIG, Path(folder, bundling.PIPELINE.name)))
        bundling.PIPELINE = pipeline
        index_setup.PIPELINE = pipeline  # type: ignore[attr-defined]  # it has a name of its own for it
        app.main()
