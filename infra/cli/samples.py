"""Samples: synthetic logs to try the pipeline with, and the events of any file counted without the pipeline's code."""

import gzip
from pathlib import Path
from typing import NamedTuple
from zlib import error as zlib_error

from bench.generate import write
from infra.local.paths import REPOSITORY

FOLDER = REPOSITORY / ".logflume" / "samples"


class Sample(NamedTuple):
    """A file to generate: see `python -m bench.generate --help` for the kinds."""

    name: str
    kind: str
    events: int
    members: int = 1
    seed: int = 0


# Text, JSON, several gzip members as rotated logs have them, and uncompressed; together small enough for a laptop.
SAMPLES = (
    Sample("web/access.log.gz", "access", 100_000),
    Sample("ids/eve.json.gz", "eve", 40_000),
    Sample("web/access.log.1.gz", "access", 20_000, members=3, seed=1),
    Sample("api/server.log", "access", 2_000, seed=2),
)
# Finds something in them.
QUERY = "event_type:alert AND alert.severity:1"

_GZIP_MAGIC = b"\x1f\x8b"
# zstd, bzip2, xz: their events are counted by nobody here.
_OTHER_MAGIC = (b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ\x00")


def generate(folder: Path = FOLDER) -> Path:
    """The folder with the samples in it; those that are there are kept, the same seed makes the same bytes."""
    for sample in SAMPLES:
        target = folder / sample.name
        if not target.exists():
            # Elsewhere until it is whole: whatever lies in the folder is dropped.
            partial = folder.with_name(f"{folder.name}.partial") / target.name
            for parent in (partial.parent, target.parent):
                parent.mkdir(parents=True, exist_ok=True)
            write(sample.kind, sample.events, partial, seed=sample.seed, members=sample.members)
            partial.rename(target)
    return folder


def count_events(path: Path) -> int | None:
    """Lines that are not blank; None where the file is damaged, or compressed in a way that is not counted here."""
    with path.open("rb") as file:
        magic = file.read(6)
    if magic.startswith(_OTHER_MAGIC):
        return None
    try:
        with gzip.open(path) if magic.startswith(_GZIP_MAGIC) else path.open("rb") as lines:
            return sum(1 for line in lines if line not in (b"\n", b"\r\n", b"\r"))
    except (OSError, EOFError, zlib_error):
        return None
