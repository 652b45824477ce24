"""JSON records: each record once, byte for byte, however the documents are written and whatever they hold."""

import json
import time
from collections.abc import Callable, Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logflume.batch import Slice
from logflume.errors import ObjectDamaged
from logflume.framing.carried import CARRIED_MAX_BYTES
from logflume.framing.json_records import JsonOptions, JsonRecords

STEP = 1 << 20

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab"\\{}[],:é', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('ab]"', max_size=2), inner, max_size=3),
    max_leaves=8,
)
records = st.lists(values | st.fixed_dictionaries({"id": st.integers(0, 9), "in": values}), max_size=12)
styles: list[Callable[[object], str]] = [
    json.dumps,
    lambda value: json.dumps(value, indent=2),
    lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False),
]


def read(
    path: str, steps: Iterable[bytes], *, carry: tuple[str, ...] = (), **limits: int
) -> tuple[list[tuple[int, bytes, int]], ObjectDamaged | None]:
    framing = JsonRecords(JsonOptions(records=path, carry=carry), **limits)
    found: list[tuple[int, bytes, int]] = []

    def take(pieces: Iterable[Slice]) -> None:
        for piece in pieces:
            for i, (at, event) in enumerate(zip(piece.offsets, piece.events, strict=True)):
                found.append((at, event, piece.cut.get(i, len(event))))

    try:
        for step in steps:
            take(framing.push(step))
        take(framing.finish())
    except ObjectDamaged as damage:
        return found, damage
    return found, None


def stepped(stream: bytes, step: int) -> list[bytes]:
    return [stream[i : i + step] for i in range(0, len(stream), step)]


@given(
    documents=st.lists(st.tuples(values, records, st.sampled_from(styles)), max_size=4),
    between=st.sampled_from(["", "\n", " , "]),
    path=st.sampled_from(["Records", "detail.items"]),
    step=st.integers(1, 200),
)
def test_every_record_under_the_path_and_nothing_else(
    documents: list[tuple[object, list[object], Callable[[object], str]]], between: str, path: str, step: int
) -> None:
    written, expected = [], []
    for other, records, style in documents:
        *outer, last = path.split(".")
        document: object = {"before": other, "RecordsToo": [other], last: records, "after": other}
        for name in outer:
            document = {last: [1], name: document, "x": {name: {last: [2]}}}
        written.append(style(document))
        expected += records
    stream = between.join(written).encode()
    found, damage = read(path, stepped(stream, step))
    assert damage is None
    assert [json.loads(event) for _, event, _ in found] == expected
    assert all(stream[at : at + length] == event for at, event, length in found)


@given(
    documents=st.lists(st.tuples(st.dictionaries(st.just("a"), values), records, st.sampled_from(styles)), max_size=4),
    step=st.integers(1, 200),
)
def test_values_and_the_elements_of_arrays(
    documents: list[tuple[object, list[object], Callable[[object], str]]], step: int
) -> None:
    stream = "".join(style(value) + style(elements) for value, elements, style in documents).encode()
    expected = [each for value, elements, _ in documents for each in (value, *elements)]
    found, damage = read("", stepped(stream, step))
    assert damage is None
    assert [json.loads(event) for _, event, _ in found] == expected


@pytest.mark.parametrize("style", styles)
def test_many_records_at_once_are_as_exact_as_one_at_a_time(style: Callable[[object], str]) -> None:
    # First members that also stand inside of records, and one record in a hundred that begins otherwise.
    records = [
        {"id": i, "in": [{"id": 1}, {"id": "},{"}], "t": "x" * (i % 90)} if i % 100 else {"other": i, "": "]}"}
        for i in range(5000)
    ]
    stream = (style({"Records": records}) + style({"Records": records[:7]})).encode()
    fast, damage = read("Records", [stream])
    assert damage is None
    assert fast == read("Records", stepped(stream, 100))[0]
    assert [json.loads(event) for _, event, _ in fast] == records + records[:7]


@pytest.mark.parametrize(
    ("path", "stream", "events"),
    [
        ("", b"", []),
        ("", b" \n", []),
        ("", b"[]", []),
        ("", b"[1, 2]", [b"1", b"2"]),
        ("", b"12 true", [b"12", b"true"]),
        ("", b'"a" "b\\""', [b'"a"', b'"b\\""']),
        ("", b'[[1],{"a":[2]}]', [b"[1]", b'{"a":[2]}']),
        ("Records", b'{"Records":[]}', []),
        ("Records", b'{"Records":[1,"]",null]}', [b"1", b'"]"', b"null"]),
        ("Records", b'{"Rec\\u006frds" : [1]}', [b"1"]),
        ("Records", b'{"a":1,"Records":[1],"Records":[2]}', [b"1", b"2"]),
        # Without the array the whole document is an event, so that nothing is lost.
        ("Records", b'{"Records":null}{"a":{"Records":[1]}}', [b'{"Records":null}', b'{"a":{"Records":[1]}}']),
        ("Records", b'[{"Records":[1]}] 5', [b'[{"Records":[1]}]', b"5"]),
        ("a.b", b'{"a":[{"b":[1]}]}{"a":{"b":[2]}}', [b'{"a":[{"b":[1]}]}', b"2"]),
    ],
)
def test_which_values_are_events(path: str, stream: bytes, events: list[bytes]) -> None:
    for step in (1, 2, STEP):
        found, damage = read(path, stepped(stream, step))
        assert [event for _, event, _ in found] == events
        assert damage is None


@pytest.mark.parametrize(
    ("path", "stream", "events", "reason", "offset"),
    [
        ("", b'{"a":1} x {"b":2}', 1, "bad_json", 8),
        ("", b"1 2 }", 2, "bad_json", 4),
        ("", b"[1}", 1, "bad_json", 2),
        ("", b"[1:2]", 1, "bad_json", 2),
        ("", b"GET / HTTP", 0, "bad_json", 0),
        ("Records", b'{"Records":[{"a":1},nonsense,{"b":2}]}', 1, "bad_json", 20),
        ("Records", b'{"Records":[1], 5}', 1, "bad_json", 16),
        ("Records", b'{"Records":[{"a":1},{"a":2},{"a"', 2, "truncated", 32),
        ("Records", b'{"Records":[{"a":1}', 1, "truncated", 19),
        ("Records", b'{"Records":[{"a":1}]', 1, "truncated", 20),
        ("Records", b'{"Recor', 0, "truncated", 7),
        ("", b'"never ends', 0, "truncated", 11),
    ],
)
def test_damage_is_told_with_its_offset_behind_the_whole_records(
    path: str, stream: bytes, events: int, reason: str, offset: int
) -> None:
    for step in (1, 3, STEP):
        found, damage = read(path, stepped(stream, step))
        assert damage is not None
        assert (len(found), damage.reason, damage.raw_offset) == (events, reason, offset)
        assert str(damage).endswith(f"(byte {offset} decompressed)")


def test_a_document_cut_at_every_byte_gives_the_records_before_the_cut() -> None:
    stream = b'{"x": {"Records": [0]}, "Records": [{"a": "\\"]"}, {"a": [1, {}]}, {"a": 3}], "y": 1}'
    whole, _ = read("Records", [stream])
    for end in range(1, len(stream)):
        found, damage = read("Records", [stream[:end]])
        assert found == [event for event in whole if event[0] + event[2] <= end]
        assert damage is not None
        assert (damage.reason, damage.raw_offset) == ("truncated", end)


@pytest.mark.parametrize("step", [7, 1000, STEP])
def test_a_record_over_the_limit_is_cut(step: int) -> None:
    long = b'{"a":"' + b"x" * 5000 + b'"}'
    stream = b'{"Records":[{"a":1},{"a":2},%b,{"a":3},%b]}' % (long, b"7" * 300)
    found, _ = read("Records", stepped(stream, step), max_bytes=100)
    assert [(event, length) for _, event, length in found] == [
        (b'{"a":1}', 7), (b'{"a":2}', 7), (long[:100], len(long)), (b'{"a":3}', 7), (b"7" * 100, 300),
    ]  # fmt: skip


def test_memory_stays_flat_in_one_endless_record() -> None:
    framing = JsonRecords(JsonOptions(records="Records"), max_bytes=1000)
    for begin, more in ((b'{"skipped":"', b"\\" * 1000), (b'","Records":[{"a":"', b"{" * 1000), (b'":', b"[" * 1000)):
        for step in (begin, *[more] * 100):
            assert list(framing.push(step)) == []
            assert sum(map(len, framing._kept)) + len(framing._tail) <= 1000


def test_an_endless_name_is_damage() -> None:
    for step in (1000, STEP):
        _, damage = read("Records", stepped(b'{ "' + b"x" * 100_000 + b'":1}', step))
        assert damage is not None
        assert (damage.reason, damage.raw_offset) == ("bad_json", 2)


@pytest.mark.parametrize(
    ("path", "stream"),
    [
        ("", b"["),
        ("", b'{"a":'),
        ("", b"[]"),
        ("", b'[{"a":1},{"a":}'),
        ("", b'"\\"'),
        ("", b"\\"),
        ("Records", b'{"Records":[{"a":1},{"a":2}]}'),
        ("Records", b'{"Records":[{"a":1},{"a":{"a":2},{"a":'),
        ("Records", b'{"x":'),
        ("Records", b'{"Records'),
        ("Records", b'{"a":1},'),
    ],
)
def test_hostile_documents_take_linear_time(path: str, stream: bytes) -> None:
    def cpu(size: int) -> float:
        document = b'{"Records":[{"a":1},{"a":2},' if path else b"[" if stream[:1] != b"\\" else b'"'
        document += stream * (size // len(stream))
        started = time.process_time()
        read(path, stepped(document, 1 << 16))
        return time.process_time() - started

    cpu(10_000)
    assert cpu(1 << 19) < 10 * cpu(1 << 17) + 0.2


@pytest.mark.parametrize("depth", [900, 300_000])
def test_deep_nesting_is_an_event_like_any_other(depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    found, damage = read("Records", stepped(b'{"Records":[{"a":1},%b,{"a":2}]}' % deep, STEP), max_bytes=5000)
    assert damage is None
    assert [(event, length) for _, event, length in found] == [
        (b'{"a":1}', 7), (deep[:5000], 2 * depth), (b'{"a":2}', 7),
    ]  # fmt: skip


def test_deep_nesting_without_an_end_is_truncated() -> None:
    found, damage = read("Records", stepped(b'{"Records":[{"a":1},' + b"[" * 1_000_000, STEP))
    assert [event for _, event, _ in found] == [b'{"a":1}']
    assert damage is not None
    assert damage.reason == "truncated"


@given(
    documents=st.lists(
        st.tuples(st.dictionaries(st.sampled_from("abc"), values), records, st.sampled_from(styles)), max_size=4
    ),
    path=st.sampled_from(["Records", "detail.items"]),
    step=st.integers(1, 200),
)
def test_records_carry_the_members_around_them(
    documents: list[tuple[dict[str, object], list[object], Callable[[object], str]]], path: str, step: int
) -> None:
    written, expected = [], []
    for around, records, style in documents:
        *outer, last = path.split(".")
        document: dict[str, object] = {**around, last: records, "d": "behind them"}
        for name in outer:
            document = {"other": 1, name: document}
        written.append(style(document))
        members = {name: value for name, value in around.items() if name in ("b", "c")}
        expected += [{**members, **record} if isinstance(record, dict) else record for record in records]
    stream = "".join(written).encode()
    found, damage = read(path, stepped(stream, step), carry=("b", "c", "d"))
    assert damage is None
    assert [json.loads(event) for _, event, _ in found] == expected
    assert [at for at, *_ in found] == [at for at, *_ in read(path, [stream])[0]]


@pytest.mark.parametrize(
    ("document", "event"),
    [
        (b'{"b":1,"r":[{"x":2}]}', b'{"b":1,"x":2}'),
        (b'{"b": [1, {}] ,"r":[{ "x":2}]}', b'{"b":[1, {}], "x":2}'),
        (b'{"b":1,"r":[{}]}', b'{"b":1}'),
        (b'{"b":1,"r":[{ \n}]}', b'{"b":1}'),
        (b'{"b":1,"b":2,"r":[{}]}', b'{"b":2}'),
        (b'{"b":1,"c":"x","r":[{"b":2}]}', b'{"c":"x","b":2}'),
        (b'{"b":1,"r":[{"b":2}]}', b'{"b":2}'),
        (b'{"b":1,"r":[{"x":"\\"b\\""}]}', b'{"b":1,"x":"\\"b\\""}'),
        # What would spoil every record is not carried: no JSON, no UTF-8, too much.
        (b'{"b":nul,"r":[{"x":2}]}', b'{"x":2}'),
        (b'{"b":"\xff","r":[{"x":2}]}', b'{"x":2}'),
        (b'{"b":"\\ud800","r":[{"x":2}]}', b'{"x":2}'),
        (b'{"b":"%b","r":[{"x":2}]}' % (b"y" * CARRIED_MAX_BYTES), b'{"x":2}'),
        (b'{"y":"%b","b":1,"r":[{"x":2}]}' % (b"y" * CARRIED_MAX_BYTES), b'{"x":2}'),
        (b'{"r":[{"x":2}],"b":1,"r":[]}', b'{"x":2}'),
        # Records that are no objects stay as they are, and what is no JSON.
        (b'{"b":1,"r":[5]}', b"5"),
        (b'{"b":1,"r":[{"b"}]}', b'{"b"}'),
    ],
)
def test_what_a_record_carries(document: bytes, event: bytes) -> None:
    for step in (1, 100, STEP):
        found, damage = read("r", stepped(document, step), carry=("b", "c"))
        assert [found for _, found, _ in found] == [event]
        assert damage is None


def test_one_document_leaves_nothing_to_the_next() -> None:
    found, _ = read("r", [b'{"b":1,"r":[{"x":1}]}{"c":2,"r":[{"x":2}]}{"r":[{"x":3}]}'], carry=("b", "c"))
    assert [event for _, event, _ in found] == [b'{"b":1,"x":1}', b'{"c":2,"x":2}', b'{"x":3}']


def test_a_record_at_the_limit_stays_as_it_is() -> None:
    document = b'{"b":1,"r":[{"x":"12345678"},{"x":"1"},{"x":"1234567890123456"}]}'
    found, _ = read("r", [document], carry=("b",), max_bytes=20)
    assert [(event, length) for _, event, length in found] == [
        (b'{"x":"12345678"}', 16), (b'{"b":1,"x":"1"}', 15), (b'{"x":"12345678901234', 24),
    ]  # fmt: skip


def test_what_many_short_records_carry_takes_bounded_memory() -> None:
    framing = JsonRecords(JsonOptions(records="r", carry=("b",)))
    step = b'{"b":"%b","r":[' % (b"y" * 8000) + b"{}," * 300_000
    pieces = [(sum(map(len, piece.events)), framing.boundary) for piece in framing.push(step)]
    assert max(size for size, _ in pieces) <= 1 << 20
    assert sum(size for size, _ in pieces) > 300_000 * 8000
    assert pieces[-1][1] == len(step) - 1
    assert pieces == sorted(pieces, key=lambda piece: piece[1])


@pytest.mark.parametrize("wrong", [{"records": "a..b"}, {"records": "."}, {"path": "a"}, {"carry": ["a"]}])
def test_options_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"type": "json", **wrong}, JsonOptions)
