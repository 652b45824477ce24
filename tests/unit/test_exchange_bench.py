"""The exchange benchmark, on a few events: every variant delivers the same, and the figures are complete."""

import gc
import gzip
import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bench import exchange, hops
from bench.generate import lines
from bench.hops import DESIGN, VARIANTS, Codec, Coded, Watch
from logflume.limits import EVENT_MAX_BYTES

EVENTS = [
    b'{"a":1,"b":[1.5,null,true,"\xc3\xbc"],"c":{"d":"\\u2028 \\n \\""}}',
    b"plain text with \xc3\xbc and \xff",
    b'{"broken": ',
    b"[1, 2]",
    b"{}",
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "mixed.log.gz"
    path.write_bytes(gzip.compress(b"\n".join([*EVENTS, b"", *lines("eve", 200), *lines("access", 200)]) + b"\n"))
    return path


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_delivers_exactly_the_same_events(name: str) -> None:
    events = [*EVENTS, *lines("eve", 3000), *lines("access", 3000)]
    hop, parts = hops.hops()[name], list(hops.parts(events, Watch()))
    assert len(parts) > 1
    for part in parts:
        hop.send(part)
    hop.close()
    received = [one for data in hop.batches for one in hop.receive(data)]
    if name == DESIGN:
        assert [event for piece in received for event in piece.events] == events
        offsets = [offset for piece in received for offset in piece.offsets]
        assert [b - a - 1 for a, b in pairwise(offsets)] == [len(event) for event in events[:-1]]
        received = [hops.parse(event) for piece in received for event in piece.events]
    assert received == [hops.parse(event) for event in events]


def test_text_and_what_is_no_json_object_travels_as_a_message() -> None:
    assert [hops.parse(event) for event in EVENTS] == [
        {"a": 1, "b": [1.5, None, True, "ü"], "c": {"d": '\u2028 \n "'}},
        {"message": "plain text with ü and \ufffd"},
        {"message": '{"broken": '},
        {"message": "[1, 2]"},
        {},
    ]


def test_the_records_of_a_cloudtrail_document_are_events(tmp_path: Path) -> None:
    records = list(lines("cloudtrail", 5))
    path = tmp_path / "trail.json"
    path.write_bytes(b'{"Records":[' + b",".join(records) + b"]}")
    assert list(hops.raw_events(path)) == records


def test_lines_are_whole_across_the_steps_in_which_a_file_is_read(tmp_path: Path) -> None:
    events = [b"x" * 700_000, b"y" * 900_000, b"z" * 2_500_000, b"end"]
    path = tmp_path / "long.log"
    path.write_bytes(b"\n".join(events))
    assert list(hops.raw_events(path)) == events


def test_the_figures_are_complete(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["exchange", str(log), "--repeat", "2"])
    exchange.main()
    out, err = capsys.readouterr()
    figures: dict[str, Any] = json.loads(out)
    assert (figures["file"], figures["events"], figures["json_events"]) == ("mixed.log.gz", 405, 203)
    assert list(figures["variants"]) == list(VARIANTS)
    for name, of in figures["variants"].items():
        assert of["delivered"] == 405
        for view in ("hop", "hop+parse"):
            assert set(of["cpu_s_per_million"][view]) == set(of["events_per_cpu_s"][view]) == {"zstd", "plain", "mixed"}
            assert min(of["cpu_s_per_million"][view].values()) >= 0
        assert of["wire_bytes"]["zstd"] < of["wire_bytes"]["plain"]
        assert of["wire_bytes"]["mixed"] == of["wire_bytes"]["zstd" if name == DESIGN else "plain"]
        assert of["batch_ms"]["p50"] <= of["batch_ms"]["p99"]
        assert f"\n  {name} " in err
    assert [(t["view"], t["wire"], t["than"], t["target"]) for t in figures["targets"]] == [
        (view, wire, than, target)
        for view in ("hop", "hop+parse")
        for wire in ("zstd", "plain", "mixed")
        for than, target in (("json", 5.0), ("json_msgspec", 2.0))
    ]
    for target in figures["targets"]:
        ratio = figures["design_is_faster_by"][target["view"]][target["wire"]][target["than"]]
        assert target["is"] == ratio
        assert target["met"] is (ratio >= target["target"])
    assert err.count("target ") == err.count("MISSED") + err.count(" met") == 12


def test_only_the_first_events_are_taken(log: Path) -> None:
    assert exchange.run(log, limit=7, repetitions=1)["events"] == 7


def test_a_variant_that_loses_or_changes_an_event_ends_the_benchmark(log: Path) -> None:
    (part,) = hops.parts(hops.raw_events(log), Watch())
    good = hops.codecs()["json"]
    for decode, complaint in (
        (lambda content: good.decode(content)[:-1], "lost 1 events"),
        (lambda content: [{}, *good.decode(content)[1:]], "delivered other events"),
    ):
        trip = exchange.Trip("json", Coded(Codec(good.encode, decode)))
        trip.carry(part)
        with pytest.raises(SystemExit, match=complaint):
            trip.finish()


def test_nothing_to_measure_is_said(tmp_path: Path) -> None:
    path = tmp_path / "empty.log"
    path.write_bytes(b"\n\n")
    with pytest.raises(SystemExit, match="no events"):
        exchange.run(path)
    path.write_bytes(b"x" * (EVENT_MAX_BYTES + 1))
    with pytest.raises(SystemExit, match="the limit"):
        exchange.run(path)


def test_the_collector_is_on_again_afterwards(log: Path) -> None:
    exchange.run(log, repetitions=1)
    assert gc.isenabled()
