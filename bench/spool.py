"""The reader without its services: objects are files, Kinesis is a spool on disk that acknowledges at once."""

import struct
from collections.abc import Iterator
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import BinaryIO

from bench import synthetic_logs
from infra.config.settings import CONFIG_DIR
from logflume import framing, sources
from logflume.batch import Header
from logflume.ledger import Claim, Position
from logflume.lineage import Lineages
from logflume.objects import CHUNK_BYTES
from logflume.reader import Acknowledging, Reading
from logflume.sources import Source, Sources

FAR = 1e12  # a time that never comes, in seconds
CONFIG = CONFIG_DIR / "pipeline.toml"
# Of every object: the synthetic logs' own dates are near, on whatever day they are read.
MODIFIED_MS = int((synthetic_logs.START + timedelta(days=2)).timestamp() * 1000)
OBJECT_ID = "0" * 32
_LENGTH = struct.Struct(">I")


class Spool:
    """Takes records like a producer and acknowledges them at once; `bytes` counts theirs."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._done: Future[None] = Future()
        self._done.set_result(None)
        self.bytes = 0

    def put(self, data: bytes) -> Future[None]:
        """Keep the record."""
        self._file.write(_LENGTH.pack(len(data)) + data)
        self.bytes += len(data)
        return self._done

    def flush(self) -> None:
        """Nothing waits."""

    def records(self) -> Iterator[bytes]:
        """Every record in the order of its coming."""
        self._file.seek(0)
        while prefix := self._file.read(_LENGTH.size):
            yield self._file.read(_LENGTH.unpack(prefix)[0])


def source_of(path: Path, name: str | None = None, configured: Sources | None = None) -> Source:
    """The source with this name, or the one that takes the file; of infra/config/pipeline.toml, unless others."""
    configured = configured or sources.load(CONFIG)
    source = configured.named(name) if name else configured.for_key(path.name)
    if source is None:
        raise SystemExit(f"no source takes {path.name}: name one with --source")
    return source


def chunks(path: Path, offset: int) -> Iterator[bytes]:
    """A file's bytes as an object's."""
    with path.open("rb") as file:
        file.seek(offset)
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def reading(path: Path, source: Source, producer: Acknowledging, lineages: Lineages | None = None) -> Reading:
    """The file as a freshly claimed object, whose checkpoints nobody keeps; `lineages` turns content identity on."""
    header = Header(
        object_id=OBJECT_ID,
        lineage=OBJECT_ID,
        bucket="bench",
        key=f"drop/{path.name}",
        source=source.name,
        parser=source.parsing,
        index=source.index_rule("logs"),
        modified_ms=MODIFIED_MS,
        created_ms=MODIFIED_MS,
    )
    return Reading(
        Claim(OBJECT_ID, 1, 0, Position(), {}),
        header,
        lambda offset: chunks(path, offset),
        producer,
        save=lambda position: None,
        stop_at=FAR,
        lineages=lineages,
        framing=partial(framing.build, source.framing),
    )
