"""OpenSearch Serverless: what it has no answer to is not asked, and a collection that takes no ids is an outage."""

import json

import pytest
from isal import isal_zlib

from logflume.bulk import Bulk, Operations
from logflume.errors import ConfigurationError, IndexOutage
from logflume.serverless import refuse_unsupported
from logflume.verdicts import ItemAnswer, ItemError, Verdict, verdict

# What a collection of type TIMESERIES or VECTORSEARCH answers (opensearch-py issue 792).
REASON = "Document ID is not supported in create/index operation request"


@pytest.mark.parametrize("path", ["/_bulk", "/logs/_search", "/_index_template/logs", "/_cat/indices", "/logs_refresh"])
def test_what_serverless_does_is_asked(path: str) -> None:
    refuse_unsupported(path, {"filter_path": "items"})


@pytest.mark.parametrize(
    ("path", "params", "missing"),
    [
        ("/_cluster/settings", {}, "_cluster"),
        ("/logs-*/_refresh", {}, "_refresh"),
        ("/_plugins/_ism/policies/x", {}, "_ism"),
        ("/_bulk", {"refresh": "wait_for"}, "refresh"),
    ],
)
def test_what_serverless_has_not_is_named(path: str, params: dict[str, str], missing: str) -> None:
    with pytest.raises(ConfigurationError, match=f"OpenSearch Serverless has no {missing}: {path}".replace("*", ".")):
        refuse_unsupported(path, params)


@pytest.mark.parametrize("tolerant", [False, True])
@pytest.mark.parametrize("count", [1, 500])
def test_documents_refused_for_their_ids_are_never_dead_letters(count: int, tolerant: bool) -> None:
    class Timeseries:
        def bulk(self, body: bytes) -> tuple[int, str]:
            error = {"type": "illegal_argument_exception", "reason": REASON}
            operations = isal_zlib.decompress(body, 31).count(b"\n") // 2
            return 200, json.dumps({"items": [{"create": {"status": 400, "error": error}}] * operations})

    work = Operations([b'{"create":{"_index":"i","_id":"1"}}\n{}\n'] * count, count)
    with pytest.raises(IndexOutage, match=REASON):
        Bulk(Timeseries()).deliver(work, deadline=float("inf"), tolerant=tolerant)


def test_another_illegal_argument_is_the_documents_own_fault() -> None:
    item = ItemAnswer(400, ItemError("illegal_argument_exception", "Limit of total fields [1000] has been exceeded"))
    assert verdict(item) is Verdict.REJECTED
