"""The targets' benchmark, on a few events: every source is run, and the report says what was met."""

import json
from pathlib import Path

import pytest

from bench.targets import TARGETS, Bench, Result, report


def test_every_source_is_run_and_told_by_its_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench(tmp_path, events=300, yardstick_events=2000)
    report(bench.run(name, 1) for name in TARGETS)
    printed = capsys.readouterr()
    figures = json.loads(printed.out)
    assert {name: one["target"] for name, one in figures.items()} == {
        name: target.cpu_s_per_million for name, target in TARGETS.items()
    }
    assert all(one["scaled"] > 0 and one["yardstick"] > 0 for one in figures.values())
    assert [line.split()[0] for line in printed.err.splitlines()] == ["source", *TARGETS]


def test_a_target_is_met_up_to_itself(capsys: pytest.CaptureFixture[str]) -> None:
    report([Result("a", 5.0, 5.0, 2.0, 3.0, 0.5), Result("b", 5.0, 5.001, 2.0, 3.001, 0.5)])
    printed = capsys.readouterr()
    assert [one["met"] for one in json.loads(printed.out).values()] == [True, False]
    assert [line.split()[-1] for line in printed.err.splitlines()[1:]] == ["met", "missed"]
