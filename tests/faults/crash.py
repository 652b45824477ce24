"""Crash enumeration: the small ingest again and again, each time with another of its calls failing or being the last.

    python -m tests.faults.crash --all                            every point in every mode
    python -m tests.faults.crash --point 137 --mode kill-after    one of them, with every call it made
    python -m tests.faults.crash --list                           the points and what they are

A point is a call to AWS or OpenSearch, in the order of an undisturbed run; runs are deterministic, so its number is its
name. What must hold in the end is in `tests.faults.ingest`.
"""

import random
import time
from collections.abc import Iterator
from typing import Annotated

import typer

from tests.faults.functions import environment
from tests.faults.ingest import Ingest
from tests.faults.interception import Mode

SAMPLE_SEED = 4

app = typer.Typer(add_completion=False)


def points() -> list[str]:
    """The calls of an undisturbed run; the first is point 1."""
    ingest = Ingest()
    problems = ingest.run()
    assert not problems, problems
    return ingest.faults.names


def cases(names: list[str]) -> list[tuple[int, Mode]]:
    """Every point in every mode that makes a difference: Lambda's own calls take effect or they do not."""
    return [
        (point, mode)
        for point, name in enumerate(names, start=1)
        for mode in Mode
        if mode is Mode.KILL_BEFORE or not name.startswith("lambda.")
    ]


def sample(every: list[tuple[int, Mode]], one_in: int) -> list[tuple[int, Mode]]:
    """A part of the cases, always the same one."""
    return sorted(random.Random(SAMPLE_SEED).sample(every, -(-len(every) // one_in)))


def failures(tried: list[tuple[int, Mode]]) -> Iterator[str]:
    """Run the cases; a line for each that did not end as it must, with the command that shows it."""
    for point, mode in tried:
        if problems := Ingest(point, mode).run():
            yield f"python -m tests.faults.crash --point {point} --mode {mode}: {'; '.join(problems)}"


@app.command()
def main(
    point: Annotated[int, typer.Option(min=0, help="Break this call and show every call; 0 breaks none.")] = 0,
    mode: Annotated[Mode, typer.Option(help="How it breaks: refused or answer lost, killed before or after.")] = (
        Mode.KILL_BEFORE
    ),
    everything: Annotated[bool, typer.Option("--all", help="Try every point in every mode.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="Show the points only.")] = False,
) -> None:
    """Break a small ingest at one call or at each in turn, and see whether it still ends as it must."""
    with environment():
        if listed:
            for number, name in enumerate(points(), start=1):
                typer.echo(f"{number:5}  {name}")
        elif everything:
            names, began = points(), time.monotonic()
            tried, found = cases(names), 0
            for failure in failures(tried):
                found += 1
                typer.echo(failure)
            seconds = time.monotonic() - began
            typer.echo(f"{len(names)} points, {len(tried)} cases tried in {seconds:.0f} s, {found} failed")
            raise typer.Exit(bool(found))
        else:
            ingest = Ingest(point, mode)
            problems = ingest.run()
            typer.echo("\n".join([*ingest.faults.trace, *(f"PROBLEM: {problem}" for problem in problems)]))
            typer.echo("ended as it must" if not problems else f"{len(problems)} problems")
            raise typer.Exit(bool(problems))


if __name__ == "__main__":
    app()
