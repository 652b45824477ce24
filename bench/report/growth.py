"""Growth: processes, a model of the capacity that a volume needs, and one of its cost."""

from collections.abc import Sequence

from bench.report.model import Command, Experiment, Plot, Result, Table, Verdict

_WAYS = {"logflume": "Logflume", "firehose": "Data Firehose", "opensearch_ingestion": "OpenSearch Ingestion"}


def _scaling_tables(result: Result) -> Sequence[Table]:
    of = result.figures["scaling"]
    return [
        Table(
            f"{of['events_each']:,} events each, on {of['cores']} cores",
            ("processes", "seconds", "events/s", "speed-up", "the model's", "CPU s/million"),
            [
                (
                    str(row["processes"]),
                    f"{row['seconds']:.2f}",
                    f"{row['events_per_s']:,}",
                    f"{row['speed_up']:.2f}",
                    f"{row['modelled']:.2f}",
                    f"{row['cpu_s_per_million']:.2f}",
                )
                for row in of["rows"]
            ],
        )
    ]


def _scaling_verdicts(result: Result) -> Sequence[Verdict]:
    one, *_, most = result.figures["scaling"]["rows"]
    name = f"{most['processes']} processes"
    return [
        Verdict(f"{name}: CPU per event over one's", most["cpu_s_per_million"] / one["cpu_s_per_million"], 1.15, "x"),
        Verdict(f"{name}: speed-up over the model's", most["speed_up"] / most["modelled"], 0.85, "x", at_most=False),
    ]


def _capacity_tables(result: Result) -> Sequence[Table]:
    of = result.figures["capacity"]
    return [
        Table(
            f"The busiest hour, {of['peak']:g} x the mean, in objects of {of['object_mb']:g} MB; "
            f"lines of {of['bytes_per_event']:.0f} bytes, all parsed",
            (
                "raw GB a day",
                "MB/s",
                "shards",
                "readers",
                "indexers",
                "OpenSearch cores",
                "$/raw GB",
                "first quota, used",
            ),
            [
                (
                    f"{one['gb_per_day']:,}",
                    f"{one['raw_mb_s']:,.2f}",
                    f"{one['shards']:,}",
                    f"{one['readers']:,}",
                    f"{one['indexers']:,}",
                    f"{one['opensearch_cores']:,}",
                    f"{one['dollars_per_raw_gb']:.4f}",
                    f"{one['first_quota']}, {one['first_quota_share']:.1%}",
                )
                for one in of["volumes"]
            ],
        ),
        Table(
            "Quotas (us-east-1) in the order in which they are reached",
            ("quota", "default", "can be raised", "reached at raw TB a day", "source"),
            [
                (
                    one["quota"],
                    f"{one['value']:,} {one['unit']}",
                    "yes" if one["adjustable"] else "no",
                    f"{one['reached_at_gb_per_day'] / 1000:,.0f}",
                    one["source"],
                )
                for one in of["quotas"]
            ],
        ),
    ]


def _capacity_plots(result: Result) -> Sequence[Plot]:
    volumes = result.figures["capacity"]["volumes"]
    series = {
        name: [(one["gb_per_day"], one[name]) for one in volumes]
        for name in ("shards", "readers", "indexers", "opensearch_cores")
    }
    title = "What the busiest hour needs (a model)"
    return [Plot("capacity", title, "raw GB a day", "at a time", series, "lines", log_x=True, log_y=True)]


def _cost_tables(result: Result) -> Sequence[Table]:
    of = result.figures["cost"]
    return [
        Table(
            f"US dollars a month, {of['region']}, prices of {of['prices_of']}",
            ("raw GB a day", *(f"{name}{part}" for name in _WAYS.values() for part in ("", ", per raw GB"))),
            [
                (
                    f"{one['gb_per_day']:,g}",
                    *(cell for way in _WAYS for cell in (f"{one[way]['month']:,.0f}", f"{one[way]['per_raw_gb']:.4f}")),
                )
                for one in of["estimates"]
            ],
        )
    ]


def _cost_plots(result: Result) -> Sequence[Plot]:
    series = {
        name: [(one["gb_per_day"], one[way]["per_raw_gb"]) for one in result.figures["cost"]["estimates"]]
        for way, name in _WAYS.items()
    }
    title = "Cost of a raw GB (a model)"
    return [Plot("cost", title, "raw GB a day", "US dollars", series, "lines", log_x=True, log_y=True)]


SCALING = Experiment(
    "scaling",
    "Scaling: one process and two",
    "",
    "The pipeline on a file, and on two files in two processes at once. The model is linear: twice the processes "
    "do twice the work as long as there are cores for all their threads, and an event costs the same CPU.",
    [Command("scaling", ("bench.scaling",))],
    _scaling_tables,
    verdicts=_scaling_verdicts,
    caveats=["By the wall clock, so whatever else runs on the machine is in it; the CPU per event is steadier."],
)


CAPACITY = Experiment(
    "capacity",
    "Capacity, a model",
    "",
    "Measured CPU per byte, times 1.5 for a Lambda vCPU, plus what `bench/cost.py` assumes of waiting; so many "
    "invocations at a time as seconds of work come in a second (Little's law). Quotas are AWS's defaults in "
    "us-east-1. CPU is of an access log whose every line is parsed, as the section on the whole pipeline has it.",
    [Command("capacity", ("bench.capacity",))],
    _capacity_tables,
    _capacity_plots,
    caveats=[
        "A model: nothing of it was run in AWS. Its one step that can be checked here is the scaling above.",
        "OpenSearch cores: 40 µs an event (measured, 3.7 on two cores), without replicas and searches.",
    ],
)


COST = Experiment(
    "cost",
    "Cost, a model",
    "",
    "Every term of the bill as a quantity times a price (`bench/cost.py`); OpenSearch itself is in none of them.",
    [Command("cost", ("bench.cost", "--json", "--gb-per-day", "1", "10", "100", "1000", "10000", "100000"))],
    _cost_tables,
    _cost_plots,
)
