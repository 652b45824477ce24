"""What an experiment is: commands that print figures, and how the figures become tables, plots and verdicts."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from bench.targets import YARDSTICK_CPU_S_PER_MILLION


def last_json(printed: str) -> Any:
    """The figures of a bench: the last JSON object, each in a line, that it printed. Raises `ValueError`."""
    lines = [line for line in printed.splitlines() if line.startswith("{")]
    if not lines:
        raise ValueError("it printed no JSON object")
    return json.loads(lines[-1])


@dataclass(frozen=True)
class Command:
    """One run: the arguments of `python -m`. `@KIND-EVENTS.gz` stands for such a file of `bench.generate`."""

    label: str
    arguments: tuple[str, ...]
    read: Callable[[str], Any] = last_json


@dataclass(frozen=True)
class Result:
    """What is kept of an experiment's run in results/NAME.json; CPU seconds per million lines for the yardstick."""

    name: str
    began: str
    seconds: float
    machine: Mapping[str, str]
    versions: Mapping[str, str]
    yardstick_before: float
    yardstick_after: float
    commands: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> Self:
        """A kept result. Raises `ValueError` or `TypeError` if it is none."""
        return cls(**json.loads(text))

    @property
    def scale(self) -> float:
        """What turns CPU seconds of this run into those of the machine that the targets were set on."""
        return YARDSTICK_CPU_S_PER_MILLION / ((self.yardstick_before + self.yardstick_after) / 2)


@dataclass(frozen=True)
class Table:
    """Rows of cells below their headings; cells are formatted already."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Plot:
    """Series of points by name: bars side by side over what x says, or lines over numbers."""

    name: str
    title: str
    x_label: str
    y_label: str
    series: Mapping[str, Sequence[tuple[Any, float]]]
    kind: Literal["bars", "lines"] = "bars"
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Verdict:
    """A figure against its target, which is the least or the most that it may be."""

    what: str
    value: float
    target: float
    unit: str = ""
    at_most: bool = True

    @property
    def met(self) -> bool:
        """Up to the target itself."""
        return self.value <= self.target if self.at_most else self.value >= self.target


def _nothing(_: Result) -> list[Any]:
    return []


@dataclass(frozen=True)
class Experiment:
    """One section of the report.

    `published` is what others said and where; `method` how it is measured here; `caveats` what it does not show.
    """

    name: str
    title: str
    published: str
    method: str
    commands: Sequence[Command]
    tables: Callable[[Result], Sequence[Table]]
    plots: Callable[[Result], Sequence[Plot]] = _nothing
    verdicts: Callable[[Result], Sequence[Verdict]] = _nothing
    caveats: Sequence[str] = ()
