"""CSV: any record that a CSV writer writes comes back field by field, and no field is lost."""

import csv
import io
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logflume.errors import ParseFailure
from logflume.parsing.csv_fields import Csv, build


def parse(text: str, header: list[str] | None = None, **options: Any) -> dict[str, Any]:
    return build(Csv(**options)).parse(text.encode(), json.dumps(header) if header else "")


ABC = ("a", "b", "c")


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("1,2,3", ["1", "2", "3"]),
        ('"1","2","3"', ["1", "2", "3"]),
        ('"a ""quoted"" b",2,3', ['a "quoted" b', "2", "3"]),
        ('"two\nlines",2,3', ["two\nlines", "2", "3"]),
        ('"two\r\nlines",2,3', ["two\r\nlines", "2", "3"]),
        ('"a,b",2,3', ["a,b", "2", "3"]),
        (" 1 ,2,3", [" 1 ", "2", "3"]),
        ("ä,ö,日本", ["ä", "ö", "日本"]),
        ("1\x00,2,3", ["1\x00", "2", "3"]),
    ],
)
def test_fields_by_rfc_4180(text: str, fields: list[str]) -> None:
    assert parse(text, columns=ABC) == dict(zip(ABC, fields, strict=True))


@pytest.mark.parametrize("delimiter", [",", "\t", " ", ";", "|"])
@given(fields=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), min_size=1, max_size=6))
def test_what_a_writer_wrote_is_read_again(delimiter: str, fields: list[str]) -> None:
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="").writerow(fields)
    columns = tuple(f"c{number}" for number in range(len(fields)))
    found = parse(written.getvalue(), columns=columns, delimiter=delimiter, null=())
    assert found == dict(zip(columns, fields, strict=True))


def test_the_header_names_the_fields_where_no_columns_are_given() -> None:
    assert parse("1,2", ["a", "b"]) == {"a": "1", "b": "2"}
    assert parse("1,2", ["a", "b"], columns=("x", "y")) == {"x": "1", "y": "2"}


@pytest.mark.parametrize("context", ["", "{}", "[1]", "nonsense"])
def test_without_columns_and_header_the_event_fails(context: str) -> None:
    with pytest.raises(ParseFailure) as failed:
        build(Csv()).parse(b"1,2", context)
    assert failed.value.reason == "no_header"


def test_names_of_a_header_are_made_fit() -> None:
    header = ["", " a ", "a", "x..y.", "\x1b[2J\x00", "é" * 200, "."]
    names = list(parse("1,2,3,4,5,6,7", header))
    assert names == ["column_1", "a", "a_3", "x.y", "[2J", "é" * 128, "_"]


def test_more_fields_than_columns_are_kept_and_fewer_are_absent() -> None:
    assert parse("1,2,3,4", columns=("a", "b")) == {"a": "1", "b": "2", "extra": ["3", "4"]}
    assert parse("1,2,3", columns=("a",), extra="csv.rest") == {"a": "1", "csv.rest": ["2", "3"]}
    assert parse("1", columns=ABC) == {"a": "1"}


def test_null_values_are_left_out() -> None:
    assert parse("-,,x", columns=ABC) == {"a": "-", "c": "x"}
    assert parse('-,"",x', columns=ABC, null=("-", "")) == {"c": "x"}
    assert parse("-,,x", columns=ABC, null=()) == {"a": "-", "b": "", "c": "x"}


def test_types_convert_and_what_cannot_be_converted_stays_text() -> None:
    types = {"a": "long", "b": "double", "c": "boolean"}
    assert parse("1,2.5,yes", columns=ABC, types=types) == {"a": 1, "b": 2.5, "c": True}
    assert parse("x,y,z", columns=ABC, types=types) == {"a": "x", "b": "y", "c": "z"}
    assert parse("1,2", ["a", "b"], types={"b": "long", "absent": "long"}) == {"a": "1", "b": 2}


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ('a [06/Feb/2019:00:00:38 +0000] "x [y z] w" b', ["a", "06/Feb/2019:00:00:38 +0000", "x [y z] w", "b"]),
        ('[a "b" c] [] x[1 2] [u', ['a "b" c', "", "x[1", "2]", "[u"]),
        ("[one]", ["one"]),
    ],
)
def test_brackets_hold_one_field(text: str, fields: list[str]) -> None:
    columns = tuple(f"c{number}" for number in range(len(fields)))
    found = parse(text, columns=columns, delimiter=" ", brackets=True, null=())
    assert list(found.values()) == fields


def test_an_escape_takes_the_meaning_from_a_quote() -> None:
    assert parse(r'"a \"b\" c",2', columns=ABC, escape="\\") == {"a": 'a "b" c', "b": "2"}
    found = parse(r'"a \" [b c]" [d e]', columns=ABC, escape="\\", brackets=True, delimiter=" ")
    assert found == {"a": 'a " [b c]', "b": "d e"}


@pytest.mark.parametrize("text", ['"a,b', '"a"b,c', "a\nb,c", 'x,"'])
def test_what_is_no_record_fails_whole_so_that_nothing_is_lost(text: str) -> None:
    with pytest.raises(ParseFailure) as failed:
        parse(text, columns=ABC)
    assert failed.value.reason == "no_record"


def test_a_field_as_long_as_an_event_may_be() -> None:
    assert parse('"' + "x" * 900_000 + '"', columns=ABC) == {"a": "x" * 900_000}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"delimiter": '"'}, "must be different characters"),
        ({"delimiter": "\n"}, "no line breaks"),
        ({"delimiter": "[", "brackets": True}, "must be different characters"),
        ({"types": {"a": "lng"}}, "did you mean 'long'?"),
        ({"types": {"stauts": "long"}, "columns": ("status",)}, "no column 'stauts' (did you mean 'status'?)"),
    ],
)
def test_configuration_errors_say_what_is_meant(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError) as refused:
        Csv(**options)
    assert reason in str(refused.value)


def test_unknown_options_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `separator`"):
        msgspec.json.decode(b'{"type": "csv", "separator": ","}', type=Csv)
    with pytest.raises(msgspec.ValidationError, match="length <= 1"):
        msgspec.json.decode(b'{"type": "csv", "delimiter": ",,"}', type=Csv)


def test_columns_get_other_names() -> None:
    names = {"c-ip": "source.ip", "sc-status": "http.response.status_code"}
    found = parse("192.0.2.1,200,x", ["c-ip", "sc-status", "other"], names=names, types={"sc-status": "long"})
    assert found == {"source.ip": "192.0.2.1", "http.response.status_code": 200, "other": "x"}
    assert parse("1", columns=("a",), names={"a": "b"}) == {"b": "1"}


@pytest.mark.parametrize("delimiter", ["\t", ",", "|", "-"])
def test_without_a_quote_character_quotes_are_text(delimiter: str) -> None:
    text = delimiter.join(['"a', 'b"', "c"])
    assert parse(text, columns=ABC, delimiter=delimiter, quote="") == {"a": '"a', "b": 'b"', "c": "c"}
    with pytest.raises(ParseFailure, match="no_record"):
        parse(f"{text}\nd", columns=ABC, delimiter=delimiter, quote="")
    with pytest.raises(ValueError, match="brackets need a quote"):
        Csv(quote="", brackets=True)


def test_columns_get_other_names_from_the_header_or_the_source() -> None:
    options: dict[str, Any] = {
        "names": {"cs(Host)": "url.domain", "c-port": "source.port"},
        "types": {"c-port": "long"},
    }
    expected = {"url.domain": "example.com", "source.port": 443, "x": "y"}
    columns = ("cs(Host)", "c-port", "x")
    assert parse("example.com,443,y", columns=columns, **options) == expected
    assert parse("example.com,443,y", list(columns), **options) == expected
    assert parse("1,2", columns=("a", "b"), names={"a": "b"}) == {"b": "1", "b_2": "2"}


def test_brackets_need_a_quote_character() -> None:
    assert parse('"a,b",c', columns=ABC, quote="") == {"a": '"a', "b": 'b"', "c": "c"}
    with pytest.raises(ValueError, match="brackets need a quote character"):
        Csv(columns=ABC, quote="", brackets=True)
