"""The command line against the deployed stack, as a user would type it."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from infra.local.cloud import HOME_VARIABLE
from infra.local.localstack import PORT_VARIABLE as AWS_PORT
from infra.local.opensearch import PORT_VARIABLE as OPENSEARCH_PORT
from infra.local.paths import REPOSITORY
from tests.e2e.conftest import World


def logflume(world: World, *arguments: str, status: int = 0) -> Any:
    """Run the command with --json; what it printed."""
    environment = {
        **os.environ,
        HOME_VARIABLE: str(world.cloud.home),
        AWS_PORT: str(world.cloud.ports.aws),
        OPENSEARCH_PORT: str(world.cloud.ports.opensearch),
        "LOGFLUME_DEPLOYMENT": world.deployment.name,
    }
    done = subprocess.run(
        [REPOSITORY / ".venv/bin/logflume", *arguments, "--json"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def test_dropped_files_are_followed_found_and_not_ingested_twice(world: World, tmp_path: Path) -> None:
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "one.log").write_bytes(b"".join(b"quokka %d\n" % i for i in range(300)))
    (tmp_path / "web" / "two words+.log").write_bytes(b"another quokka\n")
    first = logflume(world, "drop", str(tmp_path / "web"))
    assert sorted(file["events"] for file in first["files"]) == [1, 300]
    assert first["ok"]
    again = logflume(world, "drop", str(tmp_path / "web"))
    assert [file["uploaded"] for file in again["files"]] == [False, False]
    found = logflume(world, "search", "quokka", "--size", "5")
    assert found["total"] == 301
    assert len(found["hits"]) == 5
    status = logflume(world, "status")
    ids = {file["object_id"] for file in first["files"]}
    ours = [item for item in status["ledger"] if item["id"] in ids]
    assert [item["status"] for item in ours] == ["done", "done"]


def test_a_damaged_file_makes_the_command_fail_and_say_why(world: World, tmp_path: Path) -> None:
    (tmp_path / "no gzip.log.gz").write_bytes(b"\x1f\x8b\x08\x00torn")
    answer = logflume(world, "drop", str(tmp_path / "no gzip.log.gz"), status=1)
    (file,) = answer["files"]
    assert not answer["ok"]
    assert "truncated" in file["error"] or "corrupt" in file["error"]
