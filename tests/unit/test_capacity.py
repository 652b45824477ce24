"""The capacity model: right where it can be worked out by hand, never less for more; its first quota is the first."""

import json
import math
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import capacity, cost
from bench.bill import ACCESS_LOG, Measured, Workload, total
from bench.capacity import QUOTAS, estimate, first_quotas, measured_by
from infra.config.settings import load
from logflume.indexer import SENDERS
from logflume.limits import MIB

SETTINGS = load({"opensearch_endpoint": "https://search.example.com"})
# 1,000 raw bytes an event, a tenth of it on the wire, no CPU.
LIGHT = Measured(10**6, 10**9, 10**8, 10**8, 0.0, 0.0)
MIB_S = 10 * MIB * 86_400 / 1e9  # raw GB a day whose wire bytes are 1 MiB/s


def test_shards_are_wire_bytes_a_second_in_mib() -> None:
    assert estimate(Workload(MIB_S * 0.999, peak=1), LIGHT, SETTINGS)["shards"] == 1
    assert estimate(Workload(MIB_S * 1.001, peak=1), LIGHT, SETTINGS)["shards"] == 2
    assert estimate(Workload(MIB_S * 0.999, peak=3), LIGHT, SETTINGS)["shards"] == 3


def test_there_are_shards_for_ten_indexers_each() -> None:
    heavy = Measured(10**6, 10**9, 10**8, 10**8, 0.0, 1e5)
    found = estimate(Workload(MIB_S, peak=1), heavy, SETTINGS)
    assert found["indexers"] > 1000
    assert found["shards"] == math.ceil(found["indexers"] / capacity.SHARD_INVOCATIONS)


def test_so_many_at_a_time_as_seconds_of_work_come_in_a_second() -> None:
    # 86.4 GB a day are 1 MB/s; objects of 1 MB come once a second.
    found = estimate(Workload(86.4, object_mb=1, peak=1), Measured(10**3, 10**6, 10**5, 10**5, 100.0, 200.0), SETTINGS)
    assert found["raw_mb_s"] == pytest.approx(1)
    assert found["events_s"] == 1000
    reader_s = 100 * cost.CPU_FACTOR * cost.READER_WAITING + cost.OBJECT_S
    indexer_s = 200 * cost.CPU_FACTOR + 1000 * cost.OPENSEARCH_S_PER_EVENT / SENDERS + cost.INVOCATION_S
    assert found["readers"] == math.ceil(reader_s)
    assert found["indexers"] == math.ceil(indexer_s)
    assert found["uses"]["lambda_concurrency"] == pytest.approx(reader_s + indexer_s)
    assert found["uses"]["s3_gets"] == pytest.approx(1)
    assert found["uses"]["dynamodb_writes"] == pytest.approx(cost.OBJECT_WRITE_UNITS)


def test_dollars_are_those_of_the_cost_model() -> None:
    volume = Workload(100)
    bill = total(cost.deployment(volume, ACCESS_LOG, SETTINGS))
    assert estimate(volume, ACCESS_LOG, SETTINGS)["dollars_per_raw_gb"] == pytest.approx(bill / volume.gb)


@given(st.floats(0.1, 1e6), st.floats(1, 10), st.floats(1, 1e4))
def test_more_never_needs_less(gb: float, factor: float, object_mb: float) -> None:
    few, many = (estimate(Workload(volume, object_mb=object_mb), ACCESS_LOG, SETTINGS) for volume in (gb, gb * factor))
    assert all(few[name] <= many[name] for name in ("shards", "readers", "indexers", "opensearch_cores", "events_s"))
    assert all(use <= many["uses"][name] for name, use in few["uses"].items())


def test_quotas_are_in_the_order_in_which_they_are_reached_and_full_there() -> None:
    found = first_quotas(ACCESS_LOG, SETTINGS, object_mb=64, peak=3)
    reached = [one["reached_at_gb_per_day"] for one in found]
    assert reached == sorted(reached)
    assert {one["quota"] for one in found} == {quota.name for quota in QUOTAS.values()}
    there = estimate(Workload(reached[0]), ACCESS_LOG, SETTINGS)
    assert there["first_quota"] == found[0]["quota"]
    assert there["first_quota_share"] == pytest.approx(1, rel=1e-3)


def test_a_gigabyte_to_a_petabyte_is_said() -> None:
    figures = capacity.run(ACCESS_LOG)
    assert [figures["volumes"][place]["gb_per_day"] for place in (0, -1)] == [1, 1_000_000]
    assert len(capacity.table(figures).splitlines()) == 1 + len(figures["volumes"]) + len(QUOTAS)


@pytest.mark.parametrize("option", ["--gb-per-day", "--object-mb", "--peak"])
def test_options_are_numbers_above_zero(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["capacity", option, "0"])
    with pytest.raises(SystemExit) as ended:
        capacity.main()
    assert ended.value.code == 2


def test_what_was_measured_comes_from_the_kept_result(tmp_path: Path) -> None:
    figures = {name: getattr(ACCESS_LOG, name) for name in Measured.__dataclass_fields__}
    kept = tmp_path / "pipeline.json"
    kept.write_text(json.dumps({"figures": {"access, parsed": {**figures, "file": "access.gz"}}}), encoding="utf-8")
    assert measured_by(kept) == ACCESS_LOG


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"figures": {"access, parsed": {}}}', '{"figures": 7}'])
def test_what_is_no_result_is_refused_by_name(tmp_path: Path, text: str) -> None:
    kept = tmp_path / "pipeline.json"
    kept.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match=r"pipeline\.json is no kept result"):
        measured_by(kept)
