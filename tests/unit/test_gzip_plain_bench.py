"""The benchmarks of gzip against plain, and of two processes: files are what they say, and ratios are right."""

from pathlib import Path
from typing import Any

import pytest
from isal import isal_zlib

from bench import gzip_plain, scaling
from bench.sink import Body


@pytest.mark.parametrize("kind", ["static", "random"])
def test_gzip_and_plain_hold_the_same_lines(tmp_path: Path, kind: str) -> None:
    plain, gzipped = tmp_path / "a.log", tmp_path / "a.log.gz"
    for path in (plain, gzipped):
        gzip_plain.write(kind, 2, path)
    data = plain.read_bytes()
    assert isal_zlib.decompress(gzipped.read_bytes(), 31) == data
    assert len(data) == 2_000_000
    assert {len(line) for line in data.split(b"\n")[:-1]} == {gzip_plain.LINE_BYTES - 1}
    # Random letters of 64 lose a quarter, not more: no line is there twice within gzip's reach.
    assert (gzipped.stat().st_size > 1_400_000) == (kind == "random")


def test_the_ratio_is_gzip_over_plain_of_the_best_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu_s = {".gz": iter([9.0, 3.0, 8.0, 8.0, 8.0] * 2), ".log": iter([4.0, 2.0, 7.0, 7.0, 7.0] * 2)}

    def pipeline(path: Path) -> dict[str, Any]:
        reader = next(cpu_s[path.suffix])
        return {"reader_cpu_s": reader, "indexer_cpu_s": 1.0, "events": 1000, "max_rss_mb": 50, "baseline_rss_mb": 40}

    monkeypatch.setattr(gzip_plain, "pipeline", pipeline)
    monkeypatch.setattr(gzip_plain, "large_and_many", lambda large, many: [])
    monkeypatch.setattr(gzip_plain, "concurrency", list)
    figures = gzip_plain.run([1])
    assert [one["ratio"] for one in figures["gzip_over_plain"]] == [round(4 / 3, 3)] * 2
    assert {row["events_per_cpu_s"] for row in figures["rows"]} == {250, 333}


def test_a_cap_shares_all_objects_among_as_many_readers_and_sums_their_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def run(objects: dict[str, Body]) -> dict[str, Any]:
        read.extend(objects)
        return {"events": len(objects), "seconds": len(objects) / 10, "peak_mb": 60.0, "over_idle_mb": len(objects)}

    monkeypatch.setattr(gzip_plain.memory, "run", run)
    found = gzip_plain.concurrency(objects=5, size_mb=1)
    assert [(row["format"], row["cap"]) for row in found] == [
        (name, cap) for name in ("gzip", "plain") for cap in gzip_plain.CAPS
    ]
    assert len(read) == 5 * len(found)
    assert len(set(read)) == 5
    one, two, four = found[:3]
    assert (one["over_idle_mb_each"], two["over_idle_mb_each"], four["over_idle_mb_each"]) == ([5, 5], [2, 3], [1, 2])
    assert [row["events_per_s"] for row in (one, two, four)] == [10, 17, 25]
    assert [row["peak_mb"] for row in (one, two, four)] == [60, 120, 240]
    assert {row["over_idle_mb"] for row in found} == {5}


def test_speed_up_is_against_one_and_the_model_ends_at_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    def together(paths: list[Path]) -> dict[str, float]:
        # One process takes 2 s and one and a half cores; two take 3 s.
        count = len(paths)
        return {"seconds": count + 1.0, "events": count * 100, "cpu_s": count * 2.0, "all_cpu_s": count * 3.0}

    monkeypatch.setattr(scaling, "together", together)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    one, two = scaling.run(events=10, repetitions=1)["rows"]
    assert (one["speed_up"], one["modelled"]) == (1, 1)
    assert (two["speed_up"], two["modelled"]) == (pytest.approx(4 / 3, abs=1e-3), pytest.approx(4 / 3, abs=1e-3))


def test_processes_begin_together_and_all_their_events_count(tmp_path: Path) -> None:
    paths = [tmp_path / f"access-{number}.gz" for number in range(2)]
    for path in paths:
        scaling.generate.write("access", 50, path)
    found = scaling.together(paths)
    assert found["events"] == 100
    assert found["seconds"] > 0
    assert found["all_cpu_s"] >= found["cpu_s"] > 0
