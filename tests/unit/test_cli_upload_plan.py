"""Which file gets which key."""

import os
from pathlib import Path

import pytest

from infra.cli.errors import CommandError
from infra.cli.upload import plan


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())


def keys(*paths: Path, prefix: str = "drop/") -> list[str]:
    return [planned.key for planned in plan(paths, prefix)]


def test_a_file_keeps_its_name_not_the_way_to_it(tmp_path: Path) -> None:
    make(tmp_path, "deep/down/a.log")
    assert keys(tmp_path / "deep/down/a.log") == ["drop/a.log"]


def test_a_folder_keeps_its_name_and_structure(tmp_path: Path) -> None:
    make(tmp_path, "logs/web/b.log", "logs/a.log", "logs/web/deeper/c.log")
    assert keys(tmp_path / "logs") == ["drop/logs/a.log", "drop/logs/web/b.log", "drop/logs/web/deeper/c.log"]


def test_this_folder_has_no_name_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "a.log", "web/b.log")
    monkeypatch.chdir(tmp_path)
    assert keys(Path()) == ["drop/a.log", "drop/web/b.log"]
    monkeypatch.chdir(tmp_path / "web")
    assert keys(Path("..")) == ["drop/a.log", "drop/web/b.log"]


def test_spaces_plus_signs_and_unicode_stay_in_the_key(tmp_path: Path) -> None:
    make(tmp_path, "a b+ü.log")
    assert keys(tmp_path / "a b+ü.log") == ["drop/a b+ü.log"]


def test_hidden_and_empty_files_are_files(tmp_path: Path) -> None:
    make(tmp_path, ".hidden")
    (tmp_path / "empty").touch()
    planned = plan([tmp_path], "")
    assert [(file.key.rpartition("/")[2], file.size) for file in planned] == [(".hidden", 7), ("empty", 0)]


def test_a_file_named_twice_is_dropped_once(tmp_path: Path) -> None:
    make(tmp_path, "a.log")
    assert keys(tmp_path / "a.log", tmp_path / "." / "a.log") == ["drop/a.log"]


def test_two_files_for_one_key_are_refused(tmp_path: Path) -> None:
    make(tmp_path, "x/app.log", "y/app.log")
    with pytest.raises(CommandError, match=r"x/app\.log and .*y/app\.log would both become drop/app\.log"):
        plan([tmp_path / "x/app.log", tmp_path / "y/app.log"], "drop/")


def test_a_missing_file_and_a_folder_without_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="there is no such file"):
        plan([tmp_path / "missing.log"], "")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CommandError, match="no files in this folder"):
        plan([tmp_path / "empty"], "")


def test_a_pipe_is_no_file_to_drop(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CommandError, match="no file or folder"):
        plan([tmp_path / "pipe"], "")


def test_a_name_that_is_no_utf8_cannot_be_a_key(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff.log")).touch()
    with pytest.raises(CommandError, match="no UTF-8"):
        plan([tmp_path], "")


def test_a_key_may_have_1024_bytes_and_no_more(tmp_path: Path) -> None:
    make(tmp_path, "a" * 100)
    prefix = "p" * 923 + "/"
    assert len(keys(tmp_path / ("a" * 100), prefix=prefix)[0]) == 1024
    with pytest.raises(CommandError, match="1025 bytes"):
        plan([tmp_path / ("a" * 100)], "ü" + prefix[1:])


def test_a_refusal_shows_control_characters_as_escapes(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as refused:
        plan([tmp_path / "\x1b[31m"], "")
    assert str(refused.value).isprintable()
