"""The benchmark of gzip against plain on a local cloud: what it drops, how it compares, whose CPU seconds it counts."""

import os
import time
from typing import Any

import pytest

from bench import cloud, gzip_cloud
from bench.cloud import Process


def rows(gzip: list[int], plain: list[int], seconds: float = 100.0) -> list[dict[str, Any]]:
    """A warm-up, which would win, and the rounds."""
    speeds = {"gzip": gzip, "plain": [10**9, *plain]}
    return [
        {
            "format": name,
            "round": number,
            "events_per_s": speed,
            "seconds": seconds if number else 0.1,
            "cpu_s_per_million": 1000 / speed,
        }
        for name, of in speeds.items()
        for number, speed in enumerate(of, start=0 if name == "plain" else 1)
    ]


def test_the_ratio_is_of_medians_and_the_warm_up_is_not_in_it() -> None:
    found = gzip_cloud.compared(rows([95, 100, 300], [100, 80, 110]))
    assert found["events_per_s"] == {"gzip": 100, "plain": 100}
    assert found["gzip_over_plain"] == 1.0
    assert found["gzip_over_plain_by_round"] == [0.95, 1.25, 2.727]
    assert found["noise"] == 0.3
    assert found["cpu_s_per_million"] == {"gzip": 10, "plain": 10}


@pytest.mark.parametrize(("gzip", "no_slower"), [(75, True), (69, False), (200, True)])
def test_gzip_may_be_slower_by_the_noise_of_plain(gzip: int, no_slower: bool) -> None:
    found = gzip_cloud.compared(rows([gzip] * 3, [100, 85, 115]))
    assert found["noise"] == 0.3
    assert found["no_slower_beyond_noise"] is no_slower


def test_the_noise_is_no_less_than_what_one_look_can_miss() -> None:
    found = gzip_cloud.compared(rows([100], [100], seconds=10.0))
    assert found["noise"] == gzip_cloud.LOOK_EVERY_S / 10


def test_every_round_has_both_formats_and_none_is_always_first() -> None:
    (number, _), *counted = gzip_cloud.turns(2)
    assert number == 0
    assert counted == [(1, "gzip"), (1, "plain"), (2, "plain"), (2, "gzip")]


def test_files_have_ten_megabytes_and_differ_by_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(gzip_cloud.bodies(1, 1)[0]) == pytest.approx(10e6, rel=0.02)
    monkeypatch.setattr(gzip_cloud, "OBJECT_EVENTS", 10)
    first, second = gzip_cloud.bodies(1, 2), gzip_cloud.bodies(2, 2)
    assert [body.count(b"\n") for body in first] == [10, 10]
    assert len({*first, *second}) == 4


def test_cpu_seconds_are_between_and_by_part_and_new_processes_count_whole() -> None:
    before = {Process("reader", 1): 5.0, Process("reader", 2): 1.0, Process("indexer", 3): 9.0}
    after = {Process("reader", 1): 6.5, Process("reader", 4): 2.0, Process("opensearch", 5): 3.0}
    assert cloud.spent(before, after) == {"reader": 3.5, "opensearch": 3.0}


def test_cpu_seconds_of_a_process_are_those_that_it_knows_of_itself() -> None:
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    # The kernel's clock has ticks of 10 ms.
    assert cloud.process_cpu_seconds(os.getpid()) == pytest.approx(time.process_time(), abs=0.1)
    with pytest.raises(FileNotFoundError):
        cloud.process_cpu_seconds(2**22 + 1)
