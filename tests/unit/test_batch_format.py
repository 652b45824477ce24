"""The batch format as docs/batch-format.md tells it: a reader written from that page alone reads what ours writes."""

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import msgpack
import msgspec
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from logflume import batch, limits
from logflume.batch import BatchWriter, Header, IndexRule, Record, Slice, decode
from tests.fakes.headers import header

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden"
PAGE = (ROOT / "docs/batch-format.md").read_text()

HEADER = {
    "v": 2,
    "object_id": "0123456789abcdef0123456789abcdef",
    "lineage": "fedcba9876543210fedcba9876543210",
    "bucket": "drop",
    "key": "drop/a b+ü.log",
    "source": "text",
    "parser": "text",
    "index": ["logs-text", "day", True],
    "modified_ms": 1_700_000_000_000,
    "created_ms": 1_700_000_000_500,
    "oversize": "reference",
    "context": "",
}
LINEAGE = HEADER["lineage"]


# ---- A reader from the page, with nothing but the MsgPack specification beside it -----------------------------------


def read_value(stream: BytesIO) -> Any:
    """One MsgPack value."""

    def number(size: int, *, signed: bool = False) -> int:
        return int.from_bytes(stream.read(size), "big", signed=signed)

    match number(1):
        case fixed if fixed <= 0x7F:
            return fixed
        case fixed if fixed <= 0x8F:
            return read_map(stream, fixed & 0x0F)
        case fixed if fixed <= 0x9F:
            return [read_value(stream) for _ in range(fixed & 0x0F)]
        case fixed if fixed <= 0xBF:
            return stream.read(fixed & 0x1F).decode()
        case (0xC2 | 0xC3) as kind:
            return kind == 0xC3
        case (0xC4 | 0xC5 | 0xC6) as kind:
            return stream.read(number(1 << kind - 0xC4))
        case (0xCC | 0xCD | 0xCE | 0xCF) as kind:
            return number(1 << kind - 0xCC)
        case (0xD0 | 0xD1 | 0xD2 | 0xD3) as kind:
            return number(1 << kind - 0xD0, signed=True)
        case (0xD9 | 0xDA | 0xDB) as kind:
            return stream.read(number(1 << kind - 0xD9)).decode()
        case (0xDC | 0xDD) as kind:
            return [read_value(stream) for _ in range(number(2 << kind - 0xDC))]
        case (0xDE | 0xDF) as kind:
            return read_map(stream, number(2 << kind - 0xDE))
        case fixed if fixed >= 0xE0:
            return fixed - 0x100
        case kind:
            raise AssertionError(f"a batch needs no {kind:#x}")


def read_map(stream: BytesIO, members: int) -> dict[Any, Any]:
    return {read_value(stream): read_value(stream) for _ in range(members)}


def read_record(data: bytes) -> tuple[dict[str, Any], list[tuple[str, bytes, int | None]]]:
    """Header and events, each with its id and, where it is cut, its full length."""
    content = zstd.decompress(data)
    stream = BytesIO(content)
    members = {"oversize": "truncate", "context": "", **read_value(stream)}
    assert members["v"] in (1, 2)
    members["index"] = [*members["index"], *[True][len(members["index"]) - 2 :]]
    events: list[tuple[str, bytes, int | None]] = []
    while stream.tell() < len(content):
        offsets, bodies, *cut = read_value(stream)
        lengths = cut[0] if cut else {}
        if isinstance(offsets, int):
            offsets = [offsets + sum(len(body) + 1 for body in bodies[:index]) for index in range(len(bodies))]
        for index, (offset, body) in enumerate(zip(offsets, bodies, strict=True)):
            events.append((f"{members['lineage']}{offset:015}", body, lengths.get(index)))
    return members, events


# ---- and what it reads ----------------------------------------------------------------------------------------------


def ours(data: bytes) -> tuple[dict[str, Any], list[tuple[str, bytes, int | None]]]:
    """The same by our own decoder."""
    found, slices = decode(data)
    events = [
        (f"{found.lineage}{offset:015}", event, piece.cut.get(i))
        for piece in slices
        for i, (offset, event) in enumerate(zip(piece.offsets, piece.events, strict=True))
    ]
    return dict(msgspec.to_builtins(found)), events


@pytest.mark.parametrize("read", [read_record, ours])
@pytest.mark.parametrize("version", [1, 2])
def test_the_golden_records_are_read(read: Any, version: int) -> None:
    assert batch.VERSION == 2, "a new version needs a golden record of its own, and these must stay readable"
    members, events = read((GOLDEN / f"batch-v{version}.bin").read_bytes())
    assert members == {**HEADER, "v": version}
    assert events == [
        (f"{LINEAGE}000000000000000", b"hello", None),
        (f"{LINEAGE}000000000000006", b"w\xffrld", None),
        (f"{LINEAGE}000000000000012", b"third", None),
        (f"{LINEAGE}000000000000300", b"first bytes", 2_000_000),
    ]


@pytest.mark.parametrize("read", [read_record, ours])
def test_a_record_from_before_optional_members_is_read_with_their_defaults(read: Any) -> None:
    data = (GOLDEN / "batch-v1-first.bin").read_bytes()
    assert b"oversize" not in zstd.decompress(data)
    assert b"\xa5index\x92" in zstd.decompress(data), "an index rule without ids"
    members, events = read(data)
    assert members == {**HEADER, "oversize": "truncate", "v": 1}
    assert events == [
        (f"{LINEAGE}000000000000000", b"hello", None),
        (f"{LINEAGE}000000000000006", b"w\xffrld", 9000),
    ]


@given(
    st.lists(st.lists(st.tuples(st.binary(max_size=300), st.integers(0, 70_000)), min_size=1, max_size=20), max_size=6),
    st.text(st.characters(codec="utf-8"), max_size=100),
    st.integers(0, limits.TIME_MAX_MS),
    st.integers(-(2**63), 2**63 - 1),
)
def test_whatever_our_writer_writes_is_read(
    groups: list[list[tuple[bytes, int]]], key: str, modified_ms: int, created_ms: int
) -> None:
    """An event that is longer than its bytes is cut."""
    of = header(key=key, modified_ms=modified_ms, created_ms=created_ms)
    records: list[Record] = []
    writer = BatchWriter(of, records.append)
    wanted, at = [], 0
    for group in groups:
        offsets, cut = [], {}
        for i, (event, more) in enumerate(group):
            offsets.append(at)
            length = len(event) + more
            if more:
                cut[i] = length
            wanted.append((f"{of.lineage}{at:015}", event, length if more else None))
            at += length + 1
        writer.add(Slice(offsets, [event for event, _ in group], cut, adjacent=not cut), at)
    writer.close()
    read = [read_record(record.data) for record in records]
    assert [event for _, events in read for event in events] == wanted
    assert all(members == msgspec.to_builtins(of) for members, _ in read)
    assert [ours(record.data) for record in records] == read


def test_members_that_a_later_writer_adds_are_ignored() -> None:
    members = {**HEADER, "index": ["logs-text", "day", True, "later", [1]], "later": {"a": [1.5, None, b"x", True]}}
    data = zstd.compress(msgpack.packb(members) + msgpack.packb([[7], [b"event"]]))
    found, slices = decode(data)
    assert found == msgspec.convert(HEADER, Header)
    assert list(slices) == [Slice([7], [b"event"], {})]


# ---- The page itself ------------------------------------------------------------------------------------------------


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def rows(text: str) -> Iterator[list[str]]:
    """The cells of a table's rows, from the first that names something in code."""
    for line in text.splitlines():
        if line.startswith("| ") and "`" in line:
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def test_its_numbers_are_those_of_the_code() -> None:
    limited = list(rows(section("Limits")))
    assert len(limited) == 13
    for what, value, name in limited:
        number = int(re.sub(r"\D", "", value))
        assert number == getattr(limits, name.strip("`")), what
    assert f"{limits.BATCH_TARGET_WIRE_BYTES:,} bytes on the wire" in PAGE


def test_it_names_every_member_of_the_header() -> None:
    told = {row[0].strip("`"): row[2] for row in rows(section("Header")) if len(row) == 4 and row[0].startswith("`")}
    for field in msgspec.structs.fields(Header):
        default = "required" if field.required or field.name == "v" else f"default `{field.default}`"
        assert told.pop(field.name) == default
    assert told == {}
    places = [row[0] for row in rows(section("Header")) if row[0][0].isdigit()]
    assert places == [f"{i} `{field.name}`" for i, field in enumerate(msgspec.structs.fields(IndexRule))]


def test_it_names_every_reason_to_refuse_a_record() -> None:
    used = set(re.findall(r'BatchDamaged\(\s*"(\w+)"', Path(batch.__file__).read_text()))
    assert {row[0].strip("`") for row in rows(section("What a reader must refuse"))} == used


def test_its_example_is_the_golden_record_byte_by_byte() -> None:
    data = (GOLDEN / "batch-v2.bin").read_bytes()
    example, content = section("An example"), b""
    for line in example.split("```")[1].strip().splitlines():
        assert int(line[:4], 16) == len(content)
        content += bytes.fromhex(line[6:53])
    assert content == zstd.decompress(data)
    assert f"{len(data)} bytes" in example
    assert f"{len(content)} bytes" in example
