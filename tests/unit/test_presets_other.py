"""Presets that are not AWS's: fixtures through the real framing and documents, awkward lines included.

`tests/presets/other/NAME.log` holds the lines, `NAME.json` what each event becomes, without what every document has.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from logflume import framing, sources
from logflume.batch import Header
from logflume.documents import Documents
from logflume.parsing.time_formats import TimestampRule
from logflume.rules import Rulebook
from logflume.sources import Source, files
from tests.fakes import headers

FIXTURES = Path(__file__).parents[1] / "presets" / "other"
MODIFIED_MS = 1_795_245_900_000  # 2026-11-21T07:25:00Z
NAMES = sorted(path.stem for path in FIXTURES.glob("*.log"))


def load(tmp_path: Path, preset: str, more: str = "") -> sources.Sources:
    path = tmp_path / "pipeline.toml"
    path.write_text(f'[[source]]\nname = "it"\npreset = "{preset}"\n{more}')
    return sources.load(path)


def header(source: Source) -> Header:
    return msgspec.structs.replace(
        headers.header(modified_ms=MODIFIED_MS),
        source=source.name,
        parser=source.parsing,
        index=source.index_rule("logs"),
    )


def documents(configured: sources.Sources, data: bytes, step: int = 1 << 20) -> list[dict[str, Any]]:
    """What the data becomes: index, id and members of each event."""
    source = configured.named("it")
    cut = framing.build(source.framing)
    built = Documents(header(source), Rulebook(configured).of("it"))
    lines: list[bytes] = []
    for start in range(0, len(data), step):
        for piece in cut.push(data[start : start + step]):
            lines += built.build(piece).operations.splitlines()
    for piece in cut.finish():
        lines += built.build(piece).operations.splitlines()
    found = []
    for action, body in zip(lines[::2], lines[1::2], strict=True):
        document = json.loads(body)
        assert document["log"].pop("object_id")
        assert document["log"].pop("file")
        found.append({"_index": json.loads(action)["create"]["_index"], **document})
    return found


def given(configured: sources.Sources, data: bytes) -> dict[str, Any]:
    """The one event that the data becomes, without index and place."""
    (found,) = documents(configured, data)
    del found["_index"], found["log"]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_fixture_becomes_what_is_expected(tmp_path: Path, name: str) -> None:
    found = documents(load(tmp_path, name), (FIXTURES / f"{name}.log").read_bytes())
    assert found == json.loads((FIXTURES / f"{name}.json").read_bytes())


@pytest.mark.parametrize("name", NAMES)
def test_small_steps_give_the_same(tmp_path: Path, name: str) -> None:
    data = (FIXTURES / f"{name}.log").read_bytes()
    configured = load(tmp_path, name)
    assert documents(configured, data, step=7) == documents(configured, data)


@pytest.mark.parametrize("name", NAMES)
def test_the_long_way_gives_the_same(tmp_path: Path, name: str) -> None:
    data = (FIXTURES / f"{name}.log").read_bytes()
    configured = load(tmp_path, name)
    rules = Rulebook(configured).of("it")
    assert rules
    rules.at_once = None
    one_by_one = Documents(header(configured.named("it")), rules)
    (piece,) = [*(cut := framing.build(configured.named("it").framing)).push(data)] or [*cut.finish()]
    whole = Documents(header(configured.named("it")), Rulebook(configured).of("it")).build(piece).operations
    slow = one_by_one.build(piece).operations
    assert [json.loads(line) for line in slow.splitlines()] == [json.loads(line) for line in whole.splitlines()]


@pytest.mark.parametrize("name", NAMES)
def test_members_fit_their_declared_types(tmp_path: Path, name: str) -> None:
    source = load(tmp_path, name).named("it")
    types = sources.fields.declared(source.fields)
    longs = {path for path, kind in types.items() if kind == "long"}
    for document in documents(load(tmp_path, name), (FIXTURES / f"{name}.log").read_bytes()):
        for path in longs & document.keys():
            assert isinstance(document[path], int) or int(document[path]) >= 1 << 63, path


def test_every_preset_of_ours_has_a_fixture() -> None:
    assert [name for name in files.presets() if not name.startswith("aws.")] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_any_bytes_are_delivered(tmp_path: Path, name: str) -> None:
    configured = load(tmp_path, name)
    for data in (b"\xff\xfe broken", b"", b"{", b'{"a":1', b"[1]", b"\x00", b"x" * 70_000):
        found = documents(configured, data + b"\n")
        assert len(found) == bool(data)
        assert not data or "tags" in found[0]
        if data.startswith(b"\xff"):
            assert "_invalid_utf8" in found[0]["tags"]
            assert found[0]["message"] == "\ufffd\ufffd broken"


@pytest.mark.parametrize(
    ("preset", "line"),
    [
        ("apache.access", b'2001:db8::1 - - [21/Nov/2026:07:25:00 +0000] "GET / HTTP/1.1" 200 1 "-" "cut'),
        ("nginx.access", b'10.0.0.1 - - [21/Nov/2026:07:25:00 +0000] "GET / HT'),
        ("nginx.error", b"2026/11/21 07:25:00 [error] 12"),
        ("apache.error", b"[Sat Nov 21 07:25:00.1"),
        ("syslog", b"just words"),
        ("java", b"2026-11-21 07:25:00,12"),
        ("python", b"2026-11-21 07:25:00,12"),
        ("kubernetes.cri", b"2026-11-21T07:25:00Z stdo"),
        ("suricata.eve", b'{"timestamp":"2026-11-21T07:25:00.0'),
        ("zeek.json", b'{"ts":1795245900.1'),
        ("json.lines", b'{"time":'),
    ],
)
def test_a_truncated_line_keeps_its_text(tmp_path: Path, preset: str, line: bytes) -> None:
    found = given(load(tmp_path, preset), line)
    assert found["message"] == line.decode()
    assert found["tags"] == ["_parse_failure"]
    assert found["log.parse_failure"]


def test_a_zone_can_be_given_to_times_without(tmp_path: Path) -> None:
    more = (
        'timestamp = { field = "timestamp", formats = ["%Y/%m/%d %H:%M:%S"], zone = "Europe/Berlin", keep = false }\n'
    )
    found = given(load(tmp_path, "nginx.error", more), b"2026/11/21 07:25:00 [notice] 1#2: start")
    assert found["@timestamp"] == "2026-11-21T06:25:00Z"


@pytest.mark.parametrize(
    ("preset", "line"),
    [
        ("nginx.error", b"2026/11/21 07:25:00 [notice] 1#2: start"),
        ("apache.error", b"[Sat Nov 21 07:25:00 2026] [notice] start"),
        ("syslog", b"Nov 21 07:25:00 host app: start"),
        ("java", b"2026-11-21 07:25:00 INFO start"),
        ("python", b"2026-11-21 07:25:00 INFO start"),
    ],
)
def test_a_zone_alone_leaves_the_rest_of_the_timestamp_as_the_preset_says(
    tmp_path: Path, preset: str, line: bytes
) -> None:
    found = given(load(tmp_path, preset, 'timestamp = { zone = "Europe/Berlin" }\n'), line)
    assert (found["@timestamp"], "timestamp" in found) == ("2026-11-21T06:25:00Z", False)


def test_a_timestamp_that_names_a_field_is_all_its_own(tmp_path: Path) -> None:
    configured = load(tmp_path, "json.lines", 'timestamp = { field = "ts", formats = ["epoch_s"] }\n')
    assert given(configured, b'{"time":"2026-11-20T00:00:00Z","ts":1795245899}')["@timestamp"] == "2026-11-21T07:24:59Z"
    assert configured.named("it").timestamp == TimestampRule(field="ts", formats=("epoch_s",))


def test_stack_traces_stay_together_wherever_the_steps_end(tmp_path: Path) -> None:
    (first, second, *_) = documents(load(tmp_path, "java"), (FIXTURES / "java.log").read_bytes(), step=3)
    assert first["message"]
    assert "\n" in second["error.stack_trace"]


@pytest.mark.parametrize(
    ("preset", "key"),
    [
        ("apache.access", "drop/apache2/access.log.1.gz"),
        ("apache.error", "drop/web1/httpd/error_log-20261121"),
        ("java", "drop/java/shop/app.log"),
        ("json.lines", "drop/a/b.ndjson.gz"),
        ("kubernetes.cri", "drop/var/log/pods/ns_pod_uid/app/0.log"),
        ("nginx.access", "drop/nginx/access.log"),
        ("nginx.error", "drop/nginx/site/error.log.2.gz"),
        ("python", "drop/python/app.log"),
        ("suricata.eve", "drop/eve.json.1.gz"),
        ("syslog", "drop/host7/syslog.1"),
        ("zeek.json", "drop/zeek/2026-11-21/conn.07:00:00-08:00:00.log.gz"),
    ],
)
def test_a_preset_takes_the_usual_keys(tmp_path: Path, preset: str, key: str) -> None:
    taken = load(tmp_path, preset).for_key(key)
    assert taken
    assert taken.preset == preset
