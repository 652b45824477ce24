"""Presets on a real OpenSearch: every fixture is accepted under its preset's template, and found by typed fields."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pytest

from logflume import framing
from logflume.batch import Slice
from logflume.bulk import Operations
from logflume.documents import Documents
from logflume.index_setup import IndexSetup
from logflume.rules import Rules
from logflume.search import Endpoint, SearchClient
from logflume.sources import Source, files
from logflume.templates import Options, plan
from tests.fakes.headers import header
from tests.integration.delivering import deliver
from tests.integration.real_opensearch import RealOpenSearch, real_opensearch

FIXTURES = Path(__file__).parents[1] / "presets" / "aws"
MODIFIED_MS = 1_795_163_400_000  # 2026-11-20T08:30:00Z
# Of each file, how many documents a query finds that needs the declared types.
QUERIES = {
    "alb.log": ("source.ip:192.0.2.0\\/24 AND http.response.bytes:<100", 3),
    "cloudfront.log": ("source.ip:2001\\:db8\\:\\:\\/32 AND time-taken:<0.01", 1),
    "cloudtrail.json": ("requestParameters.bucketName:orders AND source.ip:2001\\:db8\\:\\:\\/32", 1),
    "cloudwatch.json": ('extractedFields.level:info AND aws.cloudwatch.log_group:"/aws/lambda/f"', 1),
    "eks_audit.ndjson": ("requestObject.spec.n:1.5 AND source.ip:2001\\:db8\\:\\:\\/32", 1),
    "elb.log": ("request_processing_time:<0 AND source.ip:2001\\:db8\\:\\:\\/32", 1),
    "guardduty.jsonl": ("resource.instanceDetails.instanceId:i-0a AND severity:>8", 1),
    "housekeeping.txt": ("message:AccessLog", 1),
    "nlb.log": ("event.start:[2026-11-20 TO 2026-11-21] AND source.bytes:>90", 1),
    "route53resolver.ndjson": ("source.port:>50000 AND answers.Type:AAAA", 1),
    "s3access.log": ("source.ip:192.0.2.0\\/24 AND total_time:<8", 2),
    "vpcflow.log": ("source.ip:2001\\:db8\\:\\:\\/32 AND event.end:[2026-11-20 TO 2026-11-21]", 1),
    "waf.ndjson": ("terminatingRuleMatchDetails.location:HEADER AND http.response.status_code:403", 1),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealOpenSearch]:
    with real_opensearch(tmp_path_factory.mktemp("opensearch")) as real:
        client = SearchClient(Endpoint(real.url))
        try:
            options = Options(deployment="test", index_prefix="test", replicas=0)
            IndexSetup(client, "test", deadline=1e12).install(plan(map(source_of, QUERIES), options))
        finally:
            client.close()
        yield real


def source_of(file: str) -> Source:
    name = file.partition(".")[0]
    return msgspec.convert({"name": name, "match": [], **files.preset(f"aws.{name}")}, Source)


def operations(source: Source, data: bytes) -> list[bytes]:
    cutter, rules = framing.build(source.framing), Rules(source)

    def built(pieces: Iterable[Slice]) -> Iterator[bytes]:
        for piece in pieces:
            of = header(
                parser=source.parsing,
                context=cutter.context,
                index=source.index_rule("test"),
                modified_ms=MODIFIED_MS,
            )
            yield Documents(of, rules).build(piece).operations

    return [*built(cutter.push(data)), *built(cutter.finish())]


@pytest.mark.parametrize(("file", "query", "count"), [(file, *expected) for file, expected in QUERIES.items()])
def test_every_event_is_indexed_and_found_by_its_types(
    server: RealOpenSearch, file: str, query: str, count: int
) -> None:
    source = source_of(file)
    bodies = operations(source, (FIXTURES / file).read_bytes())
    events = sum(body.count(b"\n") // 2 for body in bodies)
    delivery = deliver(server.url, Operations(bodies, events), timeout_s=60)
    assert (delivery.created, delivery.rejected) == (events, {})
    index = f"test-{source.name}-*"
    server.ask("POST", f"/{index}/_refresh")
    body = {"query": {"query_string": {"query": query}}}
    assert server.ask("POST", f"/{index}/_count", body)["count"] == count
