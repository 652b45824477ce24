"""Synthetic log events, as varied as real ones: endless, drawn from one seeded generator of random numbers.

An event is one line without its end; a CloudTrail event is one record of the `Records` array. All pools are
drawn before the first event, so that fewer events are a prefix of more.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from random import Random
from typing import Any

import msgspec

START = datetime(2026, 3, 14, tzinfo=UTC)  # every log begins here: results must not depend on the day
BLOCK_EVENTS = 1000  # choices drawn at once, which is several times cheaper than one by one

WORDS = (  # noqa: SIM905 a list of a hundred lines would be no easier to read
    "account address alert backup batch billing bucket cache cart catalog channel checkout cluster config "
    "contact credit customer daily dashboard delivery device discount domain event export feature filter "
    "forward gateway guide health history image import index invoice item journal label language ledger "
    "library license login market member message metric mobile network notice offer order partner payment "
    "photo policy portal price privacy product profile project quota rating reader receipt record refund "
    "region report request return review rollout sample search season security service session setting "
    "shipping signal source status stock storage stream summary support survey system target team template "
    "theme ticket token traffic upload user vendor version video voucher warehouse webhook wishlist zone"
).split()


def _user_agents() -> list[str]:
    """Forty user agents: browsers of several versions and systems, crawlers, tools."""
    systems = ("Windows NT 10.0; Win64; x64", "Macintosh; Intel Mac OS X 10_15_7", "X11; Linux x86_64")
    webkit = "AppleWebKit/537.36 (KHTML, like Gecko)"
    agents = [f"Mozilla/5.0 ({s}) {webkit} Chrome/{v}.0.0.0 Safari/537.36" for s in systems for v in range(138, 145)]
    agents += [f"Mozilla/5.0 ({s}; rv:{v}.0) Gecko/20100101 Firefox/{v}.0" for s in systems for v in (128, 140, 146)]
    agents += [
        f"Mozilla/5.0 (iPhone; CPU iPhone OS {v} like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
        "Version/18.3 Mobile/15E148 Safari/604.1"
        for v in ("17_6_1", "18_1", "18_3")
    ]
    return [
        *agents,
        f"Mozilla/5.0 (Linux; Android 15; Pixel 9) {webkit} Chrome/143.0.0.0 Mobile Safari/537.36",
        "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
        "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
        "curl/8.12.1",
        "python-requests/2.32.3",
        "Go-http-client/2.0",
        "-",
    ]


AGENTS = _user_agents()


def access_events(rng: Random) -> Iterator[bytes]:
    """Apache combined log lines: few busy visitors and many rare ones, pages, assets, searches and an API."""
    visitors = [(_ip(rng), rng.choice(AGENTS)) for _ in range(20_000)]
    pages = [_page(rng, number) for number in range(4_000)]
    links = ["-"] * 1500 + [f"https://www.example.com{path}" for _, path, size in pages[:1500] if size in (0, 18_000)]
    links += [f"https://www.google.com/search?q={rng.choice(WORDS)}+{rng.choice(WORDS)}" for _ in range(200)]
    visitor_weights, page_weights = _few_busy_many_rare(len(visitors)), _few_busy_many_rare(len(pages))
    clock, second, stamp = 0.0, -1, ""
    while True:
        block = zip(
            rng.choices(visitors, cum_weights=visitor_weights, k=BLOCK_EVENTS),
            rng.choices(pages, cum_weights=page_weights, k=BLOCK_EVENTS),
            rng.choices(links, k=BLOCK_EVENTS),
            rng.choices(STATUSES, STATUS_WEIGHTS, k=BLOCK_EVENTS),
            strict=True,
        )
        for (ip, agent), (method, path, size), link, status in block:
            clock += rng.random() * 0.2
            if int(clock) != second:
                second = int(clock)
                stamp = (START + timedelta(seconds=second)).strftime("%d/%b/%Y:%H:%M:%S +0000")
            dice = rng.getrandbits(32)
            user, query = "-", ""
            if size == 0:  # made for the visitor: other parameters and another size every time
                user = WORDS[dice % 90] if dice % 3 == 0 else "-"
                query = f"?{WORDS[dice % 89]}={WORDS[dice % 83]}&page={dice % 40}"
                size = 300 + dice % 60_000
            sent = "-" if status == 304 else size
            request = f"{method} {path}{query} HTTP/1.1"
            yield f'{ip} - {user} [{stamp}] "{request}" {status} {sent} "{link}" "{agent}"'.encode()


def alb_events(rng: Random) -> Iterator[bytes]:
    """Access log lines of an Application Load Balancer with 29 fields: two target groups, mostly behind TLS."""
    visitors = [(_ip(rng), rng.choice(AGENTS)) for _ in range(20_000)]
    pages = [_page(rng, number) for number in range(4_000)]
    targets = [f"10.0.{rng.randrange(4)}.{rng.randrange(1, 255)}:8080" for _ in range(12)]
    region = f"elasticloadbalancing:eu-central-1:{ACCOUNT}"
    groups = [f"arn:aws:{region}:targetgroup/{name}/{rng.getrandbits(64):016x}" for name in ("shop-web", "shop-api")]
    balancer = f"app/shop-public/{rng.getrandbits(64):016x}"
    certified = f'"shop.example.com" "arn:aws:acm:eu-central-1:{ACCOUNT}:certificate/{_uuid(rng)}"'
    served = ("https://shop.example.com:443", "TLS_AES_128_GCM_SHA256 TLSv1.3", certified)
    visitor_weights, page_weights = _few_busy_many_rare(len(visitors)), _few_busy_many_rare(len(pages))
    clock = 0.0
    while True:
        block = zip(
            rng.choices(visitors, cum_weights=visitor_weights, k=BLOCK_EVENTS),
            rng.choices(pages, cum_weights=page_weights, k=BLOCK_EVENTS),
            rng.choices(STATUSES, STATUS_WEIGHTS, k=BLOCK_EVENTS),
            strict=True,
        )
        for (ip, agent), (method, path, size), status in block:
            clock += rng.random() * 0.02
            time_, took = START + timedelta(seconds=clock), rng.randrange(1, 900)
            begun = time_ - timedelta(milliseconds=took)
            target, query = rng.choice(targets), "" if size else f"?id={rng.getrandbits(32)}"
            to, by_target = ("-", "-") if status == 503 else (target, str(status))
            kind = rng.choice(("https", "h2", "h2", "http"))
            site, tls, domain = ("http://shop.example.com:80", "- -", '"-" "-"') if kind == "http" else served
            yield (
                f"{kind} {time_:%Y-%m-%dT%H:%M:%S.%fZ} {balancer} "
                f"{ip}:{rng.randrange(1024, 65536)} {to} 0.00{took % 3} {took / 1000:.3f} 0.000 {status} {by_target} "
                f"{rng.randrange(80, 2000)} {size or rng.randrange(300, 60_000)} "
                f'"{method} {site}{path}{query} HTTP/{rng.choice(("1.1", "2.0"))}" "{agent}" '
                f"{tls} {groups['/api/' in path]} "
                f'"Root=1-{int(clock) + 0x69B4A000:08x}-{rng.getrandbits(96):024x}" {domain} '
                f'{rng.randrange(4)} {begun:%Y-%m-%dT%H:%M:%S.%fZ} "waf,forward" "-" "-" "{to}" "{by_target}" "-" "-"'
            ).encode()


STATUSES = (200, 304, 301, 302, 404, 403, 206, 500, 503)
STATUS_WEIGHTS = (820, 70, 25, 20, 45, 8, 6, 4, 2)


def _page(rng: Random, number: int) -> tuple[str, str, int]:
    """Method, path and size of a page; size 0 stands for one that is made anew for each visitor."""
    one, two, three = rng.choices(WORDS, k=3)
    match number % 5:
        case 0:
            return (
                "GET",
                f"/assets/js/{one}-{two}.{rng.getrandbits(32):08x}.js",
                rng.randrange(2_000, 400_000),
            )
        case 1:
            return "GET", f"/images/{one}/{two}_{number}.webp", rng.randrange(4_000, 900_000)
        case 2:
            return (
                "GET",
                f"/blog/20{rng.randrange(18, 27)}/{rng.randrange(1, 13):02}/{one}-{two}-{three}/",
                18_000,
            )
        case 3:
            return "GET", f"/{one}/{two}", 0
        case _:
            return (
                rng.choice(("GET", "GET", "POST", "PUT")),
                f"/api/v{rng.randrange(1, 4)}/{one}s/{number}",
                0,
            )


def eve_events(rng: Random) -> Iterator[bytes]:
    """Suricata eve.json objects of five types, nested as Suricata nests them."""
    hosts = [_ip(rng) for _ in range(5_000)]
    makers = (_eve_flow, _eve_dns, _eve_http, _eve_tls, _eve_alert)
    clock = 0.0
    while True:
        for make in rng.choices(makers, (30, 20, 20, 15, 15), k=BLOCK_EVENTS):
            clock += rng.random() * 0.02
            time_ = START + timedelta(seconds=clock)
            event: dict[str, Any] = {
                "timestamp": time_.strftime("%Y-%m-%dT%H:%M:%S.%f+0000"),
                "flow_id": rng.getrandbits(50),
                "in_iface": rng.choice(("eth0", "eth1")),
                "event_type": "",
                "src_ip": f"10.{rng.randrange(4)}.{rng.randrange(16)}.{rng.randrange(1, 255)}",
                "src_port": rng.randrange(32_768, 61_000),
                "dest_ip": rng.choice(hosts),
                "dest_port": 53 if make is _eve_dns else rng.choice((80, 443, 443, 8080)),
                "proto": "UDP" if make is _eve_dns else "TCP",
                "pkt_src": "wire/pcap",
                "community_id": f"1:{rng.getrandbits(160):040x}",
            }
            make(rng, time_, event)
            yield msgspec.json.encode(event)


def _eve_flow(rng: Random, time_: datetime, event: dict[str, Any]) -> None:
    packets = rng.randrange(4, 400)
    event |= {
        "event_type": "flow",
        "app_proto": rng.choice(("tls", "http", "ssh", "failed")),
        "flow": {
            "pkts_toserver": packets,
            "pkts_toclient": packets * 2,
            "bytes_toserver": packets * rng.randrange(60, 400),
            "bytes_toclient": packets * rng.randrange(200, 1400),
            "start": (time_ - timedelta(seconds=packets / 10)).strftime("%Y-%m-%dT%H:%M:%S.%f+0000"),
            "end": event["timestamp"],
            "age": packets // 10,
            "state": rng.choice(("closed", "established", "new")),
            "reason": rng.choice(("timeout", "shutdown", "forced")),
            "tx_cnt": rng.randrange(1, 9),
        },
        "tcp": {"tcp_flags": "1b", "tcp_flags_ts": "1b", "tcp_flags_tc": "1b", "syn": True, "state": "closed"},
    }


def _eve_dns(rng: Random, _time: datetime, event: dict[str, Any]) -> None:
    name = f"{rng.choice(WORDS)}-{rng.randrange(50)}.{rng.choice(WORDS)}.example.com"
    addresses = [_ip(rng) for _ in range(rng.randrange(1, 5))]
    event |= {
        "event_type": "dns",
        "dns": {
            "version": 3,
            "type": "response",
            "tx_id": rng.randrange(1 << 16),
            "id": rng.randrange(1 << 16),
            "flags": "8180",
            "qr": True,
            "rd": True,
            "ra": True,
            "opcode": 0,
            "rcode": "NOERROR",
            "queries": [{"rrname": name, "rrtype": "A"}],
            "answers": [
                {"rrname": name, "rrtype": "A", "ttl": rng.randrange(30, 3600), "rdata": address}
                for address in addresses
            ],
            "grouped": {"A": addresses},
        },
    }


def _eve_http(rng: Random, _time: datetime, event: dict[str, Any]) -> None:
    method, path, size = _page(rng, rng.randrange(4_000))
    event |= {
        "event_type": "http",
        "tx_id": rng.randrange(9),
        "http": {
            "hostname": f"{rng.choice(WORDS)}.example.com",
            # Some visitors search in quotes and in other scripts: escapes and multibyte characters.
            "url": f'{path}?q="{rng.choice(("größe", "日誌", "naïve", "plain"))}"&id={rng.getrandbits(40):x}',
            "http_user_agent": rng.choice(AGENTS),
            "http_content_type": rng.choice(("text/html", "application/json", "image/webp")),
            "http_refer": f"https://www.example.com/{rng.choice(WORDS)}/{rng.choice(WORDS)}",
            "http_method": method,
            "protocol": "HTTP/1.1",
            "status": rng.choice((200, 200, 200, 304, 404)),
            "length": size,
        },
    }


FINGERPRINTS = tuple(f"{number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128:032x}" for number in range(1, 80))


def _eve_tls(rng: Random, time_: datetime, event: dict[str, Any]) -> None:
    name = f"{rng.choice(WORDS)}.{rng.choice(WORDS)}.example.com"
    fingerprint = f"{rng.getrandbits(160):040x}"
    event |= {
        "event_type": "tls",
        "tls": {
            "sni": name,
            "version": rng.choice(("TLS 1.2", "TLS 1.3")),
            "subject": f'C=DE, O="{rng.choice(WORDS).title()} GmbH & Söhne", CN={name}',
            "issuerdn": "C=US, O=Let's Encrypt, CN=R11",
            "serial": ":".join(f"{byte:02X}" for byte in rng.randbytes(16)),
            "fingerprint": ":".join(fingerprint[at : at + 2] for at in range(0, 40, 2)),
            "notbefore": (time_ - timedelta(days=rng.randrange(60))).strftime("%Y-%m-%dT%H:%M:%S"),
            "notafter": (time_ + timedelta(days=rng.randrange(1, 90))).strftime("%Y-%m-%dT%H:%M:%S"),
            "ja3": {"hash": rng.choice(FINGERPRINTS)},
            "ja3s": {"hash": rng.choice(FINGERPRINTS)},
        },
    }


def _eve_alert(rng: Random, time_: datetime, event: dict[str, Any]) -> None:
    _eve_http(rng, time_, event)
    signature = rng.randrange(300)
    event |= {
        "event_type": "alert",
        "app_proto": "http",
        "direction": "to_server",
        "alert": {
            "action": "allowed",
            "gid": 1,
            "signature_id": 2_013_000 + signature,
            "rev": signature % 9,
            "signature": f"ET {WORDS[signature % 90].upper()} suspicious {WORDS[signature % 77]} request",
            "category": rng.choice(("Potentially Bad Traffic", "Misc activity", "Attempted Information Leak")),
            "severity": 1 + signature % 3,
            "metadata": {"created_at": ["2024_05_01"], "updated_at": ["2025_11_20"]},
        },
    }


def cloudtrail_events(rng: Random) -> Iterator[bytes]:
    """CloudTrail records: a few roles and users of one account calling a dozen operations."""
    identities = [_identity(rng, number) for number in range(200)]
    weights = _few_busy_many_rare(len(identities))
    clock = 0.0
    while True:
        callers = rng.choices(identities, cum_weights=weights, k=BLOCK_EVENTS)
        calls = rng.choices(OPERATIONS, OPERATION_WEIGHTS, k=BLOCK_EVENTS)
        for identity, (service, operation, read_only) in zip(callers, calls, strict=True):
            clock += rng.random() * 0.4
            subject = f"{rng.choice(WORDS)}-{rng.choice(WORDS)}-{rng.randrange(60)}"
            record: dict[str, Any] = {
                "eventVersion": "1.11",
                "userIdentity": identity,
                "eventTime": (START + timedelta(seconds=clock)).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "eventSource": f"{service}.amazonaws.com",
                "eventName": operation,
                "awsRegion": rng.choice(("eu-central-1", "eu-central-1", "us-east-1", "eu-west-1")),
                "sourceIPAddress": _ip(rng),
                "userAgent": rng.choice(TOOLS),
                "requestParameters": {f"{service}Name": subject, "maxResults": rng.choice((50, 100, 1000))},
                "responseElements": None if read_only else {"status": "OK", f"{service}Id": _uuid(rng)},
                "requestID": _uuid(rng),
                "eventID": _uuid(rng),
                "readOnly": read_only,
                "resources": [{"accountId": ACCOUNT, "ARN": f"arn:aws:{service}:::{subject}"}],
                "eventType": "AwsApiCall",
                "managementEvent": True,
                "recipientAccountId": ACCOUNT,
                "eventCategory": "Management",
                "tlsDetails": {"tlsVersion": "TLSv1.3", "cipherSuite": "TLS_AES_128_GCM_SHA256"},
            }
            if rng.random() < 0.03:
                record["errorCode"] = "AccessDenied"
                record["errorMessage"] = f'User is not authorized to perform "{service}:{operation}"'
            yield msgspec.json.encode(record)


ACCOUNT = "123456789012"
TOOLS = (
    "aws-cli/2.27.1 md/awscrt#0.26.1 ua/2.1 os/linux#6.8 lang/python#3.13.3 cfg/retry-mode#standard",
    "Boto3/1.38.2 md/Botocore#1.38.2 ua/2.1 os/linux#5.10 lang/python#3.13.3 exec-env/AWS_Lambda_python3.13",
    "APN/1.0 HashiCorp/1.0 Terraform/1.11.4 aws-sdk-go-v2/1.36.3 ua/2.1 os/linux lang/go#1.24.1",
    "console.amazonaws.com",
)
OPERATIONS = (
    ("s3", "ListObjects", True),
    ("ec2", "DescribeInstances", True),
    ("ec2", "RunInstances", False),
    ("iam", "GetRole", True),
    ("iam", "CreateAccessKey", False),
    ("kms", "Decrypt", True),
    ("lambda", "Invoke", False),
    ("logs", "CreateLogStream", False),
    ("dynamodb", "DescribeTable", True),
    ("sqs", "GetQueueAttributes", True),
)
OPERATION_WEIGHTS = (20, 18, 2, 8, 1, 22, 6, 8, 7, 5)


def _identity(rng: Random, number: int) -> dict[str, Any]:
    role, session = f"{rng.choice(WORDS)}-{rng.choice(WORDS)}-role", f"{rng.choice(WORDS)}-{number}"
    principal = f"AROA{rng.getrandbits(80):020X}"[:21]
    return {
        "type": "AssumedRole",
        "principalId": f"{principal}:{session}",
        "arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/{role}/{session}",
        "accountId": ACCOUNT,
        "sessionContext": {
            "sessionIssuer": {"type": "Role", "principalId": principal, "userName": role},
            "attributes": {"creationDate": "2026-03-13T21:04:11Z", "mfaAuthenticated": "false"},
        },
    }


def _uuid(rng: Random) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _ip(rng: Random) -> str:
    return f"{rng.randrange(11, 223)}.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}"


def _few_busy_many_rare(size: int) -> list[float]:
    """Cumulative weights after Zipf's law."""
    return list(accumulate(1 / (rank + 3) for rank in range(size)))
