"""Timestamps: what a document's `@timestamp` says, as Unix milliseconds."""

from datetime import UTC, datetime
from functools import lru_cache

from logflume.limits import TIME_MAX_MS

# Years that a millisecond count must fall in to be taken for one (OpenSearch reads bare numbers as epoch_millis).
_MIN_MS = 0
_DAY_MS = 86_400_000

_PARTITIONS = {"day": "%Y.%m.%d", "month": "%Y.%m", "none": ""}


def from_value(value: object) -> int | None:
    """Milliseconds of a JSON value: an ISO 8601 string (UTC where it names no zone) or epoch milliseconds."""
    if isinstance(value, str):
        return _from_iso(value)
    if isinstance(value, int) and not isinstance(value, bool) and _MIN_MS <= value <= TIME_MAX_MS:
        return value
    return None


def _from_iso(text: str) -> int | None:
    if len(text) < 10 or text[4] != "-" or " " in text:  # fromisoformat takes more than OpenSearch's strict format
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    milliseconds = int(moment.timestamp() * 1000)
    return milliseconds if _MIN_MS <= milliseconds <= TIME_MAX_MS else None


def to_iso(milliseconds: int) -> str:
    """`2026-11-21T07:25:00.000Z`."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC).isoformat()[:19]}.{rest:03d}Z"  # strftime takes four times as long


def partition(milliseconds: int, by: str) -> str:
    """The index's date: `2026.11.21` by day, `2026.11` by month, empty for none."""
    return _day(milliseconds // _DAY_MS, by)


@lru_cache(4096)
def _day(number: int, by: str) -> str:
    return datetime.fromtimestamp(number * _DAY_MS // 1000, UTC).strftime(_PARTITIONS[by])
