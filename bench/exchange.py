"""One hop between two processes: the same events as JSON, as MsgPack, and as this design carries them.

Fluent Bit and Tenzir replaced JSON between two processes by MsgPack: a producer that holds parsed events serialises
them, a consumer makes parsed events of the bytes. Here the producer carries the raw bytes, and only the consumer
parses. So there are two views:

    hop          what the hop adds: serialise and parse again; for raw events, pack and unpack
    hop+parse    and the one parse that somebody has to do, at the producer or at the consumer; the same, by the
                 fastest parser, for every variant

and three wires: `zstd` (level 1) for everybody; `plain` for everybody (ours never is: what zstd alone costs on the
same bytes is taken off); `mixed`, ours with zstd and the others plain. Batches are equally large on the wire. Text
lines travel as `{"message": …}`, as shippers send them. Networks cost nothing here, nor does the garbage collector:
what it costs depends on what else a process holds (with it, parsed events cost 3 to 12 % more).

    python -m bench.exchange FILE [--events N] [--repeat N]
"""

import argparse
import gc
import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import msgpack
import msgspec

from bench import measure
from bench.hops import BEST_JSON, DESIGN, STDLIB, VARIANTS, Hop, Part, Watch, hops, parts, raw_events

EVENTS = 300_000
REPETITIONS = 2
VIEWS = ("hop", "hop+parse")
WIRES = ("zstd", "plain", "mixed")
TARGETS = {STDLIB: 5.0, BEST_JSON: 2.0}


class Trip:
    """One variant's way through the file: everything sent is received, and is what was sent."""

    def __init__(self, name: str, hop: Hop) -> None:
        self.name = name
        self.hop = hop
        self.delivered = self.wire_bytes = 0
        self.batches_ms: list[float] = []
        self._expected: list[Any] = []
        self._wall_s = 0.0

    def carry(self, part: Part) -> None:
        """A part to the producer, finished batches to the consumer."""
        raw = zip(part.raw.offsets, part.raw.events, strict=True)
        self._expected += raw if self.name == DESIGN else part.parsed
        self.hop.send(part)
        self._receive()

    def finish(self) -> None:
        """The last batch, and the check that no event is missing."""
        self.hop.close()
        self._receive()
        if self._expected:
            raise SystemExit(f"bench: {self.name} lost {len(self._expected)} events")

    def _receive(self) -> None:
        for data in self.hop.batches:
            received = self.hop.receive(data)
            if self.name == DESIGN:
                received = [pair for piece in received for pair in zip(piece.offsets, piece.events, strict=True)]
            if received != self._expected[: len(received)]:
                raise SystemExit(f"bench: {self.name} delivered other events than were sent")
            del self._expected[: len(received)]
            self.delivered += len(received)
            self.wire_bytes += len(data)
            self.batches_ms.append((self.hop.wall_s - self._wall_s) * 1000)
            self._wall_s = self.hop.wall_s
        self.hop.batches.clear()


def once(events: list[bytes]) -> tuple[float, dict[str, Trip]]:
    """All events through every variant, part by part in turns; CPU seconds of parsing them, and the trips."""
    trips = {name: Trip(name, hop) for name, hop in hops().items()}
    parsing = Watch()
    for part in parts(events, parsing):
        for trip in trips.values():
            trip.carry(part)
    for trip in trips.values():
        trip.finish()
    return parsing.cpu_s, trips


def run(path: Path, limit: int = EVENTS, repetitions: int = REPETITIONS) -> dict[str, Any]:
    """The file's first events through every variant; the figures, the best of the repetitions by CPU."""
    events = list(islice(raw_events(path), limit))
    if not events:
        raise SystemExit(f"bench: {path.name}: no events")
    with _no_garbage_collector():
        runs = [once(events) for _ in range(repetitions)]
    parse_cpu_s = min(parsing for parsing, _ in runs) / len(events) * 1e6
    variants = {name: _variant([trips[name] for _, trips in runs], parse_cpu_s) for name in VARIANTS}
    ratios = {
        view: {
            wire: {
                name: round(of["cpu_s_per_million"][view][wire] / variants[DESIGN]["cpu_s_per_million"][view][wire], 2)
                for name, of in variants.items()
                if name != DESIGN
            }
            for wire in WIRES
        }
        for view in VIEWS
    }
    return {
        "file": measure.file_name(path),
        "events": len(events),
        "bytes": sum(map(len, events)),
        "json_events": sum(event.startswith(b"{") for event in events),
        "repetitions": repetitions,
        "libraries": {"msgspec": msgspec.__version__, "msgpack": ".".join(map(str, msgpack.version))},
        "parse_cpu_s_per_million": round(parse_cpu_s, 3),
        "variants": variants,
        "design_is_faster_by": ratios,
        "targets": [
            {"view": view, "wire": wire, "than": name, "target": target, "is": is_, "met": is_ >= target}
            for view in VIEWS
            for wire in WIRES
            for name, target in TARGETS.items()
            for is_ in [ratios[view][wire][name]]
        ],
    }


@contextmanager
def _no_garbage_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _variant(trips: list[Trip], parse_cpu_s: float) -> dict[str, Any]:
    """One variant's figures of several runs."""
    trip = trips[0]
    own = {wire: min(one.hop.cpu_s[wire] for one in trips) / trip.delivered * 1e6 for wire in ("zstd", "plain")}
    wire_bytes = {"zstd": trip.wire_bytes, "plain": trip.hop.plain_bytes}
    mixed = "zstd" if trip.name == DESIGN else "plain"
    own["mixed"], wire_bytes["mixed"] = own[mixed], wire_bytes[mixed]
    cpu_s = {"hop": own, "hop+parse": {wire: seconds + parse_cpu_s for wire, seconds in own.items()}}
    # The last batch of a run is not full.
    batches_ms = sorted(ms for one in trips for ms in one.batches_ms[:-1] or one.batches_ms)
    return {
        "delivered": trip.delivered,
        "wire_bytes": wire_bytes,
        "cpu_s_per_million": _mapped(cpu_s, lambda seconds: round(seconds, 3)),
        "events_per_cpu_s": _mapped(cpu_s, lambda seconds: round(1e6 / seconds)),
        "batch_events": round(trip.delivered / len(trip.batches_ms)),
        "batch_ms": {f"p{percent}": round(_percentile(batches_ms, percent), 2) for percent in (50, 99)},
    }


def _mapped(nested: dict[str, dict[str, float]], change: Callable[[float], float]) -> dict[str, dict[str, float]]:
    return {name: {inner: change(value) for inner, value in of.items()} for name, of in nested.items()}


def _percentile(ordered: list[float], percent: int) -> float:
    return ordered[math.ceil(percent / 100 * len(ordered)) - 1]


def table(figures: dict[str, Any]) -> str:
    """The figures as tables that a person can read."""
    lines = [
        f"{figures['file']}: {figures['events']:,} events, {figures['bytes']:,} bytes, {figures['json_events']:,} JSON",
        f"parsing every event once: {figures['parse_cpu_s_per_million']} CPU s per million",
    ]
    for view in VIEWS:
        for wire in WIRES:
            title = f"{view}, {wire}"
            lines += [
                "",
                f"{title:<18}{'CPU s/million':>14}{'events/CPU s':>14}{'wire bytes':>14}{'design faster':>15}",
            ]
            for name, of in figures["variants"].items():
                ratio = figures["design_is_faster_by"][view][wire].get(name)
                lines.append(
                    f"  {name:<16}{of['cpu_s_per_million'][view][wire]:>14.3f}{of['events_per_cpu_s'][view][wire]:>14,}"
                    f"{of['wire_bytes'][wire]:>14,}{f'{ratio:.2f} x' if ratio else '':>15}  {VARIANTS[name]}"
                )
    lines += ["", "one batch (512 KiB on the wire, zstd), made and read, milliseconds of the wall clock"]
    for name, of in figures["variants"].items():
        p50, p99 = of["batch_ms"].values()
        lines.append(f"  {name:<16}  p50 {p50:>8.2f}   p99 {p99:>8.2f}   {of['batch_events']:>7,} events")
    lines.append("")
    for target in figures["targets"]:
        verdict = "met" if target["met"] else "MISSED"
        where = f"{target['view']}, {target['wire']}"
        lines.append(f"target {target['target']:.0f} x {target['than']:<13} {where:<17} {target['is']:>6} x  {verdict}")
    return "\n".join(lines)


def main() -> None:
    """Parse the command line and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.exchange", description=__doc__.split("\n\n")[0])
    parser.add_argument("file", type=Path, help="a log file, gzipped or plain (python -m bench.generate makes some)")
    parser.add_argument("--events", type=int, default=EVENTS, metavar="N", help=f"its first N events ({EVENTS})")
    parser.add_argument("--repeat", type=int, default=REPETITIONS, metavar="N", help=f"the best of N ({REPETITIONS})")
    options = parser.parse_args()
    figures = run(options.file, options.events, options.repeat)
    print(table(figures), file=sys.stderr)
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
