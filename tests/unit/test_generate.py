"""Synthetic logs are the same for the same seed everywhere, and look like the logs they imitate."""

import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import zlib
from collections import Counter
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.generate import KINDS, PIECE_EVENTS, document, gzip_members, lines, main, write

COMBINED = re.compile(
    rb'(?P<ip>[0-9.]+) - (?P<user>\S+) \[(?P<time>[^\]]+)\] "(?P<method>[A-Z]+) (?P<path>\S+) HTTP/1\.1" '
    rb'(?P<status>[0-9]{3}) (?P<size>[0-9]+|-) "(?P<referrer>[^"]*)" "(?P<agent>[^"]*)"'
)


def members_of(data: bytes) -> int:
    count = 0
    while data:
        member = zlib.decompressobj(31)
        member.decompress(data)
        assert member.eof
        data, count = member.unused_data, count + 1
    return count


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_events_in_another_process_too(kind: str) -> None:
    code = (
        "import hashlib; from bench.generate import document;"
        f"print(hashlib.sha256(b''.join(document({kind!r}, 1500, 7))).hexdigest())"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "123"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert elsewhere.stdout.strip() == hashlib.sha256(b"".join(document(kind, 1500, 7))).hexdigest()


@pytest.mark.parametrize("kind", KINDS)
def test_another_seed_gives_other_events_and_fewer_events_are_a_prefix(kind: str) -> None:
    events = list(lines(kind, 1200, 1))
    assert list(lines(kind, 7, 1)) == events[:7]
    assert not set(events) & set(lines(kind, 1200, 2))


@pytest.mark.parametrize(
    ("kind", "expected_bytes"), [("access", 226), ("alb", 635), ("eve", 750), ("cloudtrail", 1150)]
)
def test_events_are_as_long_as_real_ones(kind: str, expected_bytes: int) -> None:
    events = list(lines(kind, 5000))
    assert sum(map(len, events)) / len(events) == pytest.approx(expected_bytes, rel=0.04)
    assert not any(b"\n" in event or b"\r" in event for event in events)


def test_access_lines_are_combined_log_lines_of_great_variety() -> None:
    parsed = [COMBINED.fullmatch(line) for line in lines("access", 20_000)]
    fields = [match.groupdict() for match in parsed if match]
    assert len(fields) == 20_000
    variety = {name: len({row[name] for row in fields}) for name in fields[0]}
    assert variety["agent"] == 40
    assert variety["ip"] > 2000
    assert variety["path"] > 5000
    assert variety["status"] == 9
    assert variety["size"] > 5000
    assert variety["referrer"] > 500
    assert {row["size"] for row in fields if row["status"] == b"304"} == {b"-"}
    times = [datetime.strptime(row["time"].decode(), "%d/%b/%Y:%H:%M:%S %z") for row in fields]
    assert all(earlier <= later for earlier, later in pairwise(times))


def test_access_logs_compress_like_real_ones() -> None:
    data = b"".join(document("access", 20_000))
    assert 6 < len(data) / len(gzip.compress(data, 6)) < 10


def test_eve_lines_are_nested_objects_of_five_types() -> None:
    events = [json.loads(line) for line in lines("eve", 5000)]
    types = Counter(event["event_type"] for event in events)
    assert set(types) == {"alert", "dns", "flow", "http", "tls"}
    assert min(types.values()) > 500
    assert all(isinstance(event[event["event_type"]], dict) for event in events)
    assert all(earlier["timestamp"] <= later["timestamp"] for earlier, later in pairwise(events))


@pytest.mark.parametrize("events", [0, 1, PIECE_EVENTS, PIECE_EVENTS + 1])
def test_cloudtrail_is_one_document(events: int) -> None:
    document_ = json.loads(b"".join(document("cloudtrail", events)))
    assert document_ == {"Records": [json.loads(record) for record in lines("cloudtrail", events)]}


@settings(max_examples=40)
@given(st.data(), st.sampled_from(sorted(KINDS)), st.integers(1, 60), st.integers(1, 20))
def test_any_number_of_members_holds_the_same_bytes(
    data: st.DataObject, kind: str, events: int, piece_events: int
) -> None:
    pieces = -(-events // piece_events)
    members = data.draw(st.integers(1, pieces))
    packed = b"".join(gzip_members(document(kind, events, 0, piece_events), pieces, members))
    assert gzip.decompress(packed) == b"".join(document(kind, events))
    assert members_of(packed) == members


@pytest.mark.parametrize(("events", "members"), [(1, 1), (3, 3), (2500, 7), (10, 6)])
def test_a_gz_name_makes_members_and_another_name_plain_text(tmp_path: Path, events: int, members: int) -> None:
    packed, plain = tmp_path / "a.log.gz", tmp_path / "a.log"
    raw_bytes = write("access", events, packed, seed=3, members=members)
    assert write("access", events, plain, seed=3) == raw_bytes == plain.stat().st_size
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert members_of(packed.read_bytes()) == members


def test_the_command_writes_the_file_and_says_what_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "eve.json"
    monkeypatch.setattr(sys, "argv", ["generate", "eve", "--events", "20", "--out", str(out), "--seed", "5"])
    main()
    assert out.read_bytes().splitlines() == list(lines("eve", 20, 5))
    assert f"20 events, {out.stat().st_size:,} bytes raw" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--events", "0", "--out", "a.gz"], "--events must be at least 1"),
        (["--events", "5", "--out", "a.gz", "--members", "6"], "no more than the events"),
        (["--events", "5", "--out", "a.log", "--members", "2"], "only gzip has members"),
    ],
)
def test_the_command_refuses_what_makes_no_sense(
    arguments: list[str],
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["generate", "access", *arguments])
    with pytest.raises(SystemExit):
        main()
    assert complaint in capsys.readouterr().err
