"""The whole pipeline in one process: CPU seconds per million events of reader and indexer.

The reader's and the indexer's own code run on a file. Kinesis is replaced by a spool on disk, OpenSearch by a sender
that discards the (gzipped) bodies and answers "created" for every operation.

    python -m bench.pipeline FILE [--source NAME] [--config FILE]
"""

import argparse
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Lock

from isal import isal_zlib

from bench import measure
from bench.spool import CONFIG, FAR, Spool, reading, source_of
from logflume import sources
from logflume.bulk import Bulk
from logflume.deadletters import DeadLetters
from logflume.indexer import Indexer, StreamRecord
from logflume.limits import MIB
from logflume.rules import Rulebook

# What one invocation of the indexer gets: Lambda's payload limit of 6 MB, less base64.
_INVOCATION_BYTES = 4 * MIB
_CREATED = '{"create":{"status":201}},'


def invocations(spooled: Iterable[bytes]) -> Iterator[list[StreamRecord]]:
    """The records, in the portions that Lambda would hand over."""
    records: list[StreamRecord] = []
    size = 0
    for data in spooled:
        if records and size + len(data) > _INVOCATION_BYTES:
            yield records
            records, size = [], 0
        records.append(StreamRecord(str(len(records)), data, int(time.time() * 1000)))
        size += len(data)
    if records:
        yield records


class Discard:
    """Answers "created" for every operation; `cpu_s` is what playing the server cost, to be taken off."""

    def __init__(self) -> None:
        self.bytes = 0
        self.cpu_s = 0.0
        self._lock = Lock()

    def bulk(self, body: bytes) -> tuple[int, str]:
        """Count the body's operations and forget it."""
        began = time.thread_time()
        operations = isal_zlib.decompress(body, 31).count(b"\n") // 2
        answer = '{"items":[' + (_CREATED * operations)[:-1] + "]}"
        with self._lock:
            self.bytes += len(body)
            self.cpu_s += time.thread_time() - began
        return 200, answer


def run(path: Path, source_name: str | None, config: Path = CONFIG) -> dict[str, object]:
    """Read and index the file; the figures."""
    configured = sources.load(config)
    source = source_of(path, source_name, configured)
    baseline = measure.resident_mb()
    measure.reset_peak()
    reader_cpu, indexer_cpu, sender = measure.Cpu(), measure.Cpu(), Discard()
    with tempfile.TemporaryFile() as file:
        spool = Spool(file)
        one = reading(path, source, spool)
        with reader_cpu:
            one.read()
        if one.error:
            raise SystemExit(f"bench: {path.name}: {one.error}")
        indexer = Indexer(Bulk(sender), NoDeadLetters(), rules=Rulebook(configured).of)
        indexed = 0
        for records in invocations(spool.records()):
            with indexer_cpu:
                report = indexer.run(records, deadline=FAR)
            indexed += report.counts["indexed"]
    peak = measure.peak_mb()
    indexer_cpu_s = indexer_cpu.seconds - sender.cpu_s
    events = one.progress.events
    if indexed != events:
        raise SystemExit(f"bench: {events} events read but {indexed} indexed")
    return {
        "file": measure.file_name(path),
        "source": source.name,
        "events": events,
        "bytes": one.progress.raw_bytes,
        "wire_bytes": spool.bytes,
        "body_bytes": sender.bytes,
        "reader_cpu_s": round(reader_cpu.seconds, 3),
        "indexer_cpu_s": round(indexer_cpu_s, 3),
        "cpu_s_per_million": round((reader_cpu.seconds + indexer_cpu_s) / max(1, events) * 1e6, 3),
        "calibration_cpu_s": round(measure.calibrate(path, measure.inflate), 3),
        "max_rss_mb": round(peak, 1),
        "baseline_rss_mb": round(baseline, 1),
    }


class NoDeadLetters(DeadLetters):
    """The sender refuses nothing, so nothing may come here."""

    def __init__(self) -> None:
        pass

    def put_record(self, data: bytes, reason: str) -> str:
        """A batch of our own that does not decode is a defect."""
        raise AssertionError(f"{len(data)} bytes dead-lettered: {reason}")


def main() -> None:
    """Parse the command line and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline", description=__doc__.split("\n\n")[0])
    parser.add_argument("file", type=Path, help="a log file, gzipped or plain (python -m bench.generate makes some)")
    parser.add_argument("--source", help="read it as this source, not by its name")
    parser.add_argument("--config", type=Path, default=CONFIG, help="the sources (default: infra/config/pipeline.toml)")
    options = parser.parse_args()
    measure.report(run(options.file, options.source, options.config))


if __name__ == "__main__":
    main()
