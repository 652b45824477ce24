"""Running ahead: the same items and the same error, bounded, and no thread left."""

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logflume.ahead import Ahead
from logflume.errors import ObjectGone


@given(st.lists(st.integers()), st.integers(1, 4))
def test_items_come_in_order(items: list[int], depth: int) -> None:
    with Ahead(iter(items), depth=depth, name="t") as ahead:
        assert list(ahead) == items
        assert list(ahead) == []


def test_an_error_comes_after_the_items_before_it_and_again_when_asked_again() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ObjectGone("deleted", "in mid-stream")

    with Ahead(items(), depth=1, name="t") as ahead:
        assert next(ahead) == 1
        for _ in range(2):
            with pytest.raises(ObjectGone):
                next(ahead)


def test_a_consumer_that_takes_nothing_stops_the_producer_at_the_bound() -> None:
    made: list[int] = []
    full = threading.Event()

    def items() -> Iterator[int]:
        for number in range(1000):
            made.append(number)
            if len(made) == 4:  # three in the queue, one in the thread's hand
                full.set()
            yield number

    with Ahead(items(), depth=3, name="t") as ahead:
        assert full.wait(30)
        assert len(made) == 4
        assert next(ahead) == 0


def test_leaving_early_ends_the_thread_and_closes_the_generator() -> None:
    closed = threading.Event()

    def items() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    before = {*threading.enumerate()}
    with Ahead(items(), depth=1, name="t") as ahead:
        next(ahead)
    assert closed.is_set()
    assert {*threading.enumerate()} <= before
