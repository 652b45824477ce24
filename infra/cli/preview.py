"""`logflume preview`: what files would become in OpenSearch, without any service."""

import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path, PurePath
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, TYPE_CHECKING, Annotated, NamedTuple

import typer

from infra.cli.configuration import ConfigOption, loaded
from infra.cli.errors import CannotRun, CommandError
from infra.cli.terminal import err, number, plain, printable
from logflume.errors import ConfigurationError
from logflume.limits import KIB, S3_MAX_KEY_BYTES

if TYPE_CHECKING:
    from infra.cli.dry_run import Outcome
    from logflume.compression import Source as Chunks
    from logflume.sources import Source, Sources

STANDARD_INPUT = "-"
_STDIN_KEY = "stdin"
_CHUNK_BYTES = 256 * KIB
_TAGS_SHOWN = 20


class _Input(NamedTuple):
    """A file that can be read from any offset, and the key and source that it would have."""

    name: str
    key: str
    source: "Source | None"
    modified_ms: int
    chunks: "Chunks"


def preview(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Log files, compressed or not; '-' is standard input.")
    ],
    source: Annotated[
        str | None, typer.Option("--source", metavar="NAME", help="This source, whatever the files are called.")
    ] = None,
    config: ConfigOption = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", metavar="N", min=1, help="Stop after so many events of each file.")
    ] = None,
) -> None:
    """Print one JSON object per event: exactly what would be indexed, as _index, _id and _source.

    No service is needed, and nothing is sent: the files go through the same code as dropped ones. A file's path is
    matched like its key below the drop folder, its modification time stands for LastModified. Only ids differ from the
    real ones, which are made from bucket, key and version: here they are made from the path, the same in every run.

    What was found, and what is wrong with it, is told on standard error. The exit status is 1 if a file is damaged
    (all whole events before the damage are printed), 2 if the configuration is wrong or a file cannot be opened.
    """
    settings, sources = loaded(config)
    with ExitStack() as opened:
        inputs = [_opened(name, sources, source, settings.drop_prefix, opened) for name in files]
        damaged = False
        try:
            for file in inputs:
                damaged |= not _shown(file, settings.index_prefix, limit)
        except BrokenPipeError:
            # Who reads has seen enough (`| head`). What is buffered must not fail at exit, as it would once more.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit from None
    if damaged:
        raise typer.Exit(1)


def _opened(name: str, sources: "Sources", wanted: str | None, prefix: str, opened: ExitStack) -> _Input:
    """Raises `CannotRun` where there is nothing to read, or no source of the wanted name."""
    from bench.spool import chunks

    if name == STANDARD_INPUT:
        key, modified_ms = prefix + _STDIN_KEY, int(time.time() * 1000)
        content = _Pipe(sys.stdin.buffer, opened).chunks
    else:
        path = Path(name)
        key = _key(path, prefix)
        try:
            facts = path.stat()
            if stat.S_ISREG(facts.st_mode):
                path.open("rb").close()  # whether it may be read is better known before anything is printed
                content = partial(chunks, path)
            else:
                content = _Pipe(opened.enter_context(path.open("rb")), opened).chunks
        except OSError as error:
            raise CannotRun(f"{printable(name)}: {error.strerror}") from error
        modified_ms = max(0, int(facts.st_mtime * 1000))
    try:
        source = sources.named(wanted) if wanted else sources.for_key(key)
    except ConfigurationError as error:
        raise CannotRun(str(error)) from error
    return _Input(name, key, source, modified_ms, content)


def _key(path: PurePath, prefix: str) -> str:
    """The path as a key below the drop folder. Raises `CannotRun` if it is too long for one."""
    parts = [part for part in path.parts if part not in (path.anchor, os.curdir, os.pardir)]
    own = os.fsencode("/".join(parts)).decode("utf-8", "replace")
    key = own if own.startswith(prefix) else prefix + own
    if len(key.encode()) > S3_MAX_KEY_BYTES:
        raise CannotRun(f"{printable(str(path))}: S3 takes keys of up to {S3_MAX_KEY_BYTES} bytes")
    return key


def _shown(file: _Input, index_prefix: str, limit: int | None) -> bool:
    """Print the file's events, and what is to be said of them; whether it was read to its end."""
    from infra.cli.dry_run import run

    if file.source is None:
        err.print(plain(f"{file.name}: skipped, no source takes {file.key}; --source names one"), soft_wrap=True)
        return True
    output = sys.stdout.buffer
    try:
        outcome = run(
            file.chunks,
            file.source,
            file.key,
            output.write,
            modified_ms=file.modified_ms,
            index_prefix=index_prefix,
            limit=limit,
        )
        output.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandError(f"{printable(file.name)}: {error.strerror or error}") from error
    for line in _summary(file, outcome, limit):
        err.print(plain(line), soft_wrap=True)
    if outcome.error:
        err.print("[red]damaged:[/red]", plain(f"{file.name}: {outcome.error}"), soft_wrap=True)
    return outcome.error is None


def _summary(file: _Input, outcome: "Outcome", limit: int | None) -> Iterator[str]:
    source = file.source.name if file.source else ""
    counts = [number(outcome.shown, "event")]
    if outcome.dropped:
        counts.append(f"{outcome.dropped:,} dropped by rules")
    if outcome.by_reference:
        counts.append(f"{outcome.by_reference:,} too large, would be dead letters by reference")
    stopped = f"; stopped there (--limit {limit})" if limit == outcome.shown else ""
    yield f"{file.name}: source {source}: {', '.join(counts)}{stopped}"
    rows = [(name, count, "") for name, count in sorted(outcome.indices.items())]
    for tag, count in outcome.tags.most_common(_TAGS_SHOWN):
        first = outcome.first[tag]
        rows.append((tag, count, f", the first at byte {first.offset:,}{f': {first.reason}' if first.reason else ''}"))
    width = max((len(name) for name, *_ in rows), default=0)
    for name, count, more in rows:
        yield f"  {name:{width}}  {number(count, 'event')}{more}"


class _Pipe:
    """Standard input as an object: what was read is kept in a file, because decoders go back where damage is."""

    def __init__(self, stream: IO[bytes], opened: ExitStack) -> None:
        self._stream = stream
        self._kept = opened.enter_context(TemporaryFile())  # noqa: SIM115 - the stack closes it
        self._end = 0
        self._lock = Lock()  # whoever read before may still be fetching ahead

    def chunks(self, offset: int) -> Iterator[bytes]:
        """Its bytes from an offset on, which come as they are there."""
        while chunk := self._at(offset):
            offset += len(chunk)
            yield chunk

    def _at(self, offset: int) -> bytes:
        with self._lock:
            if offset == self._end:
                self._kept.seek(self._end)
                self._end += self._kept.write(self._stream.read(_CHUNK_BYTES))
            self._kept.seek(offset)
            return self._kept.read(_CHUNK_BYTES)
