"""Index setup over HTTP: templates and policies come, change and go with the plan; the custom resource tells how."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from logflume.errors import IndexSetupError
from logflume.index_setup import IndexSetup
from logflume.search import Endpoint, SearchClient
from logflume.sources import Source
from logflume.templates import Options, Plan, plan
from tests.fakes.clock import Clock
from tests.fakes.index_management import IndexManagement
from tests.fakes.opensearch import fake_opensearch

EVENTS = Path(__file__).parents[2] / "events"


class Context:
    """Lambda's context object."""

    function_name = memory_limit_in_mb = invoked_function_arn = aws_request_id = "test"

    def get_remaining_time_in_millis(self) -> int:
        return 90_000


@pytest.fixture
def server() -> Iterator[IndexManagement]:
    with fake_opensearch() as fake:
        yield IndexManagement(fake)


@pytest.fixture
def without_ism() -> Iterator[IndexManagement]:
    with fake_opensearch() as fake:
        yield IndexManagement(fake, ism=False)


def planned(*names: str, deployment: str = "test", retention_days: int = 0, **members: Any) -> Plan:
    options = Options(deployment=deployment, index_prefix=f"{deployment}-logs", retention_days=retention_days)
    return plan([Source(name=name, match=[], **members) for name in names], options)


def setup(server: IndexManagement, deployment: str = "test", clock: Clock | None = None) -> IndexSetup:
    clock = clock or Clock()
    client = SearchClient(Endpoint(server.url), timeout_s=5)
    return IndexSetup(client, deployment, deadline=60.0, clock=clock, sleep=clock.sleep)


def test_every_template_is_put_as_planned(server: IndexManagement) -> None:
    wanted = planned("a", "b", fields={"n": "long"})
    changes = setup(server).install(wanted)
    assert server.templates == wanted.templates
    assert changes.templates == list(wanted.templates)
    assert (changes.policies, changes.removed, changes.notes) == ([], [], [])


def test_the_template_of_a_source_that_is_gone_goes(server: IndexManagement) -> None:
    setup(server).install(planned("a", "b", retention_days=30))
    changes = setup(server).install(planned("b", retention_days=30))
    assert list(server.templates) == list(server.policies) == ["logflume-test.test-logs-b"]
    assert changes.removed == ["logflume-test.test-logs-a"]


def test_another_deployments_are_left_alone(server: IndexManagement) -> None:
    for deployment in ("test", "test-eu"):
        setup(server, deployment).install(planned("a", deployment=deployment, retention_days=30))
    setup(server, "test").install(planned("b", retention_days=30))
    setup(server, "test").remove(ism=True)
    assert list(server.templates) == list(server.policies) == ["logflume-test-eu.test-eu-logs-a"]


def test_two_deployments_cannot_both_have_an_index(server: IndexManagement) -> None:
    setup(server, "one").install(plan([Source(name="a", match=[])], Options(deployment="one", index_prefix="logs")))
    with pytest.raises(IndexSetupError, match=r"matching patterns from templates \[logflume-one.logs-a\]"):
        setup(server, "two").install(plan([Source(name="a", match=[])], Options(deployment="two", index_prefix="logs")))


def test_a_policy_is_replaced_as_it_was_read_and_goes_with_the_retention(server: IndexManagement) -> None:
    name = "logflume-test.test-logs-a"
    for days in (30, 60, 60):
        changes = setup(server).install(planned("a", retention_days=days))
        assert changes.policies == [name]
        conditions = server.policies[name]["states"][0]["transitions"][0]["conditions"]
        assert conditions == {"min_index_age": f"{days + 2}d"}
    assert server.versions[name] == 3
    setup(server).install(planned("a"))
    assert server.policies == {}
    assert list(server.templates) == [name]


def test_a_retention_that_would_never_happen_is_a_failure(without_ism: IndexManagement) -> None:
    with pytest.raises(IndexSetupError, match="has no Index State Management, so nothing would ever be deleted"):
        setup(without_ism).install(planned("a", retention_days=30))
    assert list(without_ism.templates) == ["logflume-test.test-logs-a"]


def test_without_policies_nobody_misses_them(without_ism: IndexManagement) -> None:
    changes = setup(without_ism).install(planned("a"))
    assert changes.notes == []
    changes = setup(without_ism).install(planned("a", data_stream=True))
    assert changes.notes == [
        "logflume-test.test-logs-a: no Index State Management here, so its data stream never rolls over"
    ]


def test_serverless_is_never_asked_for_policies(server: IndexManagement) -> None:
    options = Options(deployment="test", index_prefix="logs", serverless=True)
    setup(server).install(plan([Source(name="a", match=[])], options))
    setup(server).remove(ism=False)
    assert not [request for request in server.asked if "_ism" in request]
    assert server.templates == {}


def test_a_template_that_a_data_stream_lives_by_stays_and_is_told(server: IndexManagement) -> None:
    setup(server).install(planned("a", data_stream=True))
    [name] = server.in_use = {"logflume-test.test-logs-a"}
    changes = setup(server).remove(ism=True)
    assert changes.removed == []
    assert changes.notes == [f"{name} is left on the server: unable to remove composable templates [{name}]"]


@pytest.mark.parametrize("status", [401, 403, 429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again(server: IndexManagement, status: int) -> None:
    server.trouble = [(status, "{}")] * 3
    changes = setup(server).install(planned("a"))
    assert changes.templates == ["logflume-test.test-logs-a"]
    assert len(server.asked) == 3 + 3


def test_a_role_that_may_not_use_policies_can_do_without_them(server: IndexManagement) -> None:
    server.trouble = [(404, "{}"), (200, "{}"), (403, "{}")]
    assert setup(server).install(planned("a")).templates == ["logflume-test.test-logs-a"]
    assert len(server.asked) == 3


def test_what_does_not_pass_ends_in_time_with_the_servers_words(server: IndexManagement) -> None:
    server.trouble = [(403, '{"error":{"type":"security_exception","reason":"no permissions for [put]"}}')] * 1000
    clock = Clock()
    with pytest.raises(IndexSetupError, match=r"HTTP 403: no permissions for \[put\]"):
        setup(server, clock=clock).install(planned("a"))
    assert clock.now < 60
    assert 5 < len(server.asked) < 200


def test_nobody_there_is_told_so() -> None:
    with fake_opensearch() as fake:
        gone = IndexManagement(fake)
    with pytest.raises(IndexSetupError, match=r"does not take index templates, tried .* times: ConnectionError"):
        setup(gone).install(planned("a"))


def test_what_answers_but_is_no_opensearch_is_told_so(server: IndexManagement) -> None:
    server.trouble = [(200, "<html>Log in")]
    with pytest.raises(IndexSetupError, match="<html>Log in"):
        setup(server).install(planned("a"))


def test_a_refusal_is_told_at_once(server: IndexManagement) -> None:
    server.trouble = [(404, "{}"), (400, '{"error":{"reason":"unknown setting"}}')]
    with pytest.raises(IndexSetupError, match=r"refuses PUT .*test-logs-a \(HTTP 400\): unknown setting"):
        setup(server).install(planned("a"))
    assert len(server.asked) == 2


# ---- The custom resource --------------------------------------------------------------------------------------------


@pytest.fixture
def function(server: IndexManagement, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name, value in {
        "POWERTOOLS_METRICS_NAMESPACE": "Logflume",
        "POWERTOOLS_SERVICE_NAME": "index_setup",
        "LOGFLUME_DEPLOYMENT": "test",
        "LOGFLUME_OPENSEARCH_ENDPOINT": server.url,
        "LOGFLUME_OPENSEARCH_AUTH": "none",
    }.items():
        monkeypatch.setenv(name, value)
    return importlib.reload(importlib.import_module("functions.index_setup.handler"))


def request(server: IndexManagement, kind: str, body: str) -> dict[str, Any]:
    sample = json.loads((EVENTS / "cloudformation-create.json").read_text())
    properties = {**sample["ResourceProperties"], "Plan": body}
    answer_to = f"{server.url}/cloudformation?signature=x"
    return {**sample, "RequestType": kind, "ResponseURL": answer_to, "ResourceProperties": properties}


def wire(of: Plan) -> str:
    return msgspec.json.encode(of).decode()


def test_cloudformation_is_answered_for_create_update_and_delete(server: IndexManagement, function: ModuleType) -> None:
    for kind, wanted in (("Create", planned("a")), ("Update", planned("b"))):
        function.handler(request(server, kind, wire(wanted)), Context())
        assert server.templates == json.loads(json.dumps(wanted.templates))
    function.handler(request(server, "Delete", wire(planned("b"))), Context())
    assert server.templates == {}
    sample = request(server, "Create", "")
    identity = {name: sample[name] for name in ("StackId", "RequestId", "LogicalResourceId")}
    wanted_answer = {"Status": "SUCCESS", "Reason": "", "PhysicalResourceId": "logflume-test", **identity}
    assert server.answers == [wanted_answer] * 3


def test_a_failure_reaches_who_deploys_in_words(server: IndexManagement, function: ModuleType) -> None:
    server.trouble = [(404, "{}"), (400, json.dumps({"error": {"reason": "x" * 5000}}))]
    function.handler(request(server, "Create", wire(planned("a"))), Context())
    function.handler(request(server, "Create", "no plan"), Context())
    first, second = server.answers
    assert first["Status"] == second["Status"] == "FAILED"
    assert "PUT /_index_template/logflume-test.test-logs-a (HTTP 400): xxx" in first["Reason"]
    assert len(json.dumps(first)) < 4096
    assert "malformed" in second["Reason"]


def test_delete_succeeds_whatever_happens(server: IndexManagement, function: ModuleType) -> None:
    server.trouble = [(400, "{}")]
    function.handler(request(server, "Delete", wire(planned("a"))), Context())
    function.handler(request(server, "Delete", "no plan"), Context())
    assert [answer["Status"] for answer in server.answers] == ["SUCCESS", "SUCCESS"]
