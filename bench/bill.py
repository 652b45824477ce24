"""A bill: terms of quantity times price, for a workload and for what was measured of its kind of log."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

HOURS, DAYS = 730, 365 / 12  # of a month
SECONDS = HOURS * 3600


@dataclass(frozen=True)
class Measured:
    """What `bench.pipeline` measured of one kind of log; sizes in bytes, CPU in seconds of this machine."""

    events: int
    bytes: int
    wire_bytes: int
    body_bytes: int
    reader_cpu_s: float
    indexer_cpu_s: float

    @classmethod
    def read(cls, file: Path) -> Self:
        """The last line of the file: the report that `bench.pipeline` prints. Raises `SystemExit`."""
        try:
            figures = json.loads(file.read_text(encoding="utf-8").splitlines()[-1])
            return cls(**{name: figures[name] for name in cls.__dataclass_fields__})
        except (OSError, IndexError, ValueError, KeyError, TypeError) as error:
            raise SystemExit(f"cost: {file.name} is no report of bench.pipeline: {error!r}") from error


# 500,000 lines of an Apache access log, 228 bytes each, read as the preset apache.access: every line is parsed.
ACCESS_LOG = Measured(500_000, 114_051_120, 17_099_578, 29_123_060, 0.55, 3.1)


@dataclass(frozen=True)
class Workload:
    """Raw GB (10^9 bytes, decompressed) a day, in objects of so many raw MB; the busiest hour over the mean."""

    gb_per_day: float
    object_mb: float = 64.0
    peak: float = 3.0
    vpc_zones: int = 0

    @property
    def gb(self) -> float:
        """Raw GB a month."""
        return self.gb_per_day * DAYS


@dataclass(frozen=True)
class Term:
    """One line of the bill for a month: `quantity` of a unit at `price` dollars each."""

    service: str
    what: str
    quantity: float
    price: float

    @property
    def dollars(self) -> float:
        """A month."""
        return self.quantity * self.price


def total(terms: Iterable[Term]) -> float:
    """Dollars a month."""
    return sum(term.dollars for term in terms)
