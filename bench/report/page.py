"""REPORT.md: made of the kept results and of nothing else."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.report import plots
from bench.report.model import Experiment, Result, Table, Verdict

PAGE = "REPORT.md"
RESULTS = "results"
_STALE = (LookupError, TypeError, ValueError, AttributeError, ZeroDivisionError)


def write(experiments: Sequence[Experiment], folder: Path) -> None:
    """Write the page and its plots into the folder, from the folder's results."""
    results = {one.name: found for one in experiments if (found := _result(folder, one.name))}
    sections = {one.name: _section(one, results.get(one.name), folder) for one in experiments}
    lines = [
        "# Benchmarks",
        "",
        "Made by `make bench`: every figure below is from a file in [results](results), where what the benches printed",
        "is kept. `make bench ONLY=NAME` runs one experiment again and leaves the others' figures as they were.",
        "",
        *_machines(results),
        *_overview(experiments, results),
        *[line for one in experiments for line in sections[one.name]],
    ]
    (folder / PAGE).write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def _result(folder: Path, name: str) -> Result | None:
    file = folder / RESULTS / f"{name}.json"
    return Result.read(file.read_text(encoding="utf-8")) if file.exists() else None


def _machines(results: Mapping[str, Result]) -> Iterator[str]:
    """Each machine and set of versions that results are from, with the experiments where there are several."""
    kinds: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, result in results.items():
        kinds.setdefault((*result.machine.items(), *result.versions.items()), []).append(name)
    yield "## Machine"
    yield ""
    for facts, names in kinds.items():
        said = ", ".join(f"{name} {value}" for name, value in facts)
        yield f"* {said}" + (f": {', '.join(names)}" if len(kinds) > 1 else "")
    yield ""
    yield (
        "**Calibration.** Machines differ, and this one's speed changes with what else runs on it. So before and after "
        "each experiment a yardstick is measured: inflating access log lines of about 228 bytes with igzip and "
        "compressing them with zstd-1, CPU seconds per million lines, the best of three. Targets in CPU seconds are "
        "for a machine where it is 0.50; figures held against them are scaled so. CPU seconds are of all threads of "
        "the process. Synthetic logs (`bench/generate.py`) are seeded: the same everywhere."
    )
    yield ""


def _overview(experiments: Sequence[Experiment], results: Mapping[str, Result]) -> Iterator[str]:
    yield "## Targets"
    yield ""
    rows, missed = [], []
    for one in experiments:
        verdicts = _verdicts(one, results.get(one.name))
        result = results.get(one.name)
        if result is None:
            rows.append((f"[{one.title}](#{one.name})", "no run yet", "", "", ""))
            continue
        met = sum(verdict.met for verdict in verdicts)
        said = f"{met} of {len(verdicts)} met" if verdicts else "none set"
        yardstick = f"{result.yardstick_before:.2f}, {result.yardstick_after:.2f}"
        failed = f"{len(result.errors)} runs failed" if result.errors else said
        rows.append((f"[{one.title}](#{one.name})", failed, result.began, f"{result.seconds:,.0f} s", yardstick))
        missed += [f"* **{one.title}**: {_said(verdict)}" for verdict in verdicts if not verdict.met]
    yield from _markdown(Table("", ("experiment", "targets", "run", "took", "yardstick before, after"), rows))
    yield "Missed:" if missed else "No target was missed by what has been run."
    yield ""
    yield from missed
    if missed:
        yield ""


def _verdicts(experiment: Experiment, result: Result | None) -> Sequence[Verdict]:
    try:
        return experiment.verdicts(result) if result else []
    except _STALE:
        return []


def _section(experiment: Experiment, result: Result | None, folder: Path) -> Iterator[str]:
    yield f'<a id="{experiment.name}"></a>'
    yield ""
    yield f"## {experiment.title}"
    yield ""
    if experiment.published:
        yield f"*Published:* {experiment.published}"
        yield ""
    yield f"*Method:* {experiment.method}"
    yield ""
    if result is None:
        yield f"**No run yet.** `make bench ONLY={experiment.name}` makes one."
        yield ""
    else:
        yield from _measured(experiment, result, folder)
    for caveat in experiment.caveats:
        yield f"* {caveat}"
    if experiment.caveats:
        yield ""


def _measured(experiment: Experiment, result: Result, folder: Path) -> Iterator[str]:
    for label, error in result.errors.items():
        yield f"**Failed:** `{result.commands[label]}`: {error}"
        yield ""
    try:
        tables, drawn = experiment.tables(result), experiment.plots(result)
        verdicts = experiment.verdicts(result)
    except _STALE:
        yield f"**These figures cannot be shown whole**: `make bench ONLY={experiment.name}` makes new ones."
        yield ""
        return
    for table in tables:
        yield from _markdown(table)
    for plot in drawn:
        yield f"![{plot.title}]({plots.write(plot, folder)})"
        yield ""
    if verdicts:
        for verdict in verdicts:
            yield f"* {_said(verdict)}"
        yield ""
    yield "Run by " + ", ".join(f"`{command}`" for command in result.commands.values()) + "."
    yield ""


def _said(verdict: Verdict) -> str:
    """A verdict in words; what was missed stands out."""
    bound = "at most" if verdict.at_most else "at least"
    unit = f" {verdict.unit}" if verdict.unit else ""
    ending = "met" if verdict.met else "**MISSED**"
    return f"{verdict.what}: {verdict.value:,.4g}{unit}, target {bound} {verdict.target:,.4g}{unit}: {ending}"


def _markdown(table: Table) -> Iterator[str]:
    if table.title:
        yield f"**{table.title}**"
        yield ""
    yield "| " + " | ".join(table.headings) + " |"
    yield "| --- |" + " ---: |" * (len(table.headings) - 1)
    for row in table.rows:
        yield "| " + " | ".join(row) + " |"
    yield ""
