"""Delimited: where records end and which header holds, against a reader that goes byte by byte."""

import json
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logflume.framing.delimited import Delimited, DelimitedOptions

type Event = tuple[int, bytes, str]


def read(options: DelimitedOptions, stream: bytes, step: int = 1 << 20, max_bytes: int = 10_000) -> list[Event]:
    framing = Delimited(options, max_bytes=max_bytes)
    found: list[Event] = []
    for pieces in [*(framing.push(stream[i : i + step]) for i in range(0, len(stream), step)), framing.finish()]:
        for piece in pieces:
            found += [(at, event, framing.context) for at, event in zip(piece.offsets, piece.events, strict=True)]
    return found


def record_end(stream: bytes, start: int, delimiter: bytes, max_lines: int) -> int:
    """The offset behind a record, quotes heeded; that of its first line where its quote does not end in time."""
    quoted, field_begins, lines, i = False, True, 1, start
    while i < len(stream):
        byte = stream[i : i + 1]
        if quoted:
            if byte == b'"' and stream[i + 1 : i + 2] == b'"':
                i += 1
            elif byte == b'"':
                quoted = False
            elif byte == b"\n":
                lines += 1
        elif byte == b"\n":
            break
        elif byte == b'"' and field_begins:
            quoted = True
        field_begins = not quoted and byte == delimiter
        i += 1
    if quoted or lines > max_lines:
        i = stream.find(b"\n", start)
    return len(stream) if i < 0 else min(i + 1, len(stream))


def expected(options: DelimitedOptions, stream: bytes) -> list[Event]:
    found: list[Event] = []
    context = json.dumps(list(options.columns), separators=(",", ":")) if options.columns else ""
    at = 0
    while at < len(stream):
        comment = options.header == "fields" and stream.startswith(b"#", at)
        if options.quote and not comment:
            end = record_end(stream, at, options.delimiter.encode(), options.max_lines)
        else:
            end = stream.find(b"\n", at) + 1 or len(stream)
        record = stream[at:end].removesuffix(b"\n").removesuffix(b"\r")
        if comment:
            if record.startswith(b"#Fields:"):
                context = json.dumps(record[8:].decode().split(), separators=(",", ":"))
        elif record:
            found.append((at, record, context))
        at = end
    return found


streams = st.lists(
    st.sampled_from(
        [b"a", b",", b'"', b'""', b'"b\nc"', b',"', b'",', b"\n", b"\r\n", b"\n\n", b"#", b"#Fields: a b\n"]
    ),
    max_size=40,
).map(b"".join)
options = st.builds(
    DelimitedOptions,
    delimiter=st.sampled_from([",", "\t"]),
    quote=st.sampled_from(['"', ""]),
    header=st.just("fields"),
    max_lines=st.sampled_from([1, 2, 1000]),
) | st.builds(DelimitedOptions, header=st.just("none"), columns=st.just(("a",)), max_lines=st.sampled_from([2, 1000]))


@given(options, streams, st.integers(1, 60))
def test_records_are_as_defined(options: DelimitedOptions, stream: bytes, step: int) -> None:
    assert read(options, stream, step) == expected(options, stream)


def test_the_header_line_is_the_context_and_no_event() -> None:
    stream = b'\r\nid,"the, ""name""\n", last \r\n1,"x\r\ny",z\r\n2,b,c'
    context = '["id","the, \\"name\\"","last"]'
    assert read(DelimitedOptions(), stream, 3) == [(30, b'1,"x\r\ny",z', context), (42, b"2,b,c", context)]


def test_the_header_is_there_after_resuming() -> None:
    framing = Delimited(DelimitedOptions(delimiter=" "))
    pieces = list(framing.push(b"version account\n2 123\n2 45"))
    assert [piece.events for piece in pieces] == [[b"2 123"]]
    again = Delimited(DelimitedOptions(delimiter=" "), framing.boundary, framing.state)
    assert [piece.events for piece in [*again.push(b"2 456\n"), *again.finish()]] == [[b"2 456"]]
    assert again.context == '["version","account"]'


def test_a_new_fields_line_begins_a_new_slice() -> None:
    framing = Delimited(DelimitedOptions(delimiter="\t", header="fields"))
    seen = [
        (piece.events, framing.context, framing.boundary)
        for piece in framing.push(b"#Version: 1.0\n#Fields: a b\n1\t2\n#Fields: a b\n3\t4\n#Fields: b\n5\n")
    ]
    assert seen == [([b"1\t2", b"3\t4"], '["a","b"]', 48), ([b"5"], '["b"]', 61)]


@pytest.mark.parametrize("header", [b"x" * 40_000, b",".join([b"name"] * 10_000), b'"' + b"x" * 200_000 + b'"'])
def test_a_header_that_is_none_is_an_event(header: bytes) -> None:
    framing = Delimited(DelimitedOptions())
    pieces = [*framing.push(header + b"\nnext\n"), *framing.finish()]
    assert [piece.events for piece in pieces] == [[header, b"next"]]
    assert framing.context == framing.state == "[]"


def test_an_unbalanced_quote_costs_its_own_line_only() -> None:
    options = DelimitedOptions(header="none", columns=("a", "b"))
    lines = [b'1,"open'] + [b"%d,x" % i for i in range(3000)]
    assert [event for _, event, _ in read(options, b"\n".join(lines))] == lines


def test_a_quoted_field_over_the_limit_is_read_line_by_line() -> None:
    options = DelimitedOptions(header="none", columns=("a",))
    stream = b'"' + b"x" * 60 + b"\n" + b"y" * 60 + b'"\nnext\n'
    assert [event for _, event, _ in read(options, stream, max_bytes=100)] == [
        b'"' + b"x" * 60,
        b"y" * 60 + b'"',
        b"next",
    ]


def test_a_record_of_one_endless_line_is_cut() -> None:
    framing = Delimited(DelimitedOptions(header="none", columns=("a",)), max_bytes=10)
    for _ in range(100):
        assert list(framing.push(b'"x,' * 1000)) == []
        assert sum(map(len, framing._source._carry)) <= 11
    (piece,) = framing.push(b"\nnext\n")
    assert (piece.offsets, piece.events, piece.cut) == ([0, 300_001], [b'"x,"x,"x,"', b"next"], {0: 300_000})


@pytest.mark.parametrize("line", [b'a",""" \n', b'"\n', b'"""\n', b'x,"\n', b'"a"b"c,"d\n', b'","\n'])
def test_hostile_quotes_take_linear_time(line: bytes) -> None:
    options = DelimitedOptions(header="none", columns=("a",))

    def cpu(count: int) -> float:
        framing, started = Delimited(options), time.process_time()
        stream = line * count
        total = sum(
            len(piece.events)
            for i in range(0, len(stream), 1 << 16)
            for piece in framing.push(stream[i : i + (1 << 16)])
        )
        total += sum(len(piece.events) for piece in framing.finish())
        assert total >= count // 1000
        return time.process_time() - started

    cpu(1000)
    # Four times the input: about four times the work, and not sixteen.
    assert cpu(40_000) < 10 * cpu(10_000) + 0.2


@pytest.mark.parametrize(
    "wrong", [{"delimiter": "::"}, {"quote": "'"}, {"header": "none"}, {"columns": ["a"]}, {"nonsense": 1}]
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"type": "delimited", **wrong}, DelimitedOptions)
