"""The command line against the deployed stack, as a user would type it."""

from pathlib import Path

from tests.e2e.conftest import World


def test_dropped_files_are_followed_found_and_not_ingested_twice(world: World, tmp_path: Path) -> None:
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "one.log").write_bytes(b"".join(b"quokka %d\n" % i for i in range(300)))
    (tmp_path / "web" / "two words+.log").write_bytes(b"another quokka\n")
    first = world.logflume("drop", str(tmp_path / "web"))
    assert sorted(file["events"] for file in first["files"]) == [1, 300]
    assert first["ok"]
    again = world.logflume("drop", str(tmp_path / "web"))
    assert [file["uploaded"] for file in again["files"]] == [False, False]
    found = world.logflume("search", "quokka", "--size", "5")
    assert found["total"] == 301
    assert len(found["hits"]) == 5
    status = world.logflume("status")
    ids = {file["object_id"] for file in first["files"]}
    ours = [item for item in status["ledger"] if item["id"] in ids]
    assert [item["status"] for item in ours] == ["done", "done"]


def test_a_damaged_file_makes_the_command_fail_and_say_why(world: World, tmp_path: Path) -> None:
    (tmp_path / "no gzip.log.gz").write_bytes(b"\x1f\x8b\x08\x00torn")
    answer = world.logflume("drop", str(tmp_path / "no gzip.log.gz"), status=1)
    (file,) = answer["files"]
    assert not answer["ok"]
    assert "truncated" in file["error"] or "corrupt" in file["error"]
