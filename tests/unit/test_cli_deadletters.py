"""`logflume deadletters` and `logflume redrive`: what they count, show, ask, send and say."""

import gzip
import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest
import typer
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from infra.cli import outcomes, redrive
from infra.cli.deadletters import since_time
from infra.cli.deployment import Deployment
from infra.cli.errors import CommandError, OpenSearchUnreachable
from infra.cli.main import app
from infra.cli.outcomes import Outcomes
from infra.cli.survey import Distinct, union
from logflume import batch, drops
from logflume.batch import Header, IndexRule
from logflume.deadletters import Letter, with_event
from logflume.documents import event_id
from tests.fakes.letterbox import Process, World

DAY = "events/2026-11-21"
MAPPER = "mapper_parsing_exception"


def letter(source: str, offset: int, event: bytes = b"event", **changes: Any) -> Letter:
    header = Header(
        object_id=source[0] * 32,
        lineage=source[0] * 32,
        bucket="drop",
        key=f"drop/{source}.log",
        source=source,
        parser="text",
        index=IndexRule("logs-text", "day"),
        modified_ms=1,
        created_ms=2,
        oversize=changes.pop("oversize", "truncate"),
    )
    facts = {"index": "logs-text-2026.11.21", "error": MAPPER, "reason": "failed to parse [n]"} | changes
    made = Letter(id=event_id(header.lineage, offset), offset=offset, header=header, **facts)
    return with_event(made, event)


class Pipeline:
    """A deployment in memory. While a command sleeps, events become documents, except those that `rejects` names."""

    def __init__(self) -> None:
        self.name, self.target = "logflume", "aws"
        self.world = World()
        self.s3 = self.kinesis = Process(self.world)
        self.documents: set[str] = set()
        self.rejects: dict[str, Letter] = {}
        self.ignores: set[str] = set()
        self.drops: set[str] = set()
        self.poisonous = False
        self.down = False
        self.time = 0.0
        self.asked: list[str] = []

    def __getitem__(self, output: str) -> str:
        return {"DeadLetterBucket": "dead", "StreamName": "stream", "IndexPrefix": "logs", "OpenSearchAuth": "none"}[
            output
        ]

    def letters(self, *letters: Letter) -> None:
        """A dead-letter file with these lines."""
        body = b"".join(msgspec.json.encode(one) + b"\n" for one in letters)
        self.world.put(f"{DAY}/09{len(self.world.objects):04d}-x-y.ndjson.gz", gzip.compress(body))

    def clock(self) -> float:
        return self.time

    def work(self, seconds: float) -> None:
        """Index what is in the stream."""
        self.time += seconds
        records, self.world.records = self.world.records, []
        for data in records:
            header, slices = batch.decode(data)
            if self.poisonous:
                self.world.put("records/2026-11-21/090000-poison-x.bin", data, reason="poison")
                continue
            for offset in [offset for piece in slices for offset in piece.offsets]:
                name = event_id(header.lineage, offset)
                if name in self.drops:
                    self.world.put(*drops.packed(header, [offset]))
                elif name in self.rejects:
                    self.letters(self.rejects[name])
                elif name not in self.ignores:
                    self.documents.add(name)

    def opensearch(self, method: str, path: str, body: Any = None, **_params: str) -> tuple[int, Any]:
        assert method == "POST"
        self.asked.append(path)
        if self.down:
            raise OpenSearchUnreachable("OpenSearch does not answer")
        if path.endswith("/_refresh"):
            return 200, {}
        assert path == "/logs-*,logs-text-*/_search"
        wanted = body["query"]["ids"]["values"]
        assert body["size"] >= len(wanted)
        return 200, {"hits": {"hits": [{"_id": name} for name in wanted if name in self.documents]}}


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    made = Pipeline()
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("LOGFLUME_DEBUG", raising=False)
    monkeypatch.delenv("LOGFLUME_TARGET", raising=False)
    monkeypatch.setattr(Deployment, "find", lambda _target, _name: made)
    monkeypatch.setattr(redrive, "Outcomes", partial(Outcomes, sleep=made.work, clock=made.clock))
    return made


type Command = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command line; its exit status, standard output (decoded, with --json) and standard error."""

    def run(*arguments: str) -> tuple[int, Any, str]:
        with pytest.raises(SystemExit) as ended:
            app(list(arguments))
        printed = capsys.readouterr()
        output = json.loads(printed.out) if "--json" in arguments and printed.out else printed.out
        return int(ended.value.code or 0), output, printed.err

    return run


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions that somebody at a terminal was asked, and answered with yes."""
    questions: list[str] = []

    def confirm(question: str, **_: Any) -> bool:
        questions.append(question)
        return True

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(typer, "confirm", confirm)
    return questions


# -- list and show ----------------------------------------------------------------------------------------------------


def test_an_empty_bucket_has_nothing_to_list(pipeline: Pipeline, command: Command) -> None:
    assert command("deadletters", "list") == (0, "no dead letters\n", "")


def test_events_are_counted_once_by_day_reason_and_source(pipeline: Pipeline, command: Command) -> None:
    pipeline.letters(letter("web", 1), letter("web", 2), letter("app", 1))
    pipeline.letters(letter("web", 2), letter("web", 3, error="shard limit"))
    pipeline.world.put("records/2026-11-20/1-damaged_frame-x.bin", b"junk")
    pipeline.world.put(f"{DAY}/damaged.ndjson.gz", b"junk")
    status, found, _ = command("deadletters", "list", "--json")
    assert status == 0
    assert [
        (g["day"], g["reason"], g["source"], g["events"], g["unreadable"], g["files"]) for g in found["groups"]
    ] == [
        ("2026-11-20", "damaged_frame", "?", 0, 1, 1),
        ("2026-11-21", "damaged_file", "?", 0, 1, 1),
        ("2026-11-21", MAPPER, "app", 1, 0, 1),
        ("2026-11-21", MAPPER, "web", 2, 0, 2),
        ("2026-11-21", "shard limit", "web", 1, 0, 1),
    ]
    assert (found["events"], found["sendable"], found["staying"], found["files"]) == (4, 4, 2, 4)
    _, printed, _ = command("deadletters", "list", "--source", "web")
    assert [line.split()[:5] for line in printed.splitlines()[2:4]] == [
        ["2026-11-21", MAPPER, "web", "2", "2"],
        ["2026-11-21", "shard", "limit", "web", "1"],
    ]
    assert "3 events in 3 files, 1 that cannot be sent from here" in printed


def test_the_same_event_under_two_reasons_is_one_event(pipeline: Pipeline, command: Command) -> None:
    pipeline.letters(letter("web", 1))
    pipeline.letters(letter("web", 1, error="other"))
    assert command("deadletters", "list", "--json")[1]["events"] == 1


@given(st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2**63)), max_size=8), max_size=4))
def test_distinct_events_are_counted_exactly(sets: list[list[tuple[str, int]]]) -> None:
    made = []
    for events in sets:
        made.append(Distinct())
        for lineage, offset in events:
            made[-1].add(lineage, [offset])
        assert len(made[-1]) == len({*events})
    assert union(made) == len({event for events in sets for event in events})


@pytest.mark.parametrize("what", [f"{DAY}/090000-x-y.ndjson.gz", event_id("w" * 32, 7), MAPPER, "w" * 32])
def test_a_letter_is_shown_by_key_id_reason_or_object(pipeline: Pipeline, command: Command, what: str) -> None:
    pipeline.letters(letter("web", 7, b"GET /\x1b[31m [bold]\xff"))
    pipeline.letters(letter("app", 7, error="other"))
    status, printed, _ = command("deadletters", "show", what)
    assert status == 0
    assert printed.splitlines() == [
        event_id("w" * 32, 7),
        f"  file    {DAY}/090000-x-y.ndjson.gz",
        f"  error   {MAPPER}: failed to parse [n]",
        "  object  s3://drop/drop/web.log, byte 7 decompressed, for logs-text-2026.11.21 · source web",
        r"  event   GET /\x1b[31m [bold]\xff",
    ]


def test_json_shows_the_whole_letter(pipeline: Pipeline, command: Command) -> None:
    one = letter("web", 7, b"x" * 5_000)
    pipeline.letters(one)
    _, shown, _ = command("deadletters", "show", MAPPER, "--json")
    assert shown["more"] is False
    assert msgspec.convert(shown["letters"][0]["letter"], Letter) == one
    _, printed, _ = command("deadletters", "show", MAPPER)
    assert len(printed) < 3_000


def test_the_limit_holds_and_more_is_told(pipeline: Pipeline, command: Command) -> None:
    pipeline.letters(*(letter("web", n) for n in range(30)))
    _, printed, _ = command("deadletters", "show", MAPPER)
    assert printed.count("  file ") == 10
    assert printed.endswith("the first 10; --limit shows more\n")
    _, shown, _ = command("deadletters", "show", MAPPER, "--json", "-n", "30")
    assert (len(shown["letters"]), shown["more"]) == (30, False)


def test_what_cannot_be_read_is_shown_with_its_first_bytes(pipeline: Pipeline, command: Command) -> None:
    pipeline.world.put("records/2026-11-20/1-damaged_frame-x.bin", b"\x00junk\x1b[2J")
    _, printed, _ = command("deadletters", "show", "damaged_frame")
    assert "still no batch that can be read" in printed
    assert "\x1b" not in printed
    assert "junk" in printed
    pipeline.world.put(f"{DAY}/damaged.ndjson.gz", b"junk")
    _, printed, _ = command("deadletters", "show", f"{DAY}/damaged.ndjson.gz")
    assert "damaged_file" in printed


@pytest.mark.parametrize("what", ["events/2026-11-21/none", "no_such_reason", "events/"])
def test_nothing_to_show_is_an_error(pipeline: Pipeline, command: Command, what: str) -> None:
    pipeline.letters(letter("web", 1))
    status, _, said = command("deadletters", "show", what)
    assert (status, said) == (1, f"error: no dead letter has this key, id or reason: {what}\n")


def test_periods_begin_at_a_moment_or_an_age(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_000_000.0)
    assert since_time(None) == 0
    assert since_time("90m") == 1_000_000 - 5_400
    assert since_time("2d") == 1_000_000 - 172_800
    assert since_time("999999w") == 0
    assert since_time("2026-11-21") == since_time("2026-11-21T00:00:00Z") == since_time("2026-11-21T01:00+01:00")


@pytest.mark.parametrize("text", ["yesterday", "5", "5y", "2026-13-01", "-1h", ""])
def test_what_is_no_period_is_wrong_usage(pipeline: Pipeline, command: Command, text: str) -> None:
    status, printed, said = command("redrive", "--since", text, "--yes")
    assert (status, printed) == (2, "")
    assert "not a time" in said


# -- redrive ----------------------------------------------------------------------------------------------------------


def test_everything_indexed_is_exit_status_0(pipeline: Pipeline, command: Command) -> None:
    pipeline.letters(letter("web", 1), letter("web", 2))
    pipeline.letters(letter("web", 2))
    status, printed, said = command("redrive", "--yes")
    assert (status, said) == (0, "")
    assert printed.splitlines() == [
        "sent 2 events in 1 record; 2 files removed, 0 rewritten without what was sent",
        "2 indexed, 0 rejected again",
    ]
    assert pipeline.world.objects == {}
    assert pipeline.documents == {event_id("w" * 32, offset) for offset in (1, 2)}


def test_what_is_rejected_again_is_told_with_its_reason_and_stays(pipeline: Pipeline, command: Command) -> None:
    again = letter("web", 2, error="strict_dynamic_mapping_exception", reason="field [\x1b] is not allowed")
    pipeline.letters(letter("web", 1), letter("web", 2))
    pipeline.rejects[again.id] = again
    status, printed, _ = command("redrive", "--yes")
    assert status == 1
    assert printed.splitlines()[1:] == [
        "1 indexed, 1 rejected again",
        r"  1 strict_dynamic_mapping_exception: field [\x1b] is not allowed",
    ]
    assert len(pipeline.world.objects) == 1
    status, outcome, _ = command("redrive", "--yes", "--json")
    assert (status, outcome["rejected"], outcome["pending"]) == (1, {"strict_dynamic_mapping_exception": 1}, 0)


def test_a_record_that_is_dead_lettered_raw_again_is_found_there(pipeline: Pipeline, command: Command) -> None:
    pipeline.letters(letter("web", 1), letter("web", 2))
    pipeline.poisonous = True
    status, outcome, _ = command("redrive", "--yes", "--json")
    assert (status, outcome["rejected"], outcome["pending"]) == (1, {"poison": 2}, 0)
    pipeline.poisonous = False
    assert command("redrive", "--yes", "--json")[1]["indexed"] == 2


def test_what_stays_is_exit_status_1(pipeline: Pipeline, command: Command) -> None:
    pipeline.letters(letter("web", 1), letter("web", 9, length=10**6, oversize="reference", error="oversize"))
    status, outcome, _ = command("redrive", "--yes", "--json")
    assert (status, outcome["indexed"], outcome["kept"], outcome["files_rewritten"]) == (1, 1, {"oversize": 1}, 1)
    status, printed, _ = command("redrive", "--yes")
    assert status == 1
    assert "kept 1: oversize" in printed
    assert "first 5 of 1000000 bytes" in printed


def test_events_that_are_never_seen_again_are_given_up_and_told(pipeline: Pipeline, command: Command) -> None:
    one = letter("web", 1)
    pipeline.letters(one, letter("web", 2))
    pipeline.ignores.add(one.id)
    status, outcome, said = command("redrive", "--yes", "--json", "--patience", "60")
    assert (status, outcome["indexed"], outcome["pending"]) == (1, 1, 1)
    assert pipeline.time > 60
    pipeline.letters(one)
    status, _, said = command("redrive", "--yes")
    assert "gave up: 1 event neither in OpenSearch nor rejected yet" in said


def test_what_a_rule_drops_now_is_counted_and_not_waited_for(pipeline: Pipeline, command: Command) -> None:
    pipeline.letters(letter("web", 1), letter("web", 2), letter("app", 1))
    pipeline.drops = {event_id("w" * 32, 2), event_id("a" * 32, 1)}
    status, outcome, _ = command("redrive", "--yes", "--json")
    assert (status, outcome["indexed"], outcome["dropped"], outcome["pending"]) == (0, 1, 2, 0)
    pipeline.letters(letter("app", 1))
    status, said, _ = command("redrive", "--yes")
    assert (status, "0 indexed, 0 rejected again, 1 dropped by rule" in said) == (0, True)


def test_opensearch_being_down_is_waited_for_and_named(pipeline: Pipeline, command: Command) -> None:
    pipeline.letters(letter("web", 1))
    pipeline.down = True
    status, _, said = command("redrive", "--yes", "--patience", "30")
    assert status == 1
    assert "(OpenSearch does not answer)" in said
    pipeline.letters(letter("web", 1))
    sleep = pipeline.work

    def work(seconds: float) -> None:
        sleep(seconds)
        pipeline.down = pipeline.time < 50

    redrive.Outcomes.keywords["sleep"] = work  # type: ignore[attr-defined]
    assert command("redrive", "--yes")[0] == 0


def test_without_waiting_nothing_is_asked_of_opensearch(pipeline: Pipeline, command: Command) -> None:
    pipeline.letters(letter("web", 1))
    status, outcome, _ = command("redrive", "--yes", "--no-wait", "--json")
    assert (status, outcome["events"], outcome["indexed"]) == (0, 1, None)
    assert pipeline.asked == []


def test_very_many_events_are_sent_and_the_first_of_them_followed(
    pipeline: Pipeline, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "MAX_FOLLOWED", 25)
    monkeypatch.setattr(outcomes, "IDS_A_REQUEST", 4)
    monkeypatch.setattr(outcomes, "REQUESTS_A_POLL", 2)
    pipeline.letters(*(letter("web", n) for n in range(60)))
    pipeline.letters(*(letter("app", n) for n in range(60)))
    status, outcome, _ = command("redrive", "--yes", "--json")
    assert (status, outcome["events"], outcome["indexed"], outcome["not_followed"]) == (0, 120, 25, 95)
    assert len(pipeline.documents) == 120


def test_a_dry_run_sends_nothing(pipeline: Pipeline, command: Command) -> None:
    pipeline.letters(letter("web", 1), letter("app", 2))
    before = dict(pipeline.world.objects)
    status, _, said = command("redrive", "--dry-run", "--source", "web")
    assert status == 0
    assert "1 event can be sent, 0 cannot" in said
    status, plan, _ = command("redrive", "--dry-run", "--json", "--yes")
    assert (status, plan["dry_run"], plan["sendable"]) == (0, True, 2)
    assert pipeline.world.objects == before
    assert pipeline.s3.calls == []


def test_somebody_is_asked_before_anything_is_sent(
    pipeline: Pipeline, command: Command, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.letters(letter("web", 1), letter("app", 2))
    assert command("redrive", "--source", "web")[0] == 0
    assert asked == ["send 1 event again?"]
    assert pipeline.documents == {event_id("w" * 32, 1)}
    monkeypatch.setattr(typer, "confirm", lambda *_, **__: False)
    assert command("redrive")[0] == 1
    assert len(pipeline.world.objects) == 1
    assert pipeline.documents == {event_id("w" * 32, 1)}


def test_with_nothing_to_send_nobody_is_asked(pipeline: Pipeline, command: Command, asked: list[str]) -> None:
    assert command("redrive")[0] == 0
    pipeline.letters(letter("web", 9, length=10**6, oversize="reference"))
    assert command("redrive")[0] == 1
    assert asked == []


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_where_nobody_can_be_asked_yes_must_be_said(
    pipeline: Pipeline, command: Command, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: bool(options))
    pipeline.letters(letter("web", 1))
    status, printed, said = command("redrive", *options)
    assert (status, printed) == (2, "")
    assert "say --yes" in said
    assert pipeline.s3.calls == []


def test_no_deployment_is_exit_status_2(pipeline: Pipeline, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(_target: str, _name: str) -> Deployment:
        raise CommandError("not deployed")

    monkeypatch.setattr(Deployment, "find", find)
    assert command("redrive", "--yes") == (2, "", "error: not deployed\n")


def test_a_stream_that_refuses_is_told_with_how_far_it_got(pipeline: Pipeline, command: Command) -> None:
    pipeline.letters(letter("web", 1))
    pipeline.kinesis = _refusing(pipeline.world)
    status, _, said = command("redrive", "--yes")
    assert status == 1
    assert "stopped after 0 events" in said
    assert "the same command goes on" in said
    assert len(pipeline.world.objects) == 1


def _refusing(world: World) -> Process:
    process = Process(world)

    def refuse(**_: Any) -> Any:
        answer: Any = {"Error": {"Code": "AccessDeniedException"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
        raise ClientError(answer, "PutRecords")

    process.put_records = refuse  # type: ignore[method-assign]
    return process


def test_ctrl_c_ends_with_what_is_safe(pipeline: Pipeline, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline.letters(letter("web", 1))

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(redrive.Redrive, "run", interrupt)
        status, _, said = command("redrive", "--yes")
        assert (status, "the same command goes on" in said) == (130, True)
    redrive.Outcomes.keywords["sleep"] = interrupt  # type: ignore[attr-defined]
    status, _, said = command("redrive", "--yes")
    assert (status, "stopped watching" in said) == (130, True)
