"""`logflume preview`: what files would become, by the pipeline's own code, in a pipe as on a terminal."""

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from backports import zstd
from isal import isal_zlib

from bench.spool import FAR, MODIFIED_MS, Spool, reading
from infra.local.paths import REPOSITORY
from logflume.batch import Header
from logflume.bulk import Bulk
from logflume.indexer import Indexer, StreamRecord
from logflume.limits import EVENT_MAX_BYTES, OFFSET_DIGITS
from logflume.rules import Rulebook
from logflume.sources import load
from tests.unit.test_cli_main import call

CONFIG = r"""
[[source]]
name = "api"
match = ["drop/api/**"]
parser = "json"
timestamp = { field = "when", keep = false }
[[source.processors]]
type = "drop_event"
when = 'level == "debug"'
[[source.processors]]
type = "convert"
fields = { took = "long" }

[[source]]
name = "pairs"
match = ["**/*.pairs", "**/*.pairs.*"]
parser = { type = "key_value" }

[[source]]
name = "large"
match = ["**/large*"]
oversize = "reference"
document_ids = false

[[source]]
name = "json"
match = ["**/*.json", "**/*.json.*"]
parser = "json"

[[source]]
name = "text"
match = ["drop/**/*.log", "drop/**/*.log.*", "drop/stdin"]
"""

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gz": gzip.compress,
    "zst": zstd.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
}
LINES = [f"line {i} {i * 0x9E3779B97F4A7C15:x}{'-' * 1000}" for i in range(1_500)]  # more than one step of 1 MiB
TEXT = "".join(f"{line}\n" for line in LINES).encode()


class Preview:
    """The command on files in a folder of its own."""

    def __init__(self, folder: Path, printed: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._printed = printed
        self.write("pipeline.toml", CONFIG.encode())

    def write(self, name: str, data: bytes | bytearray) -> str:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        return name

    def __call__(self, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
        """Exit status, events, and what standard error says."""
        status = call("preview", *arguments, "--config", "pipeline.toml")
        printed = self._printed.readouterr()
        return status, [json.loads(line) for line in printed.out.splitlines()], printed.err


@pytest.fixture
def preview(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Preview:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    return Preview(tmp_path, capsys)


def messages(events: list[dict[str, Any]]) -> list[str]:
    return [event["_source"]["message"] for event in events]


def test_an_event_is_shown_as_it_would_be_indexed(preview: Preview) -> None:
    name = preview.write("web/access.log", b"GET /\nGET /favicon.ico\n")
    os.utime(name, (1_795_262_400, 1_795_262_400))  # 2026-11-21T12:00:00Z
    status, events, said = preview(name)
    ids = [event.pop("_id") for event in events]
    object_id = ids[0].removesuffix("000000000000000")
    assert ids == [f"{object_id}{offset:015d}" for offset in (0, 6)]
    assert [*events[0]["_source"]] == ["@timestamp", "log", "message"]
    assert events[1] == {
        "_index": "logs-text-2026.11.21",
        "_source": {
            "@timestamp": "2026-11-21T12:00:00.000Z",
            "log": {"file": {"path": "s3://preview/drop/web/access.log"}, "object_id": object_id, "offset": 6},
            "message": "GET /favicon.ico",
        },
    }
    assert status == 0
    assert said == "web/access.log: source text: 2 events\n  logs-text-2026.11.21  2 events\n"


def test_ids_are_the_same_in_every_run_and_others_for_another_path(preview: Preview) -> None:
    first, second = (preview.write(name, b"a\nb\n") for name in ("one.log", "two.log"))
    runs = [[event["_id"] for event in preview(name)[1]] for name in (first, first, second)]
    assert runs[0] == runs[1]
    assert not {*runs[0]} & {*runs[2]}


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_every_compression_is_read_like_the_reader_does(name: str, preview: Preview) -> None:
    status, events, _ = preview(preview.write(f"a.log.{name}", COMPRESSIONS[name](TEXT)))
    assert (status, messages(events)) == (0, LINES)


@pytest.mark.parametrize("name", ["gz", "zst", "bz2", "xz"])
@pytest.mark.parametrize("piped", [False, True])
def test_of_a_damaged_file_every_whole_event_before_the_damage_is_shown(
    name: str, piped: bool, preview: Preview, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = COMPRESSIONS[name](TEXT)
    cut = whole[: len(whole) * 3 // 4]
    if piped:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(cut)))
    status, events, said = preview("-" if piped else preview.write("cut.log", cut))
    shown = messages(events)
    # bzip2 and xz decompress in blocks: of one that does not end there may be nothing.
    assert shown == LINES[: len(shown)]
    assert len(shown) > (300 if name in ("gz", "zst") else -1)
    assert status == 1
    assert f"damaged: {'-' if piped else 'cut.log'}: truncated: " in said
    assert f"source text: {len(shown):,} events\n" in said


@pytest.mark.parametrize("name", ["bz2", "xz"])
def test_a_pipe_is_read_again_where_its_decoder_goes_back_before_the_damage(
    name: str, preview: Preview, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = COMPRESSIONS[name](TEXT)
    damaged = bytearray(sound + sound)
    damaged[-len(sound) // 2] ^= 0xFF
    as_file = preview(preview.write("a.log", damaged))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(damaged)))
    as_pipe = preview("-")
    assert messages(as_pipe[1]) == messages(as_file[1])
    assert len(as_pipe[1]) >= len(LINES)
    assert as_pipe[2].replace("-:", "a.log:") == as_file[2]
    assert as_pipe[0] == 1


def test_other_files_are_shown_behind_a_damaged_one(preview: Preview) -> None:
    cut = preview.write("cut.log", gzip.compress(TEXT)[:-4])
    status, events, _ = preview(cut, preview.write("good.log", b"last"))
    assert (status, messages(events)[-1]) == (1, "last")


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_standard_input_is_read_as_a_file_is(name: str, preview: Preview, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(COMPRESSIONS[name](TEXT))))
    status, events, _ = preview("-")
    assert (status, messages(events)) == (0, LINES)


def test_a_pipe_given_as_a_file_is_read_once(preview: Preview) -> None:
    readable, writable = os.pipe()
    os.write(writable, b"from a pipe\n")
    os.close(writable)
    status, events, _ = preview(f"/dev/fd/{readable}", "--source", "text")
    os.close(readable)
    assert (status, messages(events)) == (0, ["from a pipe"])


def test_the_path_chooses_the_source_and_the_option_overrules_it(preview: Preview) -> None:
    name = preview.write("a.pairs", b"level=info\n")
    assert preview(name)[1][0]["_source"]["level"] == "info"
    assert messages(preview(name, "--source", "text")[1]) == ["level=info"]
    assert messages(preview(str(preview.folder / name), "--source", "text")[1]) == ["level=info"]


def test_what_no_source_takes_is_told_to_be_skipped(preview: Preview) -> None:
    status, events, said = preview(preview.write("notes.txt", b"x"))
    assert (status, events) == (0, [])
    assert said == "notes.txt: skipped, no source takes drop/notes.txt; --source names one\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.log", "--source", "txt"], "error: no source 'txt'; there are: api, pairs, large, json, text\n"),
        (["missing\x1b.log"], "error: missing\\x1b.log: No such file or directory\n"),
        (["web"], "error: web: Is a directory\n"),
        (["a.log", "missing.log"], "error: missing.log: No such file or directory\n"),
    ],
)
def test_what_cannot_begin_ends_with_2_before_anything_is_shown(
    arguments: list[str], message: str, preview: Preview
) -> None:
    preview.write("a.log", b"x")
    preview.write("web/a.log", b"x")
    assert preview(*arguments) == (2, [], message)


def test_a_wrong_configuration_ends_with_2_and_all_that_is_wrong(preview: Preview) -> None:
    preview.write("a.log", b"x")
    preview.write(
        "pipeline.toml", b'[[source]]\nname = "a"\nmatch = ["**"]\nparsr = "json"\n\n[[source]]\nname = "b"\n'
    )
    status, events, said = preview("a.log")
    assert (status, events) == (2, [])
    assert "source 1 (a): unknown setting 'parsr' (did you mean 'parser'?)" in said
    assert "source 2 (b): Object missing required field `match`" in said


@pytest.mark.parametrize("limit", [1, 3, 1_200])
def test_a_limit_is_of_each_file_and_ends_its_reading(limit: int, preview: Preview) -> None:
    name = preview.write("a.log.gz", gzip.compress(TEXT)[:-4])
    status, events, said = preview(name, name, "--limit", str(limit))
    assert messages(events) == LINES[:limit] * 2
    assert status == 0
    assert said.count(f"; stopped there (--limit {limit})\n") == 2


def test_bytes_that_are_no_utf_8_are_shown_as_they_would_be_indexed(preview: Preview) -> None:
    _, events, said = preview(preview.write("a.log", b"caf\xe9\nplain\n"))
    assert messages(events) == ["caf\ufffd", "plain"]
    assert events[0]["_source"]["tags"] == ["_invalid_utf8"]
    assert "  _invalid_utf8         1 event, the first at byte 0\n" in said


def test_nothing_in_the_output_acts_on_a_terminal(preview: Preview, capsys: pytest.CaptureFixture[str]) -> None:
    value = "\x1b[2J\x7f\x85\u202e\u2028 ü 😀"
    preview.write("a.json", json.dumps({"a": value}, ensure_ascii=False).encode())
    preview.write("b.log", value.encode())
    assert call("preview", "a.json", "b.log", "--config", "pipeline.toml") == 0
    first, second = capsys.readouterr().out.removesuffix("\n").split("\n")
    assert first.isprintable()
    assert "ü 😀" in first
    assert json.loads(first)["_source"]["a"] == value
    assert second.isprintable()
    assert json.loads(second)["_source"]["message"] == value


def test_the_summary_counts_what_rules_drop_and_what_could_not_be_read(preview: Preview) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    events = [
        {"when": now, "level": "debug"},
        {"when": now, "level": "info", "took": "7"},
        {"when": "1999-01-01T00:00:00Z", "took": "soon"},
        {"level": "debug"},
    ]
    lines = [json.dumps(event).encode() for event in events]
    status, shown, said = preview(preview.write("api/a.log", b"\n".join([*lines[:3], b"nonsense", lines[3]])))
    assert (status, len(shown)) == (0, 3)
    assert shown[0]["_source"]["took"] == 7
    assert said.startswith("api/a.log: source api: 3 events, 2 dropped by rules\n")
    assert f"_processor_failure       1 event, the first at byte {len(lines[0]) + len(lines[1]) + 2}: [" in said
    assert "_timestamp_out_of_range  1 event, " in said
    assert "_parse_failure           1 event, the first at byte" in said


def test_an_event_that_is_too_large_is_told_where_it_would_be_a_dead_letter(preview: Preview) -> None:
    status, events, said = preview(preview.write("large.log", b"a\n" + b"x" * (EVENT_MAX_BYTES + 1) + b"\nb\n"))
    assert (status, messages(events)) == (0, ["a", "b"])
    assert {*events[0]} == {"_index", "_source"}, "OpenSearch makes ids up for this source"
    assert "2 events, 1 too large, would be dead letters by reference" in said


def test_the_documents_are_those_that_the_indexer_sends(preview: Preview) -> None:
    lines = [
        {"when": MODIFIED_MS - i * 3_600_000, "n": i, "took": str(i), "level": "debug" if i % 7 == 0 else "info"}
        for i in range(200)
    ]
    content = [*map(json.dumps, lines), "nonsense", '{"took":"x"}', '{"when":1}']
    path = preview.folder / preview.write("api/a.log", "\n".join(content).encode())
    os.utime(path, (MODIFIED_MS / 1000, MODIFIED_MS / 1000))
    sent: list[tuple[str, str, dict[str, Any]]] = []

    class Sender:
        def bulk(self, body: bytes) -> tuple[int, str]:
            raw = [json.loads(line) for line in isal_zlib.decompress(body, 31).splitlines()]
            sent.extend(
                comparable({**action["create"], "_source": source})
                for action, source in zip(raw[::2], raw[1::2], strict=True)
            )
            return 200, json.dumps({"items": [{"create": {"status": 201}}] * (len(raw) // 2)})

    dropped: list[int] = []

    class Dropped:
        def put_dropped(self, header: Header, offsets: list[int]) -> None:
            dropped.extend(offsets)

    def comparable(event: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
        document = event["_source"]
        del document["log"]["file"], document["log"]["object_id"]
        return event["_index"], event["_id"][-OFFSET_DIGITS:], document

    configured = load(preview.folder / "pipeline.toml")
    with (preview.folder / "spool").open("w+b") as file:
        spool = Spool(file)
        reading(path, configured.named("api"), spool).read()
        records = [StreamRecord(str(i), data, 0) for i, data in enumerate(spool.records())]
    indexer = Indexer(Bulk(Sender()), Dropped(), rules=Rulebook(configured).of)  # type: ignore[arg-type]
    assert indexer.run(records, deadline=FAR).unfinished is None
    _, events, _ = preview("api/a.log")
    assert [comparable(event) for event in events] == sent
    assert len(sent) + len(dropped) == len(content)
    assert len(sent) == 200 - 29 + 3


def test_the_end_of_a_pipe_that_closes_is_quiet(preview: Preview) -> None:
    preview.write("a.log", TEXT)
    code = "from infra.cli.main import app; app()"
    command = [sys.executable, "-c", code, "preview", "a.log", "--config", "pipeline.toml"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout
        assert process.stderr
        assert b'"message":"line 0 ' in process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_a_name_that_is_no_utf_8_has_a_key_all_the_same(preview: Preview) -> None:
    name = os.fsdecode(b"caf\xe9.log")
    status, events, _ = preview(preview.write(name, b"x"))
    assert (status, events[0]["_source"]["log"]["file"]["path"]) == (0, "s3://preview/drop/caf\ufffd.log")
