"""Files of synthetic logs for benchmarks and tests: seeded, streamed, as varied as real ones.

Four kinds: `access` (Apache combined log lines, about 226 bytes each), `alb` (an Application Load Balancer's, about
635 bytes), `eve` (Suricata eve.json, one JSON object a line, about 750 bytes) and `cloudtrail` (one document with a
`Records` array, about 1,150 bytes a record). The same kind and seed give the same events everywhere, and fewer events
are a prefix of more.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import batched, groupby, islice
from pathlib import Path
from random import Random

from isal import isal_zlib

from bench import synthetic_logs

KINDS = {
    "access": synthetic_logs.access_events,
    "alb": synthetic_logs.alb_events,
    "eve": synthetic_logs.eve_events,
    "cloudtrail": synthetic_logs.cloudtrail_events,
}
PIECE_EVENTS = 1000  # generated and written at once
GZIP_LEVEL = 2  # ISA-L's, 0 to 3
PROGRESS_SECONDS = 5.0


def lines(kind: str, events: int, seed: int = 0) -> Iterator[bytes]:
    """So many events of a kind, each without its line end (a CloudTrail event is one record)."""
    # Seeded by a string, which Python hashes with SHA-512: the same on every machine and in every process.
    return islice(KINDS[kind](Random(f"{kind}:{seed}")), events)


def document(kind: str, events: int, seed: int = 0, piece_events: int = PIECE_EVENTS) -> Iterator[bytes]:
    """The whole file of so many events, in pieces of `piece_events`; CloudTrail has one more at each end."""
    pieces = batched(lines(kind, events, seed), piece_events, strict=False)
    if kind == "cloudtrail":
        yield b'{"Records":['
        for number, piece in enumerate(pieces):
            yield (b"," if number else b"") + b",".join(piece)
        yield b"]}"
    else:
        for piece in pieces:
            yield b"\n".join(piece) + b"\n"


def gzip_members(pieces: Iterator[bytes], total: int, members: int) -> Iterator[bytes]:
    """`total` pieces and what frames them, as so many concatenated gzip members (RFC 1952 §2.2)."""
    numbered = ((min(number, total - 1) * members // total, piece) for number, piece in enumerate(pieces))
    for _, member in groupby(numbered, key=lambda pair: pair[0]):
        compressor = isal_zlib.compressobj(GZIP_LEVEL, isal_zlib.DEFLATED, 31)  # 31: a gzip header, no name, no time
        for _, piece in member:
            yield compressor.compress(piece)
        yield compressor.flush()


def write(kind: str, events: int, target: Path, *, seed: int = 0, members: int = 1, progress: bool = False) -> int:
    """Write a log file in flat memory, gzipped if its name ends in .gz; returns its bytes before gzip."""
    piece_events = max(1, min(PIECE_EVENTS, events // members))
    raw_bytes, reported = 0, time.monotonic()

    def measured() -> Iterator[bytes]:
        nonlocal raw_bytes, reported
        for number, piece in enumerate(document(kind, events, seed, piece_events)):
            raw_bytes += len(piece)
            yield piece
            if progress and time.monotonic() - reported >= PROGRESS_SECONDS:
                reported = time.monotonic()
                print(f"{(number + 1) * piece_events:,} of {events:,} events", file=sys.stderr)

    pieces = measured()
    if target.suffix == ".gz":
        pieces = gzip_members(pieces, -(-events // piece_events), members)
    with target.open("wb") as file:
        file.writelines(pieces)
    return raw_bytes


EXAMPLES = """
examples:
  python -m bench.generate access --events 1000000 --out /tmp/access.log.gz
  python -m bench.generate eve --events 200000 --out /tmp/eve.json --seed 7
  python -m bench.generate cloudtrail --events 50000 --out /tmp/trail.json.gz --members 3

access      Apache combined log lines, about 226 bytes each
alb         access log lines of an Application Load Balancer, about 635 bytes each
eve         Suricata eve.json: alert, dns, flow, http and tls objects, about 750 bytes each
cloudtrail  one JSON document, {"Records": [...]}, about 1,150 bytes a record

The same kind and seed give the same events on every machine; N events are the first N of any longer file.
"""


def main() -> None:
    """Read the command line and write one file."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.generate",
        description="Write a file of synthetic, seeded log events.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", choices=KINDS, help="which log to imitate")
    parser.add_argument("--events", type=int, required=True, metavar="N", help="how many events, at least 1")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="gzipped if it ends in .gz")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="another seed, other events (0)")
    parser.add_argument("--members", type=int, default=1, metavar="M", help="concatenated gzip members (1)")
    options = parser.parse_args()
    if options.events < 1:
        parser.error("--events must be at least 1")
    if not 1 <= options.members <= options.events:
        parser.error("--members must be at least 1 and no more than the events")
    if options.members > 1 and options.out.suffix != ".gz":
        parser.error("--members needs a name ending in .gz: only gzip has members")
    started = time.monotonic()
    raw_bytes = write(
        options.kind, options.events, options.out, seed=options.seed, members=options.members, progress=True
    )
    print(
        f"{options.out}: {options.events:,} events, {raw_bytes:,} bytes raw "
        f"({raw_bytes / options.events:.0f} an event), {options.out.stat().st_size:,} in the file, "
        f"{time.monotonic() - started:.1f} s",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
