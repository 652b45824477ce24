"""The cost model: its sums are sums, more work never costs less, and each formula is right where it can be checked."""

import json
import math
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import cost
from bench.bill import ACCESS_LOG, SECONDS, Measured, Term, Workload, total
from bench.cost import deployment, firehose, on_demand, provisioned
from infra import pricing
from infra.config.settings import load

SETTINGS = load({"opensearch_endpoint": "https://search.example.com"})
FAR_MORE = 1e5  # GB a day

workloads = st.builds(
    Workload,
    gb_per_day=st.floats(0.001, FAR_MORE),
    object_mb=st.floats(0.001, 1e6),
    peak=st.floats(1, 100),
    vpc_zones=st.integers(0, 6),
)
kinds = st.builds(
    Measured,
    events=st.integers(1, 10**7),
    bytes=st.integers(10**6, 10**9),
    wire_bytes=st.integers(1, 10**8),
    body_bytes=st.integers(1, 10**8),
    reader_cpu_s=st.floats(0.001, 1000),
    indexer_cpu_s=st.floats(0.001, 1000),
)


def bill(load: Workload, measured: Measured = ACCESS_LOG) -> float:
    return total(deployment(load, measured, SETTINGS))


def terms(volume: Workload, **changed: str) -> dict[str, Term]:
    settings = load({"opensearch_endpoint": "https://search.example.com", **changed})
    return {f"{term.service}: {term.what}": term for term in deployment(volume, ACCESS_LOG, settings)}


@given(workloads, kinds)
def test_every_term_is_a_quantity_times_a_price_and_the_bill_is_their_sum(load: Workload, kind: Measured) -> None:
    all_terms = deployment(load, kind, SETTINGS)

    assert all(term.quantity >= 0 and term.price > 0 for term in all_terms)
    assert total(all_terms) == pytest.approx(sum(term.quantity * term.price for term in all_terms))
    reported = cost.estimate(load, kind, SETTINGS)["logflume"]
    assert reported["month"] == pytest.approx(sum(term["dollars"] for term in reported["terms"]), abs=0.01)


@given(workloads, st.floats(1.0, 100.0), kinds)
def test_more_data_never_costs_less(load: Workload, times: float, kind: Measured) -> None:
    more = Workload(load.gb_per_day * times, load.object_mb, load.peak, load.vpc_zones)
    assert bill(more, kind) >= bill(load, kind) * (1 - 1e-9)


@given(workloads, st.floats(1.0, 1000.0))
def test_the_same_data_in_smaller_objects_never_costs_less_but_for_its_checkpoints(
    load: Workload, times: float
) -> None:
    smaller = Workload(load.gb_per_day, load.object_mb / times, load.peak, load.vpc_zones)
    checkpoints = load.gb * pricing.GB / cost.CHECKPOINT_BYTES * cost.CHECKPOINT_WRITE_UNITS
    assert bill(smaller) >= bill(load) - checkpoints * pricing.DYNAMODB_PER_WRITE_UNIT - 1e-6


@given(workloads, st.floats(1.0, 50.0))
def test_a_higher_peak_never_costs_less_and_on_demand_does_not_mind_it(load: Workload, times: float) -> None:
    higher = Workload(load.gb_per_day, load.object_mb, load.peak * times, load.vpc_zones)
    assert bill(higher) >= bill(load) - 1e-9
    assert cost.shards_needed(higher, 1e13) >= cost.shards_needed(load, 1e13)


@given(workloads, kinds)
def test_the_stream_is_in_its_cheaper_mode(load: Workload, kind: Measured) -> None:
    wire = load.gb * pricing.GB * kind.wire_bytes / kind.bytes
    both = total(on_demand(wire, SETTINGS)), total(provisioned(load, wire, 1, SETTINGS))
    assert total(cost.stream(load, wire, 1, SETTINGS)) == min(both)


def test_shards_are_counted_by_the_busiest_hour() -> None:
    a_mib_each_second = SECONDS * cost.MIB
    steady, peaky = Workload(1, peak=1), Workload(1, peak=2.5)
    assert cost.shards_needed(steady, a_mib_each_second) == 1
    assert cost.shards_needed(steady, a_mib_each_second * 1.01) == 2
    assert cost.shards_needed(peaky, a_mib_each_second) == 3


def test_a_provisioned_stream_is_shards_put_units_and_retention() -> None:
    got = provisioned(Workload(1, peak=1), 25_600 * 1000, 1000, SETTINGS)
    assert [term.dollars for term in got] == pytest.approx([730 * 0.015, 1500 * 0.014 / 1e6, 730 * 0.020])


def test_a_stream_that_keeps_a_day_pays_for_no_longer_retention() -> None:
    day = load({"opensearch_endpoint": "https://a.example.com", "stream_retention_hours": "24"})
    assert provisioned(Workload(1), 1e9, 1, day)[-1].dollars == 0
    assert on_demand(1e9, day)[-1].dollars == 0


def test_an_on_demand_stream_is_hours_gb_in_gb_out_and_retention() -> None:
    month_gb = 100.0
    got = [term.dollars for term in on_demand(month_gb * pricing.GB, SETTINGS)]
    assert got == pytest.approx([29.2, 8.0, 4.0, month_gb / (365 / 12) * 6 * 0.10])


def test_the_functions_are_billed_for_memory_times_duration_at_their_own_architectures_price() -> None:
    arm, x86 = terms(Workload(100)), terms(Workload(100), architecture="x86_64")
    large = terms(Workload(100), reader_memory_mb="3538")
    reader = "Lambda: reader, GB-s"
    assert x86[reader].dollars / arm[reader].dollars == pytest.approx(1.25, rel=1e-4)
    assert large[reader].quantity == pytest.approx(2 * arm[reader].quantity)
    # 100 GB a day: CPU of the measured file scaled up, and a share for every object.
    cpu = Workload(100).gb * 1e9 / ACCESS_LOG.bytes * ACCESS_LOG.reader_cpu_s * cost.CPU_FACTOR * cost.READER_WAITING
    objects = Workload(100).gb * 1000 / 64
    assert arm[reader].quantity == pytest.approx((cpu + objects * cost.OBJECT_S) * SETTINGS.reader_memory_mb / 1024)


def test_objects_below_the_checkpoint_interval_write_no_checkpoints() -> None:
    small, large = terms(Workload(1, object_mb=67)), terms(Workload(1, object_mb=671.08864))
    units = "DynamoDB: write units"
    assert small[units].quantity == pytest.approx(Workload(1).gb * 1000 / 67 * cost.OBJECT_WRITE_UNITS)
    per_object = large[units].quantity / (Workload(1).gb * 1000 / 671.08864)
    assert per_object == pytest.approx(cost.OBJECT_WRITE_UNITS + 10 * cost.CHECKPOINT_WRITE_UNITS)


def test_endpoints_cost_only_where_the_functions_are_in_a_vpc() -> None:
    without, two_zones = terms(Workload(1)), terms(Workload(1, vpc_zones=2))
    assert without["VPC: endpoint hours"].dollars == without["VPC: GB through endpoints"].dollars == 0
    assert two_zones["VPC: endpoint hours"].dollars == pytest.approx(cost.VPC_ENDPOINTS * 2 * 730 * 0.01)
    assert two_zones["VPC: GB through endpoints"].quantity > 0


@pytest.mark.parametrize(
    ("event_bytes", "billed"), [(1, 5120), (250, 5120), (5120, 5120), (5121, 10240), (9e5, 901120)]
)
def test_firehose_rounds_every_event_up_to_5_kb(event_bytes: int, billed: int) -> None:
    kind = Measured(1000, int(event_bytes * 1000), 1, 1, 1, 1)
    [term] = firehose(Workload(10), kind)
    assert term.dollars == pytest.approx(Workload(10).gb / event_bytes * billed * 0.029)


@pytest.mark.parametrize(("gb_per_day", "units"), [(0.001, 1), (181, 1), (182, 2), (1000, 6)])
def test_opensearch_ingestion_is_billed_for_one_unit_at_least_and_2_mib_a_second_each(
    gb_per_day: float, units: int
) -> None:
    ocu_hours = cost.opensearch_ingestion(Workload(gb_per_day), ACCESS_LOG)[0]
    assert ocu_hours.dollars == pytest.approx(units * 730 * 0.24)


def test_the_command_prints_one_json_object_with_every_term(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["cost", "--json", "--gb-per-day", "1", "50"])
    cost.main()
    report = json.loads(capsys.readouterr().out)
    assert [one["gb_per_day"] for one in report["estimates"]] == [1, 50]
    for one in report["estimates"]:
        assert one["logflume"]["month"] == pytest.approx(
            sum(term["dollars"] for term in one["logflume"]["terms"]), abs=0.01
        )


def test_the_table_has_a_column_for_each_volume(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "argv", ["cost"])
    cost.main()
    printed = capsys.readouterr().out
    assert all(f"{size} GB a day" in printed for size in ("1", "100", "1,000"))
    assert "VPC" not in printed


def test_measured_figures_come_from_a_report_of_bench_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "pipeline.json"
    figures = {**ACCESS_LOG.__dict__, "events": 2 * ACCESS_LOG.events, "file": "x.gz"}
    report.write_text(json.dumps(figures) + "\n")
    monkeypatch.setattr(sys, "argv", ["cost", "--json", "--gb-per-day", "1", "--measured", str(report)])
    cost.main()
    [one] = json.loads(capsys.readouterr().out)["estimates"]
    assert one["firehose"]["month"] == pytest.approx(2 * 19.80, abs=0.01)


@pytest.mark.parametrize("text", ["", "{}", "[1]", "no JSON"])
def test_what_is_no_report_is_refused_by_its_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "other.json"
    file.write_text(text)
    with pytest.raises(SystemExit, match=r"other\.json is no report of bench\.pipeline"):
        Measured.read(file)


@pytest.mark.parametrize("number", ["0", "-1", "nan", "inf", "much"])
def test_volumes_are_numbers_above_zero(number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["cost", "--gb-per-day", number])
    with pytest.raises(SystemExit) as ended:
        cost.main()
    assert ended.value.code == 2


def test_the_three_sizes_are_finite_and_a_larger_volume_is_cheaper_by_the_gb() -> None:
    per_gb = [bill(Workload(gb)) / Workload(gb).gb for gb in (1, 100, 1000)]
    assert all(math.isfinite(price) for price in per_gb)
    assert per_gb == sorted(per_gb, reverse=True)
