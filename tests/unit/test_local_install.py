"""Installing the local cloud's tools: once, never half, and with a clear word on what is missing."""

import shutil
from pathlib import Path

import pytest

from infra.local import install
from infra.local.errors import LocalCloudError
from infra.local.install import Piece
from infra.local.java import examine


def piece(place: Path, *inputs: str | Path, content: str = "built") -> Piece:
    def build(target: Path) -> None:
        (target / "file").write_text(content)

    return Piece("a piece", place, inputs, build)


def test_an_installed_piece_is_complete_until_its_inputs_change(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text("version 1")
    subject = piece(tmp_path / "tool", lock)
    assert not subject.complete()
    subject.install()
    assert subject.complete()
    lock.write_text("version 2")
    assert not subject.complete()


@pytest.mark.parametrize("change", ["content", "name", "new", "gone"])
def test_any_change_in_a_folder_of_inputs_counts(tmp_path: Path, change: str) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "a.py").write_text("a")
    (sources / "b.py").write_text("b")
    before = piece(tmp_path / "tool", sources).stamp
    match change:
        case "content":
            (sources / "a.py").write_text("A")
        case "name":
            (sources / "a.py").rename(sources / "c.py")
        case "new":
            (sources / "c.py").write_text("c")
        case "gone":
            (sources / "b.py").unlink()
    assert piece(tmp_path / "tool", sources).stamp != before


def test_compiled_python_beside_the_inputs_does_not_count(tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    (sources / "__pycache__").mkdir(parents=True)
    before = piece(tmp_path / "tool", sources).stamp
    (sources / "__pycache__" / "a.pyc").write_bytes(b"x")
    assert piece(tmp_path / "tool", sources).stamp == before


def test_an_installation_that_breaks_off_leaves_what_was_there_and_does_not_look_complete(tmp_path: Path) -> None:
    place = tmp_path / "tool"
    piece(place, "1", content="old").install()

    def break_off(target: Path) -> None:
        (target / "file").write_text("half")
        raise KeyboardInterrupt

    broken = Piece("a piece", place, ("2",), break_off)
    with pytest.raises(KeyboardInterrupt):
        broken.install()
    assert not broken.complete()
    assert (place / "file").read_text() == "old"


def test_a_half_built_piece_of_before_is_built_from_scratch(tmp_path: Path) -> None:
    place = tmp_path / "tool"
    leftover = tmp_path / ".tool.partial"
    leftover.mkdir()
    (leftover / "litter").write_text("half")
    piece(place, "1").install()
    assert sorted(path.name for path in place.iterdir()) == [install.STAMP, "file"]


def test_every_missing_prerequisite_is_named_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name in ("mvn", "node") else f"/bin/{name}")
    with pytest.raises(LocalCloudError) as raised:
        install._require(["mvn", "java", "node", "mvn"])
    assert str(raised.value).count("Maven (Debian: apt-get install maven") == 1
    assert "Node.js" in str(raised.value)


def test_a_tool_that_fails_shows_the_command_and_its_last_words() -> None:
    with pytest.raises(LocalCloudError, match=r"exit status 3.*sh -c(.|\n)*it broke"):
        install._run(["sh", "-c", "echo it broke; exit 3"])


@pytest.mark.parametrize(
    ("specification", "modules", "locales", "expected"),
    [
        ("25.0.2", "java.base@25 jdk.incubator.vector@25", "en_US, th_TH", (25, True, True)),
        ("21", "java.base@21", "en_US", (21, False, False)),
        ("1.8.0_412", "", "th_TH", (8, False, True)),
    ],
)
def test_a_java_home_is_asked_for_its_version_its_modules_and_its_languages(
    tmp_path: Path, specification: str, modules: str, locales: str, expected: tuple[int, bool, bool]
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        f"#!/bin/sh\ncase $1 in --list-modules) echo {modules};;"
        f" *) echo 'openjdk version \"{specification}\"\n    available locales = {locales}' >&2;; esac\n"
    )
    java.chmod(0o755)
    found = examine(tmp_path)
    assert found is not None
    assert (found.version, "jdk.incubator.vector" in found.modules, found.thai) == expected


def test_a_java_home_that_does_not_run_is_none(tmp_path: Path) -> None:
    assert examine(tmp_path) is None
