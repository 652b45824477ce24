"""Grok: the syntax, what it refuses, what fails an event, and what `logflume check` would warn of."""

import signal
import threading
from typing import Any

import msgspec
import pytest

from logflume.errors import ParseFailure
from logflume.parsing.grok import Grok, build, warnings
from logflume.parsing.interruption import guarded, limited


def parse(pattern: str, text: str, **options: Any) -> dict[str, Any]:
    return build(Grok(patterns=(pattern,), **options)).parse(text.encode(), "")


def refusal(*patterns: str, **options: Any) -> str:
    with pytest.raises(ValueError) as refused:
        Grok(patterns=patterns, **options)
    return str(refused.value)


def test_a_reference_with_a_name_becomes_a_member() -> None:
    found = parse("^%{IP:client} %{WORD:method} %{URIPATHPARAM:request} %{NUMBER:took}", "55.3.244.1 GET /a?b=1 0.043")
    assert found == {"client": "55.3.244.1", "method": "GET", "request": "/a?b=1", "took": "0.043"}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "42", 42),
        ("long", "-7", -7),
        ("int", "4.9", 4),
        ("float", "0.25", 0.25),
        ("double", "3", 3.0),
        ("bool", "true", True),
        ("boolean", "False", False),
        ("string", "42", "42"),
        ("int", "many", "many"),
        ("int", "9223372036854775807", 9223372036854775807),
        ("int", "9223372036854775808", "9223372036854775808"),
        ("int", "1_000", "1_000"),
        ("float", "nan", "nan"),
        ("float", "1e999", "1e999"),
        ("boolean", "perhaps", "perhaps"),
    ],
)
def test_types_convert_and_what_cannot_be_converted_stays_text(kind: str, text: str, value: object) -> None:
    found = parse(f"%{{NOTSPACE:x:{kind}}}", text)["x"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("a.b", "a.b"),
        ("[source][ip]", "source.ip"),
        ("[message]", "message"),
        ("@timestamp", "@timestamp"),
        ("user-name", "user-name"),
    ],
)
def test_brackets_and_dots_name_the_same_member(name: str, member: str) -> None:
    assert parse(f"%{{WORD:{name}}}", "x") == {member: "x"}
    assert parse(f"(?<{name}>.)", "x") == {member: "x"}


def test_several_patterns_are_tried_in_order() -> None:
    parser = build(Grok(patterns=("^%{INT:number:int}$", "^%{WORD:word}$", "^(?<rest>.+)$")))
    assert parser.parse(b"12", "") == {"number": 12}
    assert parser.parse(b"ab", "") == {"word": "ab"}
    assert parser.parse(b"ab cd", "") == {"rest": "ab cd"}


def test_fields_that_say_null_are_left_out() -> None:
    pattern = "%{NOTSPACE:a} %{NOTSPACE:n:long} %{NOTSPACE:b}"
    assert parse(pattern, "- - x", null=("-",)) == {"b": "x"}
    assert parse(pattern, "- 1 -a", null=("x",)) == {"a": "-", "n": 1, "b": "-a"}
    assert parse("%{NOTSPACE:a} %{NOTSPACE:a}", "- 2", null=("-",)) == {"a": "2"}


def test_it_searches_anywhere_unless_anchored() -> None:
    assert parse("%{IP:ip}", "from 192.0.2.1 port 22") == {"ip": "192.0.2.1"}
    with pytest.raises(ParseFailure, match="no_match"):
        parse("%{IP:ip}", "from 192.0.2.1 port 22", anchored=True)
    assert parse("%{IP:ip}", "192.0.2.1", anchored=True) == {"ip": "192.0.2.1"}


def test_own_definitions_may_refer_to_others_and_replace_standard_ones() -> None:
    definitions = {"QUEUE": "[0-9A-F]{10,11}", "POSTFIX": "%{QUEUE:queue}: <%{USER:to}>", "USER": "[a-z]+"}
    assert parse("%{POSTFIX}", "BEF25A72965: <joe>", definitions=definitions) == {"queue": "BEF25A72965", "to": "joe"}


def test_of_groups_with_one_name_the_first_that_holds_something_wins() -> None:
    pattern = "^(?:a=%{INT:n:int}|b=%{INT:n:int})(?: %{INT:n:int})?$"
    assert parse(pattern, "a=1 3") == {"n": 1}
    assert parse(pattern, "b=2 3") == {"n": 2}


def test_groups_that_took_no_part_or_nothing_are_absent() -> None:
    assert parse("^%{WORD:a}(?: %{WORD:b})?%{SPACE:c}$", "x") == {"a": "x"}


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"(?<n>\h+)", "xyz12AF", "12AF"),
        (r"(?<n>[[:alpha:]]+)", "12Größe3", "Größe"),
        (r"(?<n>[^[:space:]]+)", "a b", "a"),
        (r"(?<n>[a-c[x-z]]+)", "mmaxbz", "axbz"),
        (r"(?<n>[]x]+)", "a]x]", "]x]"),
        (r"(?<n>\p{Digit}+)", "ab12", "12"),
        (r"(?<n>\p{^Digit}+)", "ab12", "ab"),
        (r"(?<n>a++)b", "aab", "aa"),
        (r"(?<n>(?>a+))b", "aab", "aa"),
        (r"(?<n>(?:ab){2}+)", "abababab", "abababab"),
        (r"(?<n>a{2}{2})", "aaaaa", "aaaa"),
        (r"(?<n>a+?)", "aaa", "a"),
        (r"x(?i)(?<n>AB)", "xab", "ab"),
        (r"(?i:x)(?<n>B)", "XB", "B"),
        (r"(?m)(?<n>a.b)", "a\nb", "a\nb"),
        (r"\A(?<n>a)\z", "a", "a"),
        (r"(?<n>a)\Z", "a\n", "a"),
        (r"^(?<n>b)$", "a\nb\nc", "b"),
        (r"(?<n>.)\k<n>", "abccd", "c"),
        (r"(?<n>(b)(c))", "abcd", "bc"),
        (r"(?<n>\{a\})", "{a}", "{a}"),
        (r"{(?<n>\w)}", "{a}", "a"),
        (r"(?<n>é+)", "créée", "éé"),
        (r"(?<n>[à-ü]+)", "créée", "éé"),
        (r"(?<n>.{3})", "äöüx", "äöü"),
        (r"(?#a comment)(?<n>\x41\u0042)", "AB", "AB"),
        (r"(?<n>[&&a]?x)", "x", None),
        (r"(?<!a)(?<n>b)", "ab b", "b"),
        (r"(?<n>[a||~~&\[]+)", "|~a[&", "|~a[&"),
        (r"(?:x(?i)b)(?<n>C)", "xBc XBC xBC", "C"),
        (r"(?:x(?i)b)(?<n>c)", "XBc xBc", "c"),
    ],
)
def test_ruby_syntax_means_what_it_means_in_logstash(pattern: str, text: str, found: str | None) -> None:
    if found is None:
        assert "not supported" in refusal(pattern)
    else:
        assert parse(pattern, text) == {"n": found}


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("%{IPP:x}", "there is no pattern 'IPP' (did you mean 'IP'?)"),
        ("%{word:x}", "did you mean 'WORD'?"),
        ("%{INT:x:integer}", "there is no type 'integer'"),
        ("%{INT:x:flot}", "did you mean 'float'?"),
        ("%{INT:x:int:more}", "neither %{SYNTAX}"),
        ("%{}", "neither %{SYNTAX}"),
        ("%{INT}", "names no field"),
        ("(?<n>a", "a group is not closed"),
        ("(?<n>a))", "a ) without its ("),
        ("(?<n>[a)", "a class is not closed"),
        ("(?<n>*a)", "nothing for * to repeat"),
        (r"(?<n>a)\g<n>", "calling a group is not supported"),
        (r"(?<n>a)\1", "a numbered back-reference is not supported"),
        (r"\k<m>(?<n>a)", "no such group before it"),
        (r"(?<n>\p{Klingon})", "there is no class 'Klingon'"),
        ("(?x)(?<n>a)", "(?x) is not supported"),
        ("(?<n>[^[:^alpha:]])", "not supported"),
        ("(?~a)(?<n>b)", "not supported"),
        ("(?<n>(?<=a|bc)d)", "look-behind requires fixed-width"),
    ],
)
def test_what_cannot_be_compiled_is_refused_with_its_reason(pattern: str, reason: str) -> None:
    assert reason in refusal(pattern)


def test_a_pattern_that_refers_to_itself_is_refused_with_the_way_there() -> None:
    reason = refusal("%{A:x}", definitions={"A": "a%{B}", "B": "b%{A}"})
    assert "in A → B" in reason
    assert "pattern 'A' refers to itself" in reason


def test_configuration_is_strict() -> None:
    given = b'{"type": "grok", "patterns": ["%{WORD:x}"], "definitions": {"MY-NAME": "x"}}'
    with pytest.raises(msgspec.ValidationError, match="'MY-NAME' is no pattern name"):
        msgspec.json.decode(given, type=Grok)
    with pytest.raises(msgspec.ValidationError, match="unknown field `pattern`"):
        msgspec.json.decode(b'{"type": "grok", "pattern": "x"}', type=Grok)
    with pytest.raises(msgspec.ValidationError, match="length >= 1"):
        msgspec.json.decode(b'{"type": "grok", "patterns": []}', type=Grok)


def test_an_event_over_the_limit_fails() -> None:
    assert parse("(?<a>a+)", "a" * 10, max_bytes=10) == {"a": "a" * 10}
    with pytest.raises(ParseFailure) as failed:
        parse("(?<a>a+)", "a" * 11, max_bytes=10)
    assert failed.value.reason == "too_long"


def test_a_match_of_nothing_is_a_failure_so_that_the_event_is_not_lost() -> None:
    with pytest.raises(ParseFailure) as failed:
        parse("x%{SPACE:blank}", "xy")
    assert failed.value.reason == "empty"


RUNAWAY = Grok(patterns=(r"^(?<words>(\w+\s?)+)$",), match_timeout_ms=100)


def test_only_the_event_that_runs_too_long_fails() -> None:
    parser = build(RUNAWAY)
    with limited():
        assert parser.parse(b"two words", "") == {"words": "two words"}
        with pytest.raises(ParseFailure) as failed:
            parser.parse(b"a" * 60 + b"!", "")
        assert parser.parse(b"two more", "") == {"words": "two more"}
    assert failed.value.reason == "timeout"


def test_the_timer_is_gone_and_the_former_handler_back_afterwards() -> None:
    before = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    try:
        with pytest.raises(KeyError), limited():
            assert signal.getitimer(signal.ITIMER_REAL)[1] > 0
            raise KeyError
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        assert signal.getsignal(signal.SIGALRM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGALRM, before)


def test_many_short_pieces_of_work_may_take_longer_than_the_limit_of_one() -> None:
    with limited():
        for _ in range(20):
            guarded(signal.raise_signal, signal.SIGALRM, 3)


def test_limits_nest_and_do_nothing_on_other_threads() -> None:
    parser = build(RUNAWAY)
    found: list[dict[str, Any]] = []

    def elsewhere() -> None:
        with limited():
            found.append(parser.parse(b"a thread", ""))

    with limited():
        with limited():
            pass
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        with pytest.raises(ParseFailure, match="timeout"):
            parser.parse(b"a" * 60 + b"!", "")
    assert found == [{"words": "a thread"}]


def test_what_another_thread_does_interrupts_nobody() -> None:
    begun, released = threading.Event(), threading.Event()

    def work(_argument: None) -> None:
        begun.set()
        assert released.wait(10)

    with limited():
        thread = threading.Thread(target=guarded, args=(work, None, 1))
        thread.start()
        assert begun.wait(10)
        for _ in range(5):
            signal.raise_signal(signal.SIGALRM)
        released.set()
        thread.join()


@pytest.mark.parametrize(
    ("pattern", "risk"),
    [
        (r"^(?<w>(\w+\s?)+)$", "nested quantifiers share"),
        (r"^(?<w>([a-z]+)*)x", "nested quantifiers share"),
        (r"^(?<w>(/([\w.]+|\\.)*)+)x", "nested quantifiers share"),
        (r"^%{GREEDYDATA:a}-%{GREEDYDATA:b}-%{GREEDYDATA:c}-%{DATA:d}x", "4 wildcards"),
        (r"%{GREEDYDATA:a} end", "begins with a wildcard"),
        (r"%{WORD:a}", "searched for anywhere"),
        (r"(?:^a|b)(?<x>x)", "searched for anywhere"),
    ],
)
def test_risky_patterns_are_warned_of(pattern: str, risk: str) -> None:
    assert any(risk in warning for warning in warnings(Grok(patterns=(pattern,))))


@pytest.mark.parametrize(
    "pattern",
    [
        r"^%{COMBINEDAPACHELOG}",
        r"\A%{TIMESTAMP_ISO8601:t} %{LOGLEVEL:l} %{GREEDYDATA:message}",
        r"^(?<w>(?>\w+\s?)++)$",
        r"^(?<p>(?:/[^/]*)+)",
        r"(?:^a|^b)(?<x>x)",
        r"^%{JAVASTACKTRACEPART}",
    ],
)
def test_sound_patterns_are_not(pattern: str) -> None:
    assert warnings(Grok(patterns=(pattern,))) == []


def test_anchored_patterns_need_no_circumflex() -> None:
    assert warnings(Grok(patterns=("%{WORD:a}",), anchored=True)) == []
