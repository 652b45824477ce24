"""Events counted apart from the pipeline, and the samples they are first counted in."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cli import samples
from infra.cli.samples import Sample, count_events, generate
from logflume.framing.lines import Lines


def events_of_the_pipeline(data: bytes) -> int:
    lines = Lines()
    return sum(len(piece.offsets) for piece in [*lines.push(data), *lines.finish()])


@given(data=st.lists(st.sampled_from([b"a", b"\xff", b" ", b"\n", b"\r\n", b"\r"]), max_size=12).map(b"".join))
def test_both_ways_of_counting_agree_on_every_kind_of_line_end(
    data: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "counted.log"
    file.write_bytes(data)
    assert count_events(file) == events_of_the_pipeline(data)


def test_gzip_is_told_by_its_bytes_and_read_through_all_members(tmp_path: Path) -> None:
    file = tmp_path / "named-as-text.log"
    file.write_bytes(gzip.compress(b"one\ntw") + gzip.compress(b"o\n\nthree\n") + gzip.compress(b"four"))
    assert count_events(file) == 4


@pytest.mark.parametrize("keep", [10, 18, 40])
def test_events_of_a_cut_gzip_file_are_not_counted(tmp_path: Path, keep: int) -> None:
    file = tmp_path / "cut.gz"
    file.write_bytes(gzip.compress(bytes(range(32, 127)) * 3)[:keep])
    assert count_events(file) is None


def test_events_of_damaged_gzip_are_not_counted(tmp_path: Path) -> None:
    file = tmp_path / "damaged.gz"
    data = bytearray(gzip.compress(b"line\n" * 100))
    data[-6] ^= 1
    file.write_bytes(data)
    assert count_events(file) is None


@pytest.mark.parametrize("magic", [b"\x28\xb5\x2f\xfd", b"BZh9", b"\xfd7zXZ\x00"])
def test_events_in_other_compressions_are_not_counted(tmp_path: Path, magic: bytes) -> None:
    file = tmp_path / "other"
    file.write_bytes(magic + b"\n\n\nabc")
    assert count_events(file) is None


def test_samples_hold_the_events_they_say_and_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = [sample._replace(events=max(sample.members, sample.events // 1000)) for sample in samples.SAMPLES]
    monkeypatch.setattr(samples, "SAMPLES", small)
    folder = generate(tmp_path / "samples")
    files = {sample.name: folder / sample.name for sample in small}
    assert {name: count_events(file) for name, file in files.items()} == {s.name: s.events for s in small}
    assert {file for file in folder.rglob("*") if file.is_file()} == set(files.values())
    made = {file: file.stat().st_mtime_ns for file in files.values()}
    generate(folder)
    assert {file: file.stat().st_mtime_ns for file in files.values()} == made


def test_an_interrupted_generation_leaves_nothing_that_would_be_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_kind: str, _events: int, target: Path, **_options: int) -> int:
        target.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(samples, "SAMPLES", [Sample("a.log", "access", 3)])
    monkeypatch.setattr(samples, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        generate(tmp_path / "samples")
    assert [file for file in (tmp_path / "samples").rglob("*") if file.is_file()] == []
