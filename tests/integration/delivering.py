"""One delivery on the production path, `Bulk` over `SearchClient`, with a clock that only its pauses move."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from logflume.bulk import Bulk, Delivery, Operations
from logflume.search import Endpoint, SearchClient

FAR = 1e12
TIMEOUT_S = 5.0


class Clock:
    """Monotonic seconds; `mend` is called at every pause with the number of pauses so far."""

    def __init__(self, mend: Callable[[int], None] = lambda pauses: None) -> None:
        self.now = 0.0
        self.pauses = 0
        self._mend = mend

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pauses += 1
        self._mend(self.pauses)


def operations(index: str, sources: Iterable[Any]) -> Operations:
    """A `create` for each document; those that are bytes stand as they are. Ids are 000, 001, …"""
    lines = [
        b'{"create":{"_index":"%b","_id":"%03d"}}\n%b\n'
        % (index.encode(), number, source if isinstance(source, bytes) else json.dumps(source).encode())
        for number, source in enumerate(sources)
    ]
    return Operations(lines, len(lines))


def ids(count: int, *without: int) -> list[str]:
    """The ids of so many operations, except some."""
    return [f"{number:03d}" for number in range(count) if number not in without]


def deliver(
    url: str,
    given: Operations,
    *,
    mend: Callable[[int], None] = lambda pauses: None,
    tolerant: bool = False,
    timeout_s: float = TIMEOUT_S,
    damage: Callable[[bytes], bytes] = lambda body: body,
) -> Delivery:
    """Deliver; `mend` is called at every pause, `damage` changes a body on its way."""
    client = SearchClient(Endpoint(url), timeout_s=timeout_s)

    class Sender:
        def bulk(self, body: bytes) -> tuple[int, str]:
            return client.bulk(damage(body))

    clock = Clock(mend)
    try:
        return Bulk(Sender(), clock=clock, sleep=clock.sleep).deliver(given, deadline=FAR, tolerant=tolerant)
    finally:
        client.close()
