"""Presets for AWS's logs: files as AWS writes and names them become typed documents, with no configuration."""

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from infra.config.settings import CONFIG_DIR
from logflume import framing, sources
from logflume.batch import Slice
from logflume.documents import Documents
from logflume.rules import Rules
from logflume.sources import Source, files
from logflume.sources.fields import declared
from tests.fakes import headers

FIXTURES = Path(__file__).parents[1] / "presets" / "aws"
MODIFIED_MS = 1_795_163_400_000  # 2026-11-20T08:30:00Z
OURS = ("@timestamp", "log", "tags", "message")
PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "date": (str,),
    "double": (float, int),
    "flat_object": (dict,),
    "ip": (str,),
    "keyword": (str, bool),
    "long": (int,),
    "text": (str,),
}


@cache
def source_of(preset: str) -> Source:
    return msgspec.convert({"name": "x", "match": [], **files.preset(preset)}, Source)


def documents(preset: str, file: str, *, step: int = 1 << 20) -> list[dict[str, Any]]:
    """What is indexed of a fixture, its members flat: `{"a": {"b": 1}}` and `{"a.b": 1}` are one to OpenSearch."""
    source = source_of(preset)
    data = (FIXTURES / file).read_bytes()
    cutter, rules = framing.build(source.framing), Rules(source)
    found: list[dict[str, Any]] = []

    def take(pieces: Iterable[Slice]) -> None:
        for piece in pieces:
            header = headers.header(parser=source.parsing, context=cutter.context, modified_ms=MODIFIED_MS)
            lines = Documents(header, rules).build(piece).operations.splitlines()
            found.extend(flat(json.loads(line), declared(source.fields)) for line in lines[1::2])

    for at in range(0, len(data), step):
        take(cutter.push(data[at : at + step]))
    take(cutter.finish())
    return found


def flat(document: dict[str, Any], types: dict[str, str]) -> dict[str, Any]:
    def members(inner: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for name, value in inner.items():
            if isinstance(value, dict) and types.get(prefix + name) != "flat_object":
                yield from members(value, f"{prefix}{name}.")
            else:
                yield prefix + name, value

    return dict(members(document, ""))


def has(document: dict[str, Any], expected: dict[str, Any]) -> None:
    """Each member, of the same type; None: it is not there."""
    for path, value in expected.items():
        assert document.get(path) == value, f"{path}: {document.get(path)!r}"
        assert type(document.get(path)) is type(value), f"{path}: {document.get(path)!r}"


def times(found: list[dict[str, Any]]) -> list[str]:
    return [each["@timestamp"] for each in found]


AWS = sorted(path.name.removesuffix(".toml") for path in files.PRESETS.glob("aws.*.toml"))
FILES = [(f"aws.{path.name.partition('.')[0]}", path.name) for path in sorted(FIXTURES.iterdir())]


def test_every_preset_has_a_fixture() -> None:
    assert {preset for preset, _ in FILES} == {*AWS}


@pytest.mark.parametrize(("preset", "file"), FILES)
def test_every_member_has_the_declared_type(preset: str, file: str) -> None:
    types = declared(source_of(preset).fields)
    typed = 0
    for document in documents(preset, file):
        for name, value in document.items():
            for one in value if isinstance(value, list) else [value]:
                if one is not None and name in types:
                    assert isinstance(one, PYTHON_TYPES[types[name]]), f"{name}: {one!r} is no {types[name]}"
                    typed += 1
    assert typed or preset == "aws.housekeeping"


@pytest.mark.parametrize(("preset", "file"), FILES)
def test_no_processor_fails_and_nothing_is_undeclared(preset: str, file: str) -> None:
    types = declared(source_of(preset).fields)
    for document in documents(preset, file):
        tags = document.get("tags", [])
        assert "_processor_failure" not in tags
        assert "_timestamp_unparsed" not in tags
        for name, value in document.items():
            holds_declared = any(path.startswith(f"{name}.") for path in types) and not isinstance(value, dict)
            known = name in types or name.startswith("log.") or name in OURS or holds_declared
            assert known or name == "brand-new", name


@pytest.mark.parametrize(("preset", "file"), FILES)
def test_steps_make_no_difference(preset: str, file: str) -> None:
    assert documents(preset, file, step=61) == documents(preset, file)


@pytest.mark.parametrize("file", ["cloudtrail.json", "cloudtrail.compact.json"])
def test_cloudtrail(file: str) -> None:
    person, service = documents("aws.cloudtrail", file)
    has(
        person,
        {
            "@timestamp": "2026-11-20T08:15:30Z",
            "event.action": "PutObject",
            "event.provider": "s3.amazonaws.com",
            "cloud.region": "eu-central-1",
            "cloud.account.id": "111122223333",
            "source.ip": "2001:db8::17",
            "user_agent.original": '[aws-cli/2.17 "quoted"]',
            "error.code": "AccessDenied",
            "userIdentity.userName": "Mary",
            "readOnly": False,
            "eventTime": None,
            "tlsDetails.tlsVersion": "TLSv1.3",
        },
    )
    assert person["requestParameters"]["x-amz-meta-f.g"] == ["1", "2"]
    assert person["resources"][0]["ARN"] == "arn:aws:s3:::orders/a}],[{b"
    has(service, {"@timestamp": "2026-11-20T23:59:59Z", "source.ip": "autoscaling.amazonaws.com", "error.code": None})
    items = service["responseElements"]["instancesSet"]["items"]
    assert items[0]["tagSet"]["items"][0]["value"] == "grün ✓"


def test_alb() -> None:
    found = documents("aws.alb", "alb.log")
    first, malformed, quoted, old, other = found
    has(
        first,
        {
            "@timestamp": "2026-11-20T08:15:30.123456Z",
            "type": "h2",
            "source.ip": "2001:db8::17",
            "source.port": 2817,
            "destination.ip": "10.0.0.66",
            "destination.port": 9000,
            "target_processing_time": 0.002,
            "http.response.status_code": 200,
            "http.request.method": "GET",
            "http.version": "2.0",
            "url.original": "https://shop.example.com:443/cart?item=7",
            "user_agent.original": "curl/8.5.0",
            "event.start": "2026-11-20T08:15:30.120000Z",
            "actions_executed": "waf,forward",
            "redirect_url": None,
            "trace.id": "Root=1-58337262-36d228ad5d99923122bbe354",
            "conn_trace_id": "TID_1234abcd5678ef90",
        },
    )
    has(
        malformed,
        {
            "http.request.method": None,
            "http.version": None,
            "user_agent.original": None,
            "destination.ip": None,
            "request_processing_time": -1.0,
            "target_status_code": None,
            "error_reason": "LambdaInvalidResponse",
            "classification": "Ambiguous",
            "tls.client.server_name": None,
        },
    )
    has(
        quoted,
        {
            "url.original": 'https://shop.example.com:443/find?q="red shoes"&x=1',
            "user_agent.original": 'Agent "007" (\\x22x\\x22)',
            "target_port_list": "10.0.0.67:9000 10.0.0.68:9000",
            "transformed_host": "a.example.com",
            "request_transform_status": "ReplacementFailed",
            "extra": '198.51.100.7 "new"',
        },
    )
    has(old, {"url.original": "https://old.example.com:443/", "trace.id": "Root=1-5", "matched_rule_priority": None})
    assert old["tags"] == ["_timestamp_out_of_range"]
    assert (other["message"], other["tags"]) == ("no access log entry", ["_parse_failure"])


def test_an_address_that_is_none_keeps_its_place() -> None:
    """As they occur where addresses are made unrecognisable: the mapping leaves out what is no IP."""
    line = (FIXTURES / "alb.log").read_bytes().splitlines()[1].replace(b"192.0.2.5:", b"12.34.178.90.32:")
    event = Rules(source_of("aws.alb")).apply(line, "", MODIFIED_MS)
    assert event
    assert (event.members["source.ip"], event.members["source.port"], event.tags) == ("12.34.178.90.32", 2818, [])


def test_nlb() -> None:
    found = documents("aws.nlb", "nlb.log")
    assert times(found) == ["2026-11-20T08:15:30Z", "2026-11-20T08:15:31Z", "2019-03-01T08:15:31Z"]
    has(
        found[0],
        {
            "source.ip": "192.0.2.5",
            "source.bytes": 98,
            "destination.bytes": 246,
            "connection_time": 5,
            "tls.cipher": "ECDHE-RSA-AES128-SHA",
            "tls.client.server_name": "edge.example.com",
            "alpn_client_preference_list": '"h2","http/1.1"',
            "event.start": "2026-11-20T08:15:20",
        },
    )
    has(
        found[1],
        {
            "source.ip": "2001:db8::17",
            "source.port": 51342,
            "destination.ip": "2001:db8::99",
            "destination.port": 443,
            "connection_time": None,
            "incoming_tls_alert": "40",
            "extra": "something new",
        },
    )
    has(found[2], {"alpn_fe_protocol": None, "source.ip": "192.0.2.6"})


def test_classic_elb() -> None:
    found = documents("aws.elb", "elb.log")
    assert [each["@timestamp"][:19] for each in found] == [
        "2026-11-20T08:15:30",
        "2026-11-20T08:15:31",
        "2026-11-20T08:15:32",
        "2014-05-15T23:39:43",
    ]
    has(found[0], {"request_processing_time": 0.000073, "http.response.status_code": 200, "tls.cipher": None})
    has(
        found[1],
        {
            "http.request.method": None,
            "url.original": None,
            "http.response.status_code": None,
            "ssl_protocol": "TLSv1.2",
        },
    )
    has(
        found[2],
        {"source.ip": "2001:db8::17", "url.original": 'http://www.example.com:80/a"b c', "destination.ip": None},
    )
    has(found[2], {"user_agent.original": 'say "hi"', "backend_status_code": 0})
    has(found[3], {"http.version": "1.1", "user_agent.original": None})


def test_s3_access() -> None:
    found = documents("aws.s3access", "s3access.log")
    assert times(found) == [f"2026-11-20T08:15:3{second}Z" for second in range(4)]
    has(
        found[0],
        {
            "bucket": "orders",
            "source.ip": "192.0.2.3",
            "user.id": "arn:aws:iam::111122223333:user/mary",
            "event.action": "REST.GET.OBJECT",
            "key": "reports/2026%252B11.csv",
            "url.original": "/orders/reports/2026%2B11.csv?x=%22",
            "http.request.referrer": "https://example.com/a b",
            "http.response.status_code": 206,
            "object_size": 4096,
            "error.code": None,
            "acl_required": "Yes",
        },
    )
    has(
        found[1],
        {
            "source.ip": None,
            "url.original": None,
            "object_size": 77,
            "http.response.status_code": None,
            "version_id": None,
        },
    )
    has(found[2], {"user_agent.original": 'Mozilla "quoted" agent', "error.code": "NoSuchKey", "host_id": None})
    has(
        found[3],
        {"http.request.referrer": None, "turn_around_time": 2, "source_region": "eu-central-1", "extra": "new"},
    )


def test_vpc_flow_logs_in_the_default_format() -> None:
    found = documents("aws.vpcflow", "vpcflow.log")
    assert times(found) == [f"2026-11-20T08:15:3{second}Z" for second in range(3)]
    has(
        found[0],
        {
            "source.ip": "2001:db8::17",
            "source.port": 20641,
            "destination.ip": "192.0.2.20",
            "destination.port": 22,
            "network.iana_number": "6",
            "source.packets": 20,
            "source.bytes": 4249,
            "event.action": "ACCEPT",
            "event.end": "2026-11-20T08:16:30Z",
            "start": None,
            "end": None,
            "cloud.account.id": "111122223333",
            "version": 2,
        },
    )
    has(found[2], {"source.ip": None, "source.bytes": None, "event.action": None, "log-status": "NODATA"})


def test_vpc_flow_logs_in_a_custom_format() -> None:
    found = documents("aws.vpcflow", "vpcflow.custom.log")
    assert times(found) == ["2026-11-20T08:16:30Z", "2026-11-20T08:16:31Z"]
    has(
        found[0],
        {
            "cloud.instance.id": "i-0a",
            "pkt-srcaddr": "10.0.1.5",
            "tcp-flags": 19,
            "network.direction": "egress",
            "traffic-path": 8,
            "pkt-dst-aws-service": "S3",
            "brand-new": "x",
        },
    )
    has(found[1], {"cloud.instance.id": None, "pkt-srcaddr": None, "traffic-path": None, "extra": ["surplus"]})


def test_cloudfront() -> None:
    found = documents("aws.cloudfront", "cloudfront.log")
    assert times(found) == ["2026-11-20T08:15:30Z", "2026-11-20T08:15:31Z"]
    has(
        found[0],
        {
            "source.ip": "2001:db8::17",
            "source.port": 11040,
            "url.path": '/view/"x"%20y.html',
            "url.query": "q=a%2520b&r=%22",
            "http.response.status_code": 200,
            "http.response.bytes": 392,
            "user_agent.original": "Mozilla/5.0%20(X11;%20Linux%20x86_64)",
            "cs-cookie": "id=7;%20w=1",
            "time-taken": 0.001,
            "url.domain": "www.example.com",
            "date": None,
            "time": None,
        },
    )
    has(found[1], {"http.request.method": None, "http.response.bytes": None, "sc-range-end": None})


def test_cloudfront_with_other_fields() -> None:
    found = documents("aws.cloudfront", "cloudfront.fewer.log")
    assert times(found) == [
        *("2026-11-20T08:15:32Z", "2026-11-20T08:15:33Z", "2026-11-20T08:15:34.123Z", "2026-11-20T08:15:35Z")
    ]
    has(found[0], {"source.geo.country_iso_code": "DE", "source.as.number": 64496, "timestamp-ms": 1795162532123})
    has(found[1], {"http.response.status_code": 404, "source.ip": None})
    has(found[2], {"source.ip": "192.0.2.6", "timestamp-ms": None})
    has(found[3], {"source.ip": "192.0.2.7", "timestamp": None})


def test_waf() -> None:
    blocked, allowed = documents("aws.waf", "waf.ndjson")
    assert times([blocked, allowed]) == ["2026-11-20T08:15:30.123Z", "2026-11-20T08:15:31.000Z"]
    has(
        blocked,
        {
            "event.action": "BLOCK",
            "source.ip": "2001:db8::17",
            "source.geo.country_iso_code": "DE",
            "http.request.method": "GET",
            "http.response.status_code": 403,
            "http.request.body.bytes": 12,
            "url.path": "/find",
            "url.query": "q=1%20AND%201",
            "tls.client.ja3": "f7e7",
            "httpRequest.clientIp": None,
            "timestamp": None,
        },
    )
    assert blocked["httpRequest.headers"][1] == {"name": "User-Agent", "value": 'say "hi"'}
    has(allowed, {"event.action": "ALLOW", "http.response.status_code": None, "source.ip": "192.0.2.5"})


def test_route_53_resolver() -> None:
    answered, refused = documents("aws.route53resolver", "route53resolver.ndjson")
    assert times([answered, refused]) == ["2026-11-20T08:15:30Z", "2026-11-20T08:15:31Z"]
    has(
        answered,
        {
            "dns.question.name": "www.example.com.",
            "dns.question.type": "AAAA",
            "dns.response_code": "NOERROR",
            "source.ip": "10.0.1.5",
            "source.port": 56067,
            "network.transport": "udp",
            "cloud.instance.id": "i-0a",
            "srcids.resolver_endpoint": "rslvr-in-0",
        },
    )
    assert [each["Rdata"] for each in answered["answers"]] == ["2001:db8::17", '"v=spf1 -all"']
    has(
        refused,
        {"dns.response_code": "NXDOMAIN", "firewall_rule_action": "BLOCK", "cloud.instance.id": None, "answers": []},
    )


def test_guardduty() -> None:
    first, second = documents("aws.guardduty", "guardduty.jsonl")
    assert times([first, second]) == ["2026-11-20T08:15:30.123Z", "2026-11-20T08:15:31.000Z"]
    has(
        first,
        {
            "type": "UnauthorizedAccess:EC2/SSHBruteForce",
            "severity": 8.1,
            "message": '192.0.2.5 is performing "SSH" brute force attacks against i-0a.',
            "event.id": "60b0",
            "event.start": "2026-11-20T07:00:00.000Z",
            "service.count": 3,
            "cloud.account.id": "111122223333",
        },
    )
    assert first["resource"]["instanceDetails"]["tags"] == [{"key": "a.b", "value": "c"}]
    has(second, {"message": None, "service.archived": None, "event.end": None})


def test_cloudwatch_unwraps_log_events_and_drops_its_own_tests() -> None:
    found = documents("aws.cloudwatch", "cloudwatch.json")
    assert times(found) == ["2026-11-20T08:15:30.123Z", "2026-11-20T08:15:31.000Z", "2026-11-20T08:15:32.000Z"]
    assert [each["message"] for each in found] == ['START RequestId: 1 "quoted" ]}\n', '{"level":"info"}', "grün"]
    has(
        found[1],
        {
            "event.id": "37" + "0" * 53 + "2",
            "extractedFields": {"level": "info", "n": "7"},
            "cloud.account.id": "111122223333",
            "aws.cloudwatch.log_group": "/aws/lambda/f",
            "aws.cloudwatch.log_stream": "2026/11/20/[$LATEST]1",
            "aws.cloudwatch.subscription_filters": ["all"],
            "messageType": None,
            "owner": None,
        },
    )
    has(found[2], {"aws.cloudwatch.log_stream": "2026/11/20/[$LATEST]2"})


def test_eks_audit() -> None:
    patched, anonymous = documents("aws.eks_audit", "eks_audit.ndjson")
    assert times([patched, anonymous]) == ["2026-11-20T08:15:30.123456Z", "2026-11-20T08:15:31.000001Z"]
    has(
        patched,
        {
            "event.action": "patch",
            "user.name": "system:node:ip-10-0-1-5",
            "user.groups": ["system:nodes", "system:authenticated"],
            "source.ip": ["10.0.1.5", "2001:db8::17"],
            "http.response.status_code": 200,
            "orchestrator.resource.type": "pods",
            "orchestrator.namespace": "shop",
            "objectRef.subresource": "status",
            "url.original": "/api/v1/namespaces/shop/pods/cart?x=1",
            "responseStatus": {"metadata": {}},
        },
    )
    assert patched["annotations"]["authorization.k8s.io/decision"] == "allow"
    assert patched["requestObject"]["spec"] == {"n": 1.5, "deep": [[1, 2], [3]]}
    has(anonymous, {"http.response.status_code": 403, "user.id": None, "orchestrator.namespace": None})


def test_eks_audit_as_cloudwatch_exports_it() -> None:
    exported, plain = documents("aws.eks_audit", "eks_audit.export.log"), documents("aws.eks_audit", "eks_audit.ndjson")
    assert [{**one, "log.offset": 0} for one in exported] == [{**one, "log.offset": 0} for one in plain]


def test_eks_audit_as_firehose_delivers_it() -> None:
    audit = (FIXTURES / "eks_audit.ndjson").read_text().splitlines()
    events = [{"id": str(i), "timestamp": 1, "message": line} for i, line in enumerate(audit)]
    source = msgspec.structs.replace(
        source_of("aws.eks_audit"), framing=framing.JsonOptions(records="logEvents"), parser="json"
    )
    (piece,) = framing.build(source.framing).push(json.dumps({"logEvents": events}).encode())
    header = headers.header(parser=source.parsing, modified_ms=MODIFIED_MS)
    lines = Documents(header, Rules(source)).build(piece).operations.splitlines()[1::2]
    found = [flat(json.loads(line), declared(source.fields)) for line in lines]
    for one, direct in zip(found, documents("aws.eks_audit", "eks_audit.ndjson"), strict=True):
        assert one.items() >= {name: value for name, value in direct.items() if name != "log.offset"}.items()


def test_a_large_audit_event_is_taken_apart() -> None:
    event = b'2026-11-20T08:15:42.000Z {"verb":"create","requestObject":{"data":"%b"}}' % (b"x y" * 100_000)
    found = Rules(source_of("aws.eks_audit")).apply(event, "", MODIFIED_MS)
    assert found
    assert (found.members["event"], found.tags) == ({"action": "create"}, [])


def test_a_sources_own_fields_are_added_to_the_presets(tmp_path: Path) -> None:
    written = tmp_path / "pipeline.toml"
    written.write_text(
        '[[source]]\nname = "a"\npreset = "aws.waf"\nfields.source.name = "keyword"\nfields.webaclId = "text"\n'
    )
    (source,) = sources.load(written)
    types = declared(source.fields)
    assert (types["source.ip"], types["source.name"], types["webaclId"]) == ("ip", "keyword", "text")


KEYS = {
    "AWSLogs/111122223333/CloudTrail/eu-west-3/2026/11/20/111122223333_CloudTrail_eu-west-3_x.json.gz": "cloudtrail",
    "AWSLogs/o-org/111122223333/CloudTrail/eu-west-3/2026/11/20/x.json.gz": "cloudtrail",
    "AWSLogs/111122223333/CloudTrail-Insight/eu-west-3/2026/11/20/x.json.gz": "cloudtrail",
    "AWSLogs/111122223333/CloudTrail-Digest/eu-west-3/2026/11/20/x.json.gz": "aws-housekeeping",
    "AWSLogs/111122223333/ELBAccessLogTestFile": "aws-housekeeping",
    "AWSLogs/111122223333/elasticloadbalancing/eu-west-3/2026/11/20/"
    "111122223333_elasticloadbalancing_eu-west-3_app.shop.50dc_20261120T0820Z_192.0.2.1_2abc.log.gz": "alb",
    "AWSLogs/111122223333/elasticloadbalancing/eu-west-3/2026/11/20/"
    "111122223333_elasticloadbalancing_eu-west-3_net.edge.50dc_20261120T0820Z_2abc.log.gz": "nlb",
    "AWSLogs/111122223333/elasticloadbalancing/eu-west-3/2026/11/20/"
    "111122223333_elasticloadbalancing_eu-west-3_classic_20261120T0820Z_192.0.2.1_2abc.log": "elb",
    "AWSLogs/111122223333/elasticloadbalancing/eu-west-3/2026/11/20/"
    "conn_log.111122223333_elasticloadbalancing_eu-west-3_app.shop.50dc_20261120T0820Z_192.0.2.1_2abc.log.gz": "text",
    "AWSLogs/111122223333/vpcflowlogs/eu-west-3/2026/11/20/111122223333_vpcflowlogs_x.log.gz": "vpcflow",
    "AWSLogs/aws-account-id=111122223333/aws-service=vpcflowlogs/aws-region=eu-west-3/year=2026/x.log.gz": "vpcflow",
    "AWSLogs/111122223333/vpcflowlogs/eu-west-3/2026/11/20/x.log.parquet": "text",
    "AWSLogs/111122223333/WAFLogs/eu-west-3/shop/2026/11/20/08/15/x.log.gz": "waf",
    "AWSLogs/111122223333/vpcdnsquerylogs/vpc-0a/2026/11/20/vpc-0a_vpcdnsquerylogs_x.log.gz": "route53resolver",
    "AWSLogs/111122223333/GuardDuty/eu-west-3/2026/11/20/x.jsonl.gz": "guardduty",
    "exportedlogs/4f0c-1/kube-apiserver-audit-0a1b2c/000000.gz": "eks-audit",
    "exportedlogs/4f0c-1/kube-apiserver-0a1b2c/000000.gz": "text",
    "exportedlogs/aws-logs-write-test": "aws-housekeeping",
    "waf/2026/11/20/08/aws-waf-logs-shop-1-2026-11-20-08-15-30-e568b290-7131-c0c0": "waf",
    "E2EXAMPLE12345.2026-11-20-08.0a1b2c3d.gz": "cloudfront",
    "AWSLogs/111122223333/CloudFront/E2EXAMPLE12345.2026-11-20-08.0a1b2c3d.gz": "cloudfront",
    "Events.2026-11-20-08.0a1b2c3d.gz": "text",
    "2026-11-20-08-15-30-E568B2907131C0C0": "s3access",
    "access/111122223333/eu-west-3/orders/2026/11/20/2026-11-20-08-15-30-E568B2907131C0C0": "s3access",
    "stream-1-2026-11-20-08-15-30-e568b290-7131-c0c0": "text",
}


@pytest.mark.parametrize(("key", "name"), KEYS.items())
def test_awss_own_keys_select_the_source(key: str, name: str) -> None:
    source = sources.load(CONFIG_DIR / "pipeline.toml").for_key(f"drop/logs/{key}")
    assert source
    assert source.name == name


@pytest.mark.parametrize("preset", ["aws.alb", "aws.elb", "aws.nlb", "aws.s3access", "aws.vpcflow", "aws.waf"])
@given(event=st.binary(min_size=1).filter(lambda event: b"\n" not in event))
def test_whatever_a_line_holds_it_is_delivered(preset: str, event: bytes) -> None:
    found = Rules(source_of(preset)).apply(event, '["version","start"]', MODIFIED_MS)
    assert found
    if "_parse_failure" in found.tags:
        assert found.members["message"] == event.decode("utf-8", "replace")


@pytest.mark.parametrize("preset", ["aws.alb", "aws.elb", "aws.s3access"])
@given(text=st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S", "Zs"]), min_size=1))
@example('" ')
@example('" "a b')
@example('" a b')
def test_a_user_agent_arrives_as_it_was(preset: str, text: str) -> None:
    """Even one that looks like the end of its field, as long as no whole rest of a line stands in it."""
    assume(not re.search('" [^ "]+ [^ "]+ ', text))
    first = (FIXTURES / f"{preset.partition('.')[2]}.log").read_bytes().splitlines()[0]
    agent = Rules(source_of(preset)).apply(first, "", MODIFIED_MS)
    assert agent
    line = first.replace(agent.members["user_agent.original"].encode(), text.encode())
    found = Rules(source_of(preset)).apply(line, "", MODIFIED_MS)
    assert found
    assert found.members.get("user_agent.original") == (None if text == "-" else text)
