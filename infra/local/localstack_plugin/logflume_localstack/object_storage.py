"""Where S3 keeps its objects: one folder for all LocalStacks of a machine by default, here one for each."""

import tempfile
from pathlib import Path

from localstack.services.s3 import provider  # type: ignore[import-not-found]


def use_own_folder() -> None:
    """Keep objects under this LocalStack's own TMPDIR."""
    provider.DEFAULT_S3_TMP_DIR = str(Path(tempfile.gettempdir(), "s3"))
