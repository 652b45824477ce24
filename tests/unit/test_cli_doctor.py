"""`logflume doctor`: a healthy deployment is well; every illness is named, with what mends it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from infra.cli.checks import account, functions, quotas, search, templates, wiring
from infra.cli.checks.finding import Check, Finding, Group, Verdict, run
from infra.cli.deployment import Deployment
from infra.cli.errors import CommandError, OpenSearchUnreachable
from infra.cli.main import app
from tests.fakes.doctors_case import NOW, QUEUE, DoctorsCase
from tests.fakes.event_sources import refused

OK, WARN, FAIL, UNKNOWN = Verdict
type Command = Callable[..., tuple[int, Any, str]]
type Illness = Callable[[DoctorsCase], object]


@pytest.fixture
def case() -> DoctorsCase:
    return DoctorsCase()


@pytest.fixture
def command(case: DoctorsCase, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setattr(Deployment, "find", lambda _target, _name: case.deployment)
    monkeypatch.setattr(
        account, "GROUP", Group({**account.GROUP.checks, "clock": lambda one: account.clock(one, lambda: NOW)})
    )
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")

    def command_line(*arguments: str) -> tuple[int, Any, str]:
        with pytest.raises(SystemExit) as ended:
            app(["doctor", "--deployment", "blue", *arguments])
        printed = capsys.readouterr()
        output = json.loads(printed.out) if "--json" in arguments and printed.out else printed.out
        return int(ended.value.code or 0), output, printed.err

    return command_line


def found(case: DoctorsCase, check: Check) -> Finding:
    """The worst finding of a check."""
    order = [FAIL, WARN, UNKNOWN, OK]
    return min(run(check, case.deployment), key=lambda finding: order.index(finding.verdict))


def test_a_healthy_deployment(command: Command) -> None:
    code, report, _ = command("--json")
    assert (code, report["ok"], report["deployment"]) == (0, True, "blue")
    assert [row for row in report["checks"] if row["verdict"] != "OK"] == []
    assert len(report["checks"]) >= 18
    code, shown, _ = command()
    assert code == 0
    assert "all is well" in shown
    assert "opensearch 3.7.0 at https://search answers" in shown


def test_a_healthy_deployment_with_the_http_source(case: DoctorsCase, command: Command) -> None:
    case.with_http_source()
    code, report, _ = command("--json")
    said = {row["says"] for row in report["checks"]}
    assert (code, [row for row in report["checks"] if row["verdict"] != "OK"]) == (0, [])
    assert "reader, indexer, http_source are ready, with the addresses of this stack" in said
    assert "the http_source warned of nothing in the last 15 minutes" in said


def test_an_ill_one_is_told_with_what_mends_it(case: DoctorsCase, command: Command) -> None:
    case.lambda_.mappings["indexer"]["State"] = "Disabled"
    case.dlq["ApproximateNumberOfMessages"] = "2"
    code, shown, _ = command()
    assert code == 1
    assert "the indexer's event source is Disabled: nothing reaches it" in shown
    assert "→ `logflume resume --only indexer`" in shown
    assert "1 failure, 1 warning" in shown
    code, report, _ = command("--json")
    assert (code, report["ok"]) == (1, False)
    assert {row["check"]: row["mend"] for row in report["checks"] if row["verdict"] == "FAIL"} == {
        "event sources": "`logflume resume --only indexer`"
    }


def test_warnings_alone_are_no_failure(case: DoctorsCase, command: Command) -> None:
    case.dlq["ApproximateNumberOfMessages"] = "2"
    code, shown, _ = command()
    assert code == 0
    assert "it works, with 1 warning" in shown


def test_no_deployment_is_a_failure_too(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(_target: str, _name: str) -> Deployment:
        raise CommandError("no AWS credentials: sign in")

    monkeypatch.setattr(Deployment, "find", find)
    code, report, _ = command("--json")
    assert (code, [(row["check"], row["says"]) for row in report["checks"]]) == (
        1,
        [("deployment", "no AWS credentials: sign in")],
    )


def test_where_opensearch_is_out_it_is_asked_once(case: DoctorsCase, command: Command) -> None:
    case.search["/"] = OpenSearchUnreachable("OpenSearch does not answer")
    code, report, _ = command("--json")
    names = {row["check"]: row["verdict"] for row in report["checks"]}
    assert (code, names["OpenSearch"]) == (1, "FAIL")
    assert "cluster health" not in names
    assert names["event sources"] == "OK"


def test_what_the_caller_may_not_see_is_a_warning_for_each_check(case: DoctorsCase, command: Command) -> None:
    case.denied = {"*"}
    code, report, _ = command("--json")
    denied = [row for row in report["checks"] if "you may not look" in row["says"]]
    assert (code, {row["verdict"] for row in denied}) == (0, {"WARN"})
    assert len(denied) == len(report["checks"]) - 4  # OpenSearch is asked with other rights
    assert "let your own role call get_bucket_notification_configuration" in str(denied)


EVERY_CHECK = {
    **account.GROUP.checks,
    **functions.GROUP.checks,
    **wiring.GROUP.checks,
    **quotas.GROUP.checks,
    "templates": templates.templates,
    "retention": templates.retention,
    "pipeline": templates.pipeline,
}


@pytest.mark.parametrize("name", EVERY_CHECK)
def test_forbidden_unavailable_or_gone(case: DoctorsCase, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for code, verdict in (
        ("AccessDenied", WARN),
        ("NotImplemented", UNKNOWN),
        ("ResourceNotFoundException", FAIL),
        ("ExpiredToken", FAIL),
    ):

        def answer(operation: str, _request: object, code: str = code) -> object:
            raise refused(code, operation, "\x1b[31m")

        monkeypatch.setattr(case, "answer", answer)
        finding = found(case, EVERY_CHECK[name])
        assert (finding.verdict, finding.says.isprintable()) == (verdict, True)


def rule(case: DoctorsCase) -> None:
    """A bucket that was there before, attached by EventBridge."""
    case.outputs["DropRule"] = "rule"
    case.answers["get_bucket_notification_configuration"] = {"EventBridgeConfiguration": {}}
    case.queue["Policy"] = case.queue["Policy"].replace("s3.amazonaws.com", "events.amazonaws.com")


def test_a_bucket_that_was_there_before_is_well_with_its_rule(case: DoctorsCase) -> None:
    rule(case)
    assert found(case, wiring.announcements).verdict == OK
    assert found(case, wiring.queue).verdict == OK


def alarm(case: DoctorsCase, state: str) -> None:
    case.answers["describe_alarms"]["MetricAlarms"][0]["StateValue"] = state


def template(case: DoctorsCase) -> dict[str, Any]:
    """The first template as the server has it."""
    one = case.search["/_index_template/logflume-blue.*"]["index_templates"][0]
    one["index_template"] = json.loads(json.dumps(one["index_template"]))
    return dict(one["index_template"])


def simulated(case: DoctorsCase) -> str:
    return next(path for path in case.search if "_simulate_index" in path)


def local_difference(case: DoctorsCase) -> None:
    body = case.answers["get_template"]["TemplateBody"]["Resources"]["Templates"]["Properties"]
    body["Plan"] = body["Plan"].replace('"logflume-blue.logs-', '"logflume-blue.logs-other', 1)


ILLNESSES: list[tuple[Check, Illness, Verdict, str]] = [
    (lambda d: account.clock(d, lambda: NOW + 31), lambda c: None, WARN, "differ by 31 s"),
    (lambda d: account.clock(d, lambda: NOW - 400), lambda c: None, FAIL, "differ by 6 min 40 s"),
    (
        account.stack,
        lambda c: c.answers["describe_stacks"]["Stacks"][0].update(StackStatus="UPDATE_ROLLBACK_COMPLETE"),
        FAIL,
        "UPDATE_ROLLBACK_COMPLETE",
    ),
    (
        account.stack,
        lambda c: c.answers["describe_stacks"]["Stacks"][0].update(StackStatus="UPDATE_IN_PROGRESS"),
        WARN,
        "at this moment",
    ),
    (search.server, lambda c: c.search.update({"/": "<html>"}), FAIL, "is no OpenSearch"),
    (search.server, lambda c: c.search.pop("/"), FAIL, "HTTP 404"),
    (search.server, lambda c: c.search.update({"/": CommandError("refuses (HTTP 401)")}), FAIL, "HTTP 401"),
    (search.health, lambda c: c.search["/_cluster/health"].update(status="red"), FAIL, "not whole"),
    (search.health, lambda c: c.search["/_cluster/health"].update(status="yellow"), WARN, "replicas are missing"),
    (search.health, lambda c: c.outputs.update(OpenSearchAuth="aoss"), UNKNOWN, "Serverless"),
    (search.room, lambda c: c.search["/_cat/allocation"][0].update({"disk.percent": "86"}), WARN, "86 % full"),
    (search.room, lambda c: c.search["/_cat/allocation"][0].update({"disk.percent": "95"}), FAIL, "read-only"),
    (search.room, lambda c: c.search["/_cluster/health"].update(active_shards=2_700), WARN, "2,700 of 3,000 shards"),
    (
        search.blocks,
        lambda c: c.search["/_cluster/settings"].update(persistent={"cluster.blocks.read_only": "true"}),
        FAIL,
        "whole cluster",
    ),
    (
        search.blocks,
        lambda c: c.search.update(
            {
                "/logs-*/_settings/index.blocks.*": {
                    "logs-x": {"settings": {"index.blocks.read_only_allow_delete": "true"}}
                }
            }
        ),
        FAIL,
        "logs-x has index.blocks.read_only_allow_delete",
    ),
    (
        templates.templates,
        lambda c: c.search["/_index_template/logflume-blue.*"]["index_templates"].pop(),
        FAIL,
        "1 template missing: logflume-blue.",
    ),
    (
        templates.templates,
        lambda c: c.search.pop("/_index_template/logflume-blue.*"),
        FAIL,
        "missing: logflume-blue.",
    ),
    (
        templates.templates,
        lambda c: template(c)["template"]["mappings"]["properties"]["@timestamp"].update(type="keyword"),
        FAIL,
        "changed by somebody",
    ),
    (
        templates.templates,
        lambda c: c.search.update({simulated(c): {"template": {"mappings": {"properties": {}}}}}),
        WARN,
        "takes the place of logflume-blue.",
    ),
    (
        templates.templates,
        lambda c: c.answers["get_template"]["TemplateBody"]["Resources"].clear(),
        UNKNOWN,
        "manage_templates = false",
    ),
    (
        templates.retention,
        lambda c: c.search.pop(next(path for path in c.search if "_ism" in path)),
        FAIL,
        "missing: logflume-blue.",
    ),
    (templates.pipeline, local_difference, WARN, "differs from what is deployed: logflume-blue.logs-"),
    (functions.functions, lambda c: c.lambda_.functions["reader"].update(State="Failed"), FAIL, "the reader is Failed"),
    (
        functions.functions,
        lambda c: c.variables("indexer").update(LOGFLUME_OPENSEARCH_ENDPOINT="https://\x1bwrong"),
        FAIL,
        r"LOGFLUME_OPENSEARCH_ENDPOINT = 'https://\x1bwrong', the stack 'https://search'",
    ),
    (functions.functions, lambda c: c.variables("reader").clear(), FAIL, "LOGFLUME_LEDGER_TABLE = ''"),
    (
        functions.functions,
        lambda c: (c.with_http_source(), c.variables("http_source").update(LOGFLUME_STREAM_NAME="other")),
        FAIL,
        "the http_source has LOGFLUME_STREAM_NAME = 'other'",
    ),
    (
        functions.event_sources,
        lambda c: c.lambda_.mappings["reader"].update(State="Disabled"),
        FAIL,
        "the reader's event source is Disabled",
    ),
    (
        functions.event_sources,
        lambda c: c.lambda_.mappings["indexer"].update(LastProcessingResult="PROBLEM: no rights"),
        FAIL,
        "cannot feed the indexer: PROBLEM: no rights",
    ),
    (
        functions.last_words,
        lambda c: [c.say("indexer", level="ERROR", message="it failed", detail="HTTP 401 \x1b") for _ in range(2)],
        WARN,
        r"the indexer: 2 warnings in 15 minutes, the last: it failed: HTTP 401 \x1b",
    ),
    (
        functions.last_words,
        lambda c: (c.with_http_source(), c.say("http_source", level="ERROR", message="Task timed out")),
        WARN,
        "the http_source: 1 warning in 15 minutes, the last: Task timed out",
    ),
    (
        wiring.announcements,
        lambda c: c.answers["get_bucket_notification_configuration"].clear(),
        FAIL,
        "does not announce",
    ),
    (wiring.announcements, lambda c: c.outputs.update(DropPrefix="other/"), FAIL, "does not announce"),
    (
        wiring.announcements,
        lambda c: (rule(c), c.answers["get_bucket_notification_configuration"].clear()),
        FAIL,
        "does not send its events to EventBridge",
    ),
    (
        wiring.announcements,
        lambda c: (rule(c), c.answers["describe_rule"].update(State="DISABLED")),
        FAIL,
        "rule is DISABLED",
    ),
    (
        wiring.announcements,
        lambda c: (rule(c), c.answers["describe_rule"].update(EventPattern="{}")),
        FAIL,
        "rule is not about drop-bucket",
    ),
    (
        wiring.announcements,
        lambda c: (rule(c), c.answers["list_targets_by_rule"]["Targets"].clear()),
        FAIL,
        "does not bring events to the queue",
    ),
    (wiring.queue, lambda c: c.queue.pop("Policy"), FAIL, "does not let s3.amazonaws.com send"),
    (
        wiring.queue,
        lambda c: c.queue.update(RedrivePolicy=json.dumps({"deadLetterTargetArn": QUEUE})),
        FAIL,
        "no way out",
    ),
    (wiring.failed_messages, lambda c: c.dlq.update(ApproximateNumberOfMessages="1"), WARN, "1 message in the dead"),
    (
        wiring.dead_letters,
        lambda c: c.answers["list_objects_v2"]["CommonPrefixes"].append({"Prefix": "events/"}),
        WARN,
        "there are dead letters",
    ),
    (wiring.stores, lambda c: c.answers["describe_table"]["Table"].update(TableStatus="DELETING"), FAIL, "DELETING"),
    (
        quotas.concurrency,
        lambda c: c.lambda_.account["AccountLimit"].update(UnreservedConcurrentExecutions=27),  # type: ignore[index]
        WARN,
        "20 readers and 8 indexers at a time at most, the account has 27",
    ),
    (quotas.shards, lambda c: c.answers["describe_limits"].update(OpenShardCount=190), WARN, "190 of 200 shards"),
    (quotas.alarms, lambda c: alarm(c, "ALARM"), WARN, "rings"),
    (quotas.alarms, lambda c: c.answers["describe_alarms"]["MetricAlarms"].pop(), WARN, "1 alarm missing"),
]


@pytest.mark.parametrize(("check", "illness", "verdict", "says"), ILLNESSES, ids=[one[3] for one in ILLNESSES])
def test_every_illness_is_named(case: DoctorsCase, check: Check, illness: Illness, verdict: Verdict, says: str) -> None:
    illness(case)
    finding = found(case, check)
    assert finding.verdict == verdict
    assert says in finding.says
    assert finding.says.isprintable()
    assert finding.mend or verdict == UNKNOWN or check is search.server


def test_templates_are_installed_again_when_asked_to(
    case: DoctorsCase, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    put: list[str] = []

    class Client:
        def request(self, method: str, path: str, body: object = None, **_params: str) -> tuple[int, Any]:
            if method == "PUT":
                put.append(path)
            return 200, {"index_templates": [], "_seq_no": 1, "_primary_term": 1}

    monkeypatch.setitem(vars(case.deployment), "search_client", Client())
    code, _, told = command("--install-templates", "--json")
    assert code == 0
    assert f"{len(case.plan.templates)} template" in told
    assert {f"/_index_template/{name}" for name in case.plan.templates} <= {*put}
    case.answers["get_template"]["TemplateBody"]["Resources"].clear()
    assert command("--install-templates")[0] == 2
