"""The report's generator: pages are made of kept results only, say what was missed, and one run leaves the others."""

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from bench.report import __main__ as report
from bench.report import page, runs
from bench.report.experiments import EXPERIMENTS
from bench.report.interruption import crash_figures
from bench.report.model import Command, Experiment, Plot, Result, Table, Verdict, last_json

FOLDER = Path(report.__file__).parent


def experiment(name: str = "speed", *arguments: str) -> Experiment:
    """One with a table, a plot, and a target that 40 misses and 50 meets."""
    return Experiment(
        name,
        f"How it does: {name}",
        "Somebody measured 60.",
        "It is run.",
        [Command("one", arguments or ("bench.capacity", "--gb-per-day", "7"))],
        lambda result: [Table("Figures", ("what", "value"), [("events", str(result.figures["one"]["value"]))])],
        lambda result: [Plot(name, "Drawn", "x", "y", {"a": [("k", result.figures["one"]["value"])]})],
        lambda result: [Verdict("events/s", result.figures["one"]["value"], 50, "a second", at_most=False)],
        ["Mind the gap."],
    )


def result(name: str = "speed", value: float = 40) -> Result:
    return Result(
        name,
        "2026-11-21 12:00 UTC",
        3.0,
        {"processor": "Abacus"},
        {"Python": "3.13"},
        0.25,
        0.25,
        {"one": "python -m bench.it"},
        {"one": {"value": value}},
    )


def written(folder: Path, *results: Result, experiments: tuple[Experiment, ...] = (experiment(),)) -> str:
    for one in results:
        runs.keep(one, folder / page.RESULTS)
    page.write(experiments, folder)
    return (folder / page.PAGE).read_text(encoding="utf-8")


def test_a_page_has_the_figures_the_machine_the_method_and_the_caveats(tmp_path: Path) -> None:
    text = written(tmp_path, result(value=1234))
    for said in ("| events | 1234 |", "Abacus", "Python 3.13", "It is run.", "Mind the gap.", "`python -m bench.it`"):
        assert said in text
    assert "![Drawn](speed.svg)" in text
    assert "<svg" in (tmp_path / "speed.svg").read_text(encoding="utf-8")


def test_a_missed_target_is_said_with_value_and_target_where_it_is_met_nothing_stands_out(tmp_path: Path) -> None:
    missed = written(tmp_path / "missed", result(value=40))
    assert missed.count("events/s: 40 a second, target at least 50 a second: **MISSED**") == 2  # above, and in place
    assert "0 of 1 met" in missed
    met = written(tmp_path / "met", result(value=50))
    assert "MISSED" not in met
    assert "1 of 1 met" in met
    assert "events/s: 50 a second, target at least 50 a second: met" in met


@pytest.mark.parametrize(
    ("value", "at_most", "met"), [(4, True, True), (5, True, True), (6, True, False), (6, False, True)]
)
def test_a_target_is_met_up_to_itself(value: float, at_most: bool, met: bool) -> None:
    assert Verdict("x", value, 5, at_most=at_most).met == met


def test_an_experiment_without_a_run_says_so(tmp_path: Path) -> None:
    text = written(tmp_path)
    assert "**No run yet.** `make bench ONLY=speed`" in text
    assert not list(tmp_path.glob("*.svg"))


def test_what_failed_is_said_and_what_does_not_fit_is_not_shown(tmp_path: Path) -> None:
    failed = replace(result(), figures={}, errors={"one": "exit status 1: no"})
    text = written(tmp_path, failed)
    assert "**Failed:** `python -m bench.it`: exit status 1: no" in text
    assert "These figures cannot be shown whole" in text
    assert "1 runs failed" in text


def test_results_of_two_machines_are_told_apart(tmp_path: Path) -> None:
    other = replace(result("size"), machine={"processor": "Difference Engine"})
    text = written(tmp_path, result(), other, experiments=(experiment(), experiment("size")))
    assert "* processor Abacus, Python 3.13: speed" in text
    assert "* processor Difference Engine, Python 3.13: size" in text


def test_the_same_figures_make_the_same_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        written(tmp_path / name, result())
    assert (tmp_path / "a/speed.svg").read_bytes() == (tmp_path / "b/speed.svg").read_bytes()


def test_scaling_is_by_the_mean_of_both_yardsticks() -> None:
    assert replace(result(), yardstick_before=0.8, yardstick_after=1.2).scale == pytest.approx(0.5)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A report of two experiments, with results of both."""
    both = (experiment(), experiment("size"))
    monkeypatch.setattr(report, "FOLDER", tmp_path)
    monkeypatch.setattr(report, "EXPERIMENTS", both)
    monkeypatch.setattr(runs, "YARDSTICK_EVENTS", 2000)
    written(tmp_path, result(), result("size", 60), experiments=both)
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["report", *arguments])
    with pytest.raises(SystemExit) as ended:
        report.main()
    return int(ended.value.code or 0)


def test_one_experiment_is_run_and_the_others_figures_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = (folder / "results/size.json").read_bytes()
    assert run(monkeypatch, "--only", "speed") == 0
    assert (folder / "results/size.json").read_bytes() == other
    kept = Result.read((folder / "results/speed.json").read_text(encoding="utf-8"))
    assert kept.figures["one"]["volumes"][0]["gb_per_day"] == 7
    assert kept.commands == {"one": "python -m bench.capacity --gb-per-day 7"}
    assert kept.yardstick_before > 0
    assert "| events | 60 |" in (folder / page.PAGE).read_text(encoding="utf-8")


def test_rendering_runs_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / page.PAGE).write_text("typed by hand", encoding="utf-8")
    assert run(monkeypatch, "--render") == 0
    assert "| events | 40 |" in (folder / page.PAGE).read_text(encoding="utf-8")


def test_a_failed_command_is_kept_without_paths_and_is_the_exit_status(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = experiment("speed", "bench.capacity", "--measured", str(runs.ROOT / "none.json"))
    monkeypatch.setattr(report, "EXPERIMENTS", (broken,))
    assert run(monkeypatch) == 1
    kept = Result.read((folder / "results/speed.json").read_text(encoding="utf-8"))
    assert kept.errors["one"].startswith("exit status 1: capacity: none.json is no kept result")
    assert str(runs.ROOT) not in kept.errors["one"]


def test_names_are_files_and_unique() -> None:
    names = [one.name for one in EXPERIMENTS]
    assert len({*names}) == len(names)
    assert all(name.isidentifier() for name in names)


def test_the_committed_page_is_what_the_committed_results_make(tmp_path: Path) -> None:
    """After a change to an experiment's texts: python -m bench.report --render."""
    for file in (FOLDER / page.RESULTS).glob("*.json"):
        runs.keep(Result.read(file.read_text(encoding="utf-8")), tmp_path / page.RESULTS)
    page.write(EXPERIMENTS, tmp_path)
    assert (tmp_path / page.PAGE).read_text(encoding="utf-8") == (FOLDER / page.PAGE).read_text(encoding="utf-8")
    assert {file.name for file in tmp_path.glob("*.svg")} == {file.name for file in FOLDER.glob("*.svg")}


def test_a_kept_result_is_what_was_kept(tmp_path: Path) -> None:
    runs.keep(result(), tmp_path)
    assert Result.read((tmp_path / "speed.json").read_text(encoding="utf-8")) == result()
    assert json.loads((tmp_path / "speed.json").read_text(encoding="utf-8")) == asdict(result())


def test_figures_are_the_last_json_object_or_none() -> None:
    assert last_json('log\n{"a": 1}\n{"a": 2}\nthe end\n') == {"a": 2}
    with pytest.raises(ValueError, match="no JSON"):
        last_json("nothing\n")


def test_the_crash_harness_says_what_it_tried() -> None:
    said = "python -m …: lost\n61 points, 180 cases tried in 70 s, 1 failed\n"
    assert crash_figures(said) == {"points": 61, "cases": 180, "seconds": 70, "failed": 1}
    with pytest.raises(ValueError, match="did not say"):
        crash_figures("")
