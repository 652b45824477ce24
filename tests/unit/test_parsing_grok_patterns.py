"""The standard grok patterns: all compile, and those that recipes use take what they should and nothing else."""

import re
from ipaddress import IPv4Address, IPv6Address
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logflume.errors import ParseFailure
from logflume.parsing.grok import Grok, build
from logflume.parsing.grok_patterns import FieldNames, standard


def whole(syntax: str, text: str, **options: Any) -> bool:
    """Whether the pattern takes all of the text."""
    try:
        found = build(Grok(patterns=(f"%{{{syntax}:x}}",), anchored=True, **options)).parse(text.encode(), "")
    except ParseFailure:
        return False
    return bool(found["x"] == text)


def parse(pattern: str, text: str, field_names: FieldNames = "ecs") -> dict[str, Any]:
    return build(Grok(patterns=(pattern,), field_names=field_names)).parse(text.encode(), "")


@pytest.mark.parametrize("field_names", get_args(FieldNames.__value__))
def test_every_pattern_compiles_and_refers_to_known_ones(field_names: FieldNames) -> None:
    patterns = standard(field_names)
    assert len(patterns) > 150
    for name, definition in patterns.items():
        assert re.fullmatch(r"\w+", name)
        assert Grok(patterns=(f"%{{{name}:whole}}",), field_names=field_names), definition


def test_the_base_set_is_complete() -> None:
    base = """
        USERNAME USER EMAILLOCALPART EMAILADDRESS INT BASE10NUM NUMBER BASE16NUM BASE16FLOAT POSINT NONNEGINT WORD
        NOTSPACE SPACE DATA GREEDYDATA QUOTEDSTRING UUID URN MAC CISCOMAC WINDOWSMAC COMMONMAC IPV6 IPV4 IP HOSTNAME
        IPORHOST HOSTPORT PATH UNIXPATH TTY WINPATH URIPROTO URIHOST URIPATH URIQUERY URIPARAM URIPATHPARAM URI MONTH
        MONTHNUM MONTHNUM2 MONTHDAY DAY YEAR HOUR MINUTE SECOND TIME DATE_US DATE_EU ISO8601_TIMEZONE ISO8601_SECOND
        TIMESTAMP_ISO8601 DATE DATESTAMP TZ DATESTAMP_RFC822 DATESTAMP_RFC2822 DATESTAMP_OTHER DATESTAMP_EVENTLOG
        SYSLOGTIMESTAMP PROG SYSLOGPROG SYSLOGHOST SYSLOGFACILITY HTTPDATE QS SYSLOGBASE LOGLEVEL COMMONAPACHELOG
        COMBINEDAPACHELOG HTTPD_ERRORLOG SYSLOGLINE SYSLOG5424LINE JAVASTACKTRACEPART S3_ACCESS_LOG ELB_ACCESS_LOG
    """
    assert set(base.split()) <= standard("ecs").keys()
    assert standard("ecs").keys() == standard("legacy").keys()


EXAMPLES: dict[str, tuple[list[str], list[str]]] = {
    "INT": (["0", "+1", "-12", "007"], ["", "1.5", "a", "--1"]),
    "NUMBER": (["1", "-1.5", ".5", "+3.25"], ["1.", "1.2.3", "abc", "1e5"]),
    "BASE10NUM": (["10", "0.1"], ["0x10"]),
    "BASE16NUM": (["0xFF", "ff", "-0x1"], ["xyz", "0x"]),
    "BASE16FLOAT": (["0x1.8", "a.b"], ["g"]),
    "POSINT": (["1", "65535"], ["0", "-1", "01"]),
    "NONNEGINT": (["0", "01"], ["-1"]),
    "WORD": (["abc", "a_1"], ["a-b", "a b", ""]),
    "NOTSPACE": (["a-b/ü"], ["a b"]),
    "DATA": (["a b", "ü"], ["a\nb"]),
    "GREEDYDATA": (["a b", '"x"'], ["a\nb"]),
    "QUOTEDSTRING": (
        ['"a b"', "'a'", "`a`", '""', "''", '"a \\" b"', '"a \\\\"'],
        ['"a', "a", '"a" "b"', "\"a'", '"a\\"'],
    ),
    "UUID": (["123e4567-e89b-12d3-a456-426614174000"], ["123e4567e89b12d3a456426614174000", "g23e4567"]),
    "URN": (["urn:isbn:0451450523", "urn:example:a%20b"], ["urn::x", "isbn:1"]),
    "MAC": (["00:1a:2B:3c:4d:5e", "00-1a-2b-3c-4d-5e", "001a.2b3c.4d5e"], ["00:1a:2b:3c:4d", "00:1a-2b:3c:4d:5e"]),
    "IPV4": (["1.0.0.0", "192.0.2.1", "255.255.255.255"], ["256.1.1.1", "1.2.3", "1.2.3.4.5", "a.b.c.d"]),
    "IPV6": (
        [
            *("::", "::1", "1::", "2001:db8::1", "1:2:3:4:5:6:7:8", "fe80::1%eth0", "1:2:3:4:5:6:7::"),
            *("::2:3:4:5:6:7:8", "::ffff:192.0.2.1", "64:ff9b::192.0.2.33", "1:2:3:4:5:6:192.0.2.1"),
        ],
        ["1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", ":::", "1::2::3", "12345::", "g::1", "12:30:45", "192.0.2.1"],
    ),
    "IP": (["192.0.2.1", "::1"], ["example.com"]),
    "HOSTNAME": (["example.com", "a-b", "host.example.", "x"], ["-a", "a..b", "a_b", "a" * 64, ""]),
    "IPORHOST": (["192.0.2.1", "example.com", "::1"], ["a b"]),
    "HOSTPORT": (["example.com:80", "192.0.2.1:443"], ["example.com", "example.com:0"]),
    "EMAILADDRESS": (["a@example.com", "a.b+c@x.org", "o'neill@x"], ["a", "a@", ".a@x", "a..b@x", "a b@x"]),
    "PATH": (["/", "/var/log/a-b", "/größe", "C:\\Users\\x", "\\\\host\\share"], ["a/b", "var"]),
    "UNIXPATH": (["/a//b", "/a.b~"], ["/a b"]),
    "TTY": (["/dev/pts/0", "/dev/tty1", "/dev/ttyq9"], ["/dev/null"]),
    "URIPATHPARAM": (["/a", "/a?b=c&d=[1]", "/?"], ["a", "?a"]),
    "URI": (
        ["http://example.com/a?b=1", "ftp://u:p@h:21/x", "file:///etc", "https://192.0.2.1:8443"],
        ["example.com/a", "http:/x", "://x"],
    ),
    "MONTH": (["Jan", "January", "march", "Mär", "Dez", "Oktober", "sep"], ["Foo", "Ja"]),
    "MONTHNUM": (["1", "01", "12"], ["0", "13"]),
    "MONTHDAY": (["1", "09", "31"], ["0", "32"]),
    "DAY": (["Mon", "Thursday"], ["mon", "Xyz"]),
    "YEAR": (["26", "2026"], ["202", "20260"]),
    "HOUR": (["0", "09", "23"], ["24"]),
    "SECOND": (["0", "59", "60", "59.123", "59,5"], ["61"]),
    "TIME": (["1:02:03", "23:59:60", "12:00:00.123"], ["24:00:00", "12:60:00", "12:00"]),
    "DATE": (["12/31/2026", "31.12.26"], ["2026-12-31T"]),
    "TIMESTAMP_ISO8601": (
        ["2026-11-21T07:25:00Z", "2026-11-21 07:25", "2026-11-21T07:25:00.123+01:00", "2026-11-21T0725", "26-1-2 3:04"],
        ["2026-13-21T07:25:00Z", "2026/11/21 07:25", "2026-11-21", "2026-11-21T25:00:00"],
    ),
    "HTTPDATE": (["14/Mar/2026:00:00:00 +0000"], ["14/13/2026:00:00:00 +0000", "14/Mar/2026 00:00:00"]),
    "SYSLOGTIMESTAMP": (["Oct  1 22:14:15", "Oct 11 22:14:15"], ["2026-10-11 22:14:15", "Oct 32 22:14:15"]),
    "DATESTAMP_RFC822": (["Mon Aug 15 2005 15:52:01 UTC"], ["Mon, 15 Aug 2005"]),
    "DATESTAMP_RFC2822": (["Mon, 15 Aug 2005 15:52:01 +0000"], ["Mon 15 Aug 2005 15:52:01 +0000"]),
    "DATESTAMP_EVENTLOG": (["20051231235959"], ["20051331235959"]),
    "LOGLEVEL": (
        ["INFO", "warn", "Warning", "ERR", "error", "CRITICAL", "fatal", "emerg", "Notice"],
        ["LEVEL", "wArn"],
    ),
    "JAVACLASS": (["a.b.C", "C$1", "Main"], ["a..b", "1a", "a."]),
    "CISCOTAG": (["ASA-6-302013"], ["asa-6-302013"]),
    "RUUID": (["0123456789abcdef0123456789ABCDEF"], ["0123"]),
}


@pytest.mark.parametrize(("syntax", "text"), [(name, text) for name, (good, _) in EXAMPLES.items() for text in good])
def test_it_takes_what_it_is_for(syntax: str, text: str) -> None:
    assert whole(syntax, text)


@pytest.mark.parametrize(("syntax", "text"), [(name, text) for name, (_, bad) in EXAMPLES.items() for text in bad])
def test_it_takes_nothing_else(syntax: str, text: str) -> None:
    assert not whole(syntax, text)


IPV4, IPV6 = (build(Grok(patterns=(f"%{{{name}:x}}",), anchored=True)) for name in ("IPV4", "IPV6"))


@given(st.ip_addresses(v=4))
def test_every_ipv4_address(address: IPv4Address) -> None:
    assert IPV4.parse(str(address).encode(), "") == {"x": str(address)}


@given(st.ip_addresses(v=6))
def test_every_ipv6_address_short_and_long(address: IPv6Address) -> None:
    for text in (address.compressed, address.exploded, address.compressed.upper()):
        assert IPV6.parse(text.encode(), "") == {"x": text}


@given(st.text("0123456789abcdef:.", max_size=40))
def test_what_python_takes_for_no_ipv6_address_is_none(text: str) -> None:
    try:
        IPv6Address(text)
    except ValueError:
        with pytest.raises(ParseFailure):
            IPV6.parse(text.encode(), "")
    else:
        assert IPV6.parse(text.encode(), "") == {"x": text}


ACCESS = '192.0.2.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif?x=1 HTTP/1.0" 200 2326'
COMMON = {
    "source.address": "192.0.2.1",
    "user.name": "frank",
    "timestamp": "10/Oct/2000:13:55:36 -0700",
    "http.request.method": "GET",
    "url.original": "/a.gif?x=1",
    "http.version": "1.0",
    "http.response.status_code": 200,
    "http.response.body.bytes": 2326,
}


def test_common_log_format() -> None:
    assert parse("^%{COMMONAPACHELOG}$", ACCESS) == COMMON


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            ACCESS + ' "http://www.example.com/" "Mozilla/4.08 (Win98; \\"x\\")"',
            {"http.request.referrer": "http://www.example.com/"},
        ),
        (ACCESS + ' "-" "-"', {}),
        (ACCESS.replace("192.0.2.1", "2001:db8::1") + ' "-" "curl"', {"source.address": "2001:db8::1"}),
        (ACCESS.replace("192.0.2.1", "host.example.com") + ' "-" "curl"', {"source.address": "host.example.com"}),
        (ACCESS.replace("frank", "joe@example.com") + ' "-" "-"', {"user.name": "joe@example.com"}),
        (ACCESS + ' "a "quoted" b" "curl"', {"http.request.referrer": 'a "quoted" b', "user_agent.original": "curl"}),
        (ACCESS + ' "-" "Größe"', {"user_agent.original": "Größe"}),
    ],
)
def test_combined_log_format(line: str, expected: dict[str, Any]) -> None:
    found = parse("^%{COMBINEDAPACHELOG}", line)
    assert {**found, **expected} == found
    assert found["http.response.status_code"] == 200


def test_a_request_that_is_none_and_an_answer_without_a_body() -> None:
    found = parse("^%{COMBINEDAPACHELOG}$", '192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "\\x16\\x03" 400 - "-" "-"')
    assert found == {
        "source.address": "192.0.2.1",
        "timestamp": "10/Oct/2000:13:55:36 -0700",
        "http.response.status_code": 400,
    }


@pytest.mark.parametrize("line", ["", "x", ACCESS.replace("[", ""), ACCESS.replace("200", "OK"), '"GET /"'])
def test_no_access_log_line(line: str) -> None:
    with pytest.raises(ParseFailure, match="no_match"):
        parse("^%{COMMONAPACHELOG}$", line)


def test_legacy_names_are_those_of_older_recipes() -> None:
    found = parse("%{COMBINEDAPACHELOG}", ACCESS + ' "-" "curl/8"', "legacy")
    assert found == {
        "clientip": "192.0.2.1",
        "ident": "-",
        "auth": "frank",
        "timestamp": "10/Oct/2000:13:55:36 -0700",
        "verb": "GET",
        "request": "/a.gif?x=1",
        "httpversion": "1.0",
        "response": "200",
        "bytes": "2326",
        "referrer": '"-"',
        "agent": '"curl/8"',
    }


def test_httpd_error_logs() -> None:
    old = "[Mon Aug 31 09:30:48 2015] [error] [client 192.0.2.1] File does not exist: /var/www/x"
    assert parse("^%{HTTPD_ERRORLOG}$", old) == {
        "timestamp": "Mon Aug 31 09:30:48 2015",
        "log.level": "error",
        "source.address": "192.0.2.1",
        "message": "File does not exist: /var/www/x",
    }
    new = (
        "[Mon Aug 31 09:30:48.958285 2015] [proxy_fcgi:error] [pid 28787:tid 1402] [client 192.0.2.1:58935] AH01071: No"
    )
    assert parse("^%{HTTPD24_ERRORLOG}$", new) == {
        "timestamp": "Mon Aug 31 09:30:48.958285 2015",
        "apache.error.module": "proxy_fcgi",
        "log.level": "error",
        "process.pid": 28787,
        "process.thread.id": 1402,
        "source.address": "192.0.2.1",
        "source.port": 58935,
        "error.code": "AH01071",
        "message": "No",
    }


def test_syslog_lines() -> None:
    line = "Oct 11 22:14:15 mymachine su[42]: 'su root' failed"
    expected = {
        "timestamp": "Oct 11 22:14:15",
        "host.hostname": "mymachine",
        "process.name": "su",
        "process.pid": 42,
        "message": "'su root' failed",
    }
    assert parse("^%{SYSLOGLINE}$", line) == expected
    assert parse("^%{SYSLOGBASE} %{GREEDYDATA:message}$", line) == expected
    iso = line.replace("Oct 11 22:14:15", "2026-10-11T22:14:15.003Z")
    assert parse("^%{SYSLOGLINE}$", iso) == expected | {"timestamp": "2026-10-11T22:14:15.003Z"}
    assert parse("^%{SYSLOGLINE}$", line, "legacy")["logsource"] == "mymachine"
    with pytest.raises(ParseFailure):
        parse("^%{SYSLOGBASE}", "mymachine su: no time")


def test_syslog_5424_line() -> None:
    line = '<165>1 2003-10-11T22:14:15.003Z host.example.com app 99 ID47 [a@1 iut="3"] text here'
    assert parse("^%{SYSLOG5424LINE}$", line) == {
        "log.syslog.priority": 165,
        "system.syslog.version": "1",
        "timestamp": "2003-10-11T22:14:15.003Z",
        "host.hostname": "host.example.com",
        "process.name": "app",
        "process.pid": 99,
        "event.code": "ID47",
        "system.syslog.structured_data": '[a@1 iut="3"]',
        "message": "text here",
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("\tat com.example.Main.run(Main.java:42)", ("com.example.Main", "run", "Main.java", 42)),
        ("    at a.B$1.<init>(B.java:1)", ("a.B$1", "<init>", "B.java", 1)),
        ("at sun.X.invoke(Native Method)", ("sun.X", "invoke", "Native Method", None)),
    ],
)
def test_java_stack_trace_parts(line: str, expected: tuple[Any, ...]) -> None:
    found = parse("^%{JAVASTACKTRACEPART}$", line)
    names = ("java.log.origin.class.name", "log.origin.function", "log.origin.file.name", "log.origin.file.line")
    assert tuple(map(found.get, names)) == expected


S3 = (
    "79a59df9 bucket [06/Feb/2019:00:00:38 +0000] 192.0.2.3 arn:aws:iam::1:user/x 3E57427F3 REST.GET.OBJECT a%20b.txt "
    '"GET /bucket/a%20b.txt HTTP/1.1" 404 NoSuchKey 243 - 29 - "-" "S3Console/0.4" - Ke1bUcazaN1jWuUlPJaxF= SigV4 '
    "ECDHE-RSA-AES128-GCM-SHA256 AuthHeader bucket.s3.amazonaws.com TLSV1.2 - -"
)


def test_s3_access_log() -> None:
    found = parse("^%{S3_ACCESS_LOG}", S3)
    assert found["timestamp"] == "06/Feb/2019:00:00:38 +0000"
    assert found["aws.s3access.operation"] == "REST.GET.OBJECT"
    assert found["url.original"] == "/bucket/a%20b.txt"
    assert (found["http.response.status_code"], found["aws.s3access.bytes_sent"]) == (404, 243)
    assert found["aws.s3access.error_code"] == "NoSuchKey"
    assert found["user_agent.original"] == "S3Console/0.4"
    assert found["aws.s3access.tls_version"] == "TLSV1.2"
    assert found.keys().isdisjoint({"aws.s3access.object_size", "http.request.referrer", "aws.s3access.version_id"})
    assert parse("^%{S3_ACCESS_LOG}", S3, "legacy")["request_time_ms"] == 29


def test_s3_access_log_of_a_lifecycle_rule_has_no_requester_and_no_request() -> None:
    line = "79a bucket [06/Feb/2019:00:00:38 +0000] - AmazonS3 3E5 S3.EXPIRE.OBJECT key - - - - 9 - - - - -"
    found = parse("^%{S3_ACCESS_LOG}$", line)
    assert found["aws.s3access.operation"] == "S3.EXPIRE.OBJECT"
    assert "client.ip" not in found


ELB = (
    "2015-05-13T23:39:43.945958Z my-elb 192.168.131.39:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 201 0 29 "
    '"GET http://www.example.com:80/a?b=1 HTTP/1.1"'
)


def test_elb_access_log() -> None:
    found = parse("^%{ELB_ACCESS_LOG}$", ELB + ' "curl/7.38.0" - -')
    assert (found["source.ip"], found["source.port"]) == ("192.168.131.39", 2817)
    assert found["aws.elb.backend_processing_time.sec"] == 0.001048
    assert (found["http.response.status_code"], found["aws.elb.backend.http.response.status_code"]) == (200, 201)
    assert (found["url.domain"], found["url.port"], found["url.query"]) == ("www.example.com", 80, "b=1")
    assert found["user_agent.original"] == "curl/7.38.0"
    legacy = parse("^%{ELB_ACCESS_LOG}$", ELB, "legacy")
    assert (legacy["clientip"], legacy["backend_processing_time"]) == ("192.168.131.39", 0.001048)


def test_elb_access_log_without_a_backend() -> None:
    line = '2015-05-13T23:39:43Z elb 192.0.2.1:1 - -1 -1 -1 504 0 0 0 "- - - " "-" - -'
    found = parse("^%{ELB_ACCESS_LOG}$", line)
    assert found["http.response.status_code"] == 504
    assert found.keys().isdisjoint({"aws.elb.backend.ip", "aws.elb.request_processing_time.sec", "url.original"})


@pytest.mark.parametrize(
    ("syntax", "line", "member", "value"),
    [
        (
            "HAPROXYHTTP",
            (
                "Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in "
                'static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1"'
            ),
            "haproxy.backend_name",
            "static",
        ),
        (
            "HAPROXYTCP",
            (
                "Feb  6 12:12:56 localhost haproxy[14387]: 10.0.1.2:33313 [06/Feb/2009:12:12:51.443] fnt "
                "bck/srv1 0/0/5007 212 -- 0/0/0/0/3 0/0"
            ),
            "source.bytes",
            212,
        ),
        ("NGINX_ERRORLOG", "2026/01/02 03:04:05 [error] 7#8: *9 open() failed", "nginx.error.connection_id", 9),
        ("CATALINALOG", "31-Jul-2020 16:40:38.578 INFO [main] org.a.B.run Done", "java.log.origin.thread.name", "main"),
        ("REDISMONLOG", '1470637867.953466 [0 192.0.2.1:6379] "get" "key"', "redis.command.name", "get"),
        ("POSTGRESQL", "31-01-14 03:04:05 UTC joe 52c4 123", "process.pid", 123),
        ("MONGO3_LOG", "2014-11-03T18:28:32.450-0500 I NETWORK [conn1] hello", "mongodb.component", "NETWORK"),
        ("RUBY_LOGGER", "I, [2026-01-02T03:04:05.000001 #7]  INFO -- main: hi", "process.pid", 7),
        ("MCOLLECTIVE", "I, [2010-12-29T11:15:32.321744 #11479]  INFO", "log.level", "INFO"),
        ("RCONTROLLER", "UsersController#index", "rails.controller.action", "index"),
        (
            "RAILS3",
            (
                'Started GET "/a" for 192.0.2.1 at 2026-01-02 03:04:05 +0000\nProcessing by A#b as HTML\n'
                "Completed 200 OK in 5ms (Views: 3.1ms | ActiveRecord: 1.0ms)"
            ),
            "rails.request.duration.view",
            3.1,
        ),
        (
            "SQUID3",
            "1525334330.556      3 192.0.2.1 TCP_TUNNEL/200 914 CONNECT example.com:443 - HIER_DIRECT/192.0.2.2 -",
            "http.response.bytes",
            914,
        ),
        ("EXIM_REMOTE_HOST", "H=mail.example.com (helo) [192.0.2.1]:25", "source.port", 25),
        (
            "CISCOFW302013_302014_302015_302016",
            (
                "Built inbound TCP connection 76118 for outside:192.0.2.1/51234 (192.0.2.1/51234) "
                "to inside:10.0.0.1/80 (198.51.100.1/80)"
            ),
            "destination.nat.ip",
            "198.51.100.1",
        ),
        (
            "CISCOFW106023",
            'Deny tcp src outside:192.0.2.1/5 dst inside:10.0.0.1/80 by access-group "rule" [0x0, 0x0]',
            "cisco.asa.rule_name",
            "rule",
        ),
        (
            "CISCOFW106015",
            "Deny TCP (no connection) from 192.0.2.1/5 to 10.0.0.1/80 flags FIN ACK on interface outside",
            "cisco.asa.tcp_flags",
            "FIN ACK",
        ),
        (
            "CISCOFW106100",
            "access-list acl permitted tcp out/192.0.2.1(5) -> in/10.0.0.1(80) hit-cnt 1 first hit [0x0, 0x0]",
            "destination.port",
            80,
        ),
        (
            "CISCOFW106014",
            "Deny inbound icmp src out:192.0.2.1 dst in:10.0.0.1 (type 8, code 0)",
            "cisco.asa.icmp_type",
            8,
        ),
        (
            "BIND9",
            "17-Feb-2018 23:06:56.326 queries: info: client 192.0.2.1#52215 (x.org): query: x.org IN A + (192.0.2.2)",
            "dns.question.type",
            "A",
        ),
        (
            "IPTABLES",
            (
                "IN=eth0 OUT= MAC=00:11:22:33:44:55:66:77:88:99:aa:bb:08:00 SRC=192.0.2.1 DST=10.0.0.1 LEN=60 TOS=0x00 "
                "PREC=0x00 TTL=49 ID=4977 DF PROTO=TCP SPT=53 DPT=443 WINDOW=5840 RES=0x00 SYN URGP=0"
            ),
            "destination.port",
            443,
        ),
    ],
)
def test_other_formats(syntax: str, line: str, member: str, value: object) -> None:
    assert parse(f"^%{{{syntax}}}", line)[member] == value
