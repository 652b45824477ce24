"""Syslog: the RFCs' own examples, what rsyslog and routers really write, and structured data of any content."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logflume.errors import ParseFailure
from logflume.parsing.syslog import Syslog, build


def parse(text: str, **options: Any) -> dict[str, Any]:
    return build(Syslog(**options)).parse(text.encode(), "")


AUTH_CRITICAL = {
    "log.syslog.priority": 34,
    "log.syslog.facility.code": 4,
    "log.syslog.facility.name": "auth",
    "log.syslog.severity.code": 2,
    "log.syslog.severity.name": "critical",
}


def test_rfc_3164_section_5_4_example_1() -> None:
    assert parse("<34>Oct 11 22:14:15 mymachine su: 'su root' failed for lonvick on /dev/pts/8") == AUTH_CRITICAL | {
        "timestamp": "Oct 11 22:14:15",
        "host.hostname": "mymachine",
        "process.name": "su",
        "message": "'su root' failed for lonvick on /dev/pts/8",
    }


def test_rfc_3164_section_5_4_example_2_has_only_a_priority_and_a_message() -> None:
    found = parse("<13>Use the BFG!")
    assert (found["log.syslog.facility.name"], found["log.syslog.severity.name"]) == ("user", "notice")
    assert found["message"] == "Use the BFG!"
    assert "host.hostname" not in found


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("Oct  1 02:03:04 h app[7]: hi", ("Oct  1 02:03:04", "h", "app", 7, "hi")),
        ("Oct  1 2026 02:03:04.123 h app: hi", ("Oct  1 2026 02:03:04.123", "h", "app", None, "hi")),
        ("2026-10-01T02:03:04.000001+02:00 h app[7]: hi", ("2026-10-01T02:03:04.000001+02:00", "h", "app", 7, "hi")),
        ("2026-10-01T02:03:04Z h postfix/smtpd[7]: hi", ("2026-10-01T02:03:04Z", "h", "postfix/smtpd", 7, "hi")),
        ("Oct  1 02:03:04 2001:db8::1 app: hi", ("Oct  1 02:03:04", "2001:db8::1", "app", None, "hi")),
        (
            "Oct  1 02:03:04 192.0.2.1 %ASA-6-302013: Built",
            ("Oct  1 02:03:04", "192.0.2.1", "%ASA-6-302013", None, "Built"),
        ),
        ("Oct  1 02:03:04 h kernel: [12.34] a: b", ("Oct  1 02:03:04", "h", "kernel", None, "[12.34] a: b")),
        (
            "Oct  1 02:03:04 h last message repeated 2 times",
            ("Oct  1 02:03:04", "h", None, None, "last message repeated 2 times"),
        ),
        ("Oct  1 02:03:04 su: no host", ("Oct  1 02:03:04", None, "su", None, "no host")),
        ("Oct  1 02:03:04 dead: no host", ("Oct  1 02:03:04", None, "dead", None, "no host")),
        ("Oct  1 02:03:04 h app[7]:", ("Oct  1 02:03:04", "h", "app", 7, None)),
        ("Oct  1 02:03:04 h see http://x/y", ("Oct  1 02:03:04", "h", None, None, "see http://x/y")),
        ("Oct  1 02:03:04 h app: two\nlines", ("Oct  1 02:03:04", "h", "app", None, "two\nlines")),
    ],
)
def test_what_files_hold(text: str, members: tuple[Any, ...]) -> None:
    found = parse(text)
    names = ("timestamp", "host.hostname", "process.name", "process.pid", "message")
    assert tuple(map(found.get, names)) == members
    assert found.keys() <= {*names}


def test_a_process_id_that_is_no_number_is_kept_as_text() -> None:
    found = parse("Oct  1 02:03:04 h app[a-1]: hi")
    assert found["log.syslog.procid"] == "a-1"
    assert "process.pid" not in found


def test_rfc_5424_section_6_5_example_1() -> None:
    text = "<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \ufeff'su root' failed for lonvick"
    assert parse(text) == AUTH_CRITICAL | {
        "log.syslog.version": "1",
        "timestamp": "2003-10-11T22:14:15.003Z",
        "host.hostname": "mymachine.example.com",
        "process.name": "su",
        "log.syslog.msgid": "ID47",
        "message": "'su root' failed for lonvick",
    }


def test_rfc_5424_section_6_5_examples_3_and_4() -> None:
    data = '[exampleSDID@32473 iut="3" eventSource="Application" eventID="1011"][examplePriority@32473 class="high"]'
    header = "<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog - ID47 "
    found = parse(f"{header}{data} An application event log entry...")
    assert found["message"] == "An application event log entry..."
    assert found["log.syslog.structured_data"] == {
        "exampleSDID@32473": {"iut": "3", "eventSource": "Application", "eventID": "1011"},
        "examplePriority@32473": {"class": "high"},
    }
    assert "message" not in parse(header + data)


def test_rfc_5424_where_nothing_is_known() -> None:
    found = parse("<0>1 - - - - - -")
    assert found == {
        "log.syslog.priority": 0,
        "log.syslog.facility.code": 0,
        "log.syslog.facility.name": "kern",
        "log.syslog.severity.code": 0,
        "log.syslog.severity.name": "emergency",
        "log.syslog.version": "1",
    }


VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
SD_NAMES = st.text("abcXYZ09@._-", min_size=1, max_size=8)


@given(st.dictionaries(SD_NAMES, st.dictionaries(SD_NAMES, VALUES, max_size=3), min_size=1, max_size=3), VALUES)
def test_structured_data_of_any_content_comes_back(data: dict[str, dict[str, str]], message: str) -> None:
    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("]", "\\]")

    text = "".join(
        f"[{name}{''.join(f' {key}="{escaped(value)}"' for key, value in one.items())}]" for name, one in data.items()
    )
    found = parse(f"<1>1 - h a 1 - {text} x{message}")
    assert found["log.syslog.structured_data"] == data
    assert found["message"] == f"x{message}"


def test_a_backslash_before_other_characters_stands_for_itself_and_repeated_names_hold_a_list() -> None:
    found = parse(r'<1>1 - h a 1 - [x a="C:\dir" a="2" a="\]"] hi')
    assert found["log.syslog.structured_data"] == {"x": {"a": [r"C:\dir", "2", "]"]}}


def test_broken_structured_data_is_kept_in_the_message() -> None:
    found = parse('<1>1 - h a 1 - [x a="open] hi')
    assert found["message"] == '1 - h a 1 - [x a="open] hi'
    with pytest.raises(ParseFailure, match="no_syslog"):
        parse('<1>1 - h a 1 - [x a="open] hi', format="rfc5424")


def test_a_fixed_format_takes_nothing_else() -> None:
    with pytest.raises(ParseFailure, match="no_syslog"):
        parse("Oct 11 22:14:15 h su: hi", format="rfc5424")
    assert parse("<34>1 - h a 1 - - hi", format="rfc3164")["message"] == "1 - h a 1 - - hi"


@pytest.mark.parametrize("text", ["", "hello world", "app: hi", "<>x", "<9999>x", "13/Oct/2000 h a: b"])
def test_what_is_no_syslog_fails(text: str) -> None:
    with pytest.raises(ParseFailure) as failed:
        parse(text)
    assert failed.value.reason == "no_syslog"


def test_a_priority_over_191_fails() -> None:
    assert parse("<191>x")["log.syslog.facility.name"] == "local7"
    with pytest.raises(ParseFailure) as failed:
        parse("<192>x")
    assert failed.value.reason == "bad_priority"
