"""Commands against S3, SQS and DynamoDB (moto) and a fake OpenSearch, a stand-in for the functions between them."""

import gzip
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from infra.cli import drop, run, status, upload
from infra.cli.deployment import Deployment
from infra.cli.follow import Follower
from infra.cli.main import app
from infra.cli.rates import Rates
from infra.cli.upload import PART_BYTES, SHA256
from tests.fakes.deployment import Functions, fake_deployment
from tests.fakes.event_sources import refused


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch) -> Iterator[Functions]:
    """The functions of a deployment that every command finds; they work while a command sleeps."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "LOGFLUME_DEBUG", "LOGFLUME_TARGET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("NO_COLOR", "1")
    with fake_deployment() as functions:
        monkeypatch.setattr(Deployment, "find", lambda _target, _name: functions.deployment)
        monkeypatch.setattr(drop, "Follower", partial(Follower, sleep=functions.work))
        yield functions


@pytest.fixture
def deployment(functions: Functions) -> Deployment:
    return functions.deployment


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A folder of files: 3 + 2 + 0 events, names that are not easy."""
    folder = tmp_path / "logs"
    (folder / "web").mkdir(parents=True)
    (folder / "web" / "access log+1.gz").write_bytes(gzip.compress(b"one\ntwo\n\n") + gzip.compress(b"three"))
    (folder / "app.log").write_bytes(b"four\nfive\n")
    (folder / "empty.log").touch()
    return folder


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Any, str]]:
    """Run a command line; its exit status, standard output (decoded, with --json) and standard error."""

    def run_command(*arguments: object) -> tuple[int, Any, str]:
        with pytest.raises(SystemExit) as ended:
            app([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        output = json.loads(printed.out) if "--json" in arguments and printed.out else printed.out
        return int(ended.value.code or 0), output, printed.err

    return run_command


@pytest.mark.usefixtures("functions")
def test_a_folder_is_dropped_and_followed_until_every_event_is_searchable(
    deployment: Deployment, logs: Path, command: Any
) -> None:
    code, report, _ = command("drop", logs, "--prefix", "/host 1/", "--json")
    assert (code, report["ok"], report["events"], report["searchable"]) == (0, True, 5, 5)
    assert {file["key"]: (file["state"], file["events"], file["bytes_raw"]) for file in report["files"]} == {
        "drop/host 1/logs/app.log": ("indexed", 2, 10),
        "drop/host 1/logs/empty.log": ("indexed", 0, 0),
        "drop/host 1/logs/web/access log+1.gz": ("indexed", 3, 14),
    }
    assert all(file["uploaded"] and file["seconds"] > 0 for file in report["files"])
    body = deployment.s3.get_object(Bucket="drop-bucket", Key="drop/host 1/logs/app.log")
    assert body["Body"].read() == b"four\nfive\n"


@pytest.mark.usefixtures("functions")
def test_files_are_told_in_the_order_they_were_named(logs: Path, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drop, "upload", lambda *arguments: reversed(list(upload.upload(*arguments))))
    named = [logs / "empty.log", logs / "app.log"]
    _, report, _ = command("drop", *named, "--json")
    assert [file["path"] for file in report["files"]] == [str(path) for path in named]


def test_the_same_bytes_are_uploaded_once(functions: Functions, logs: Path, command: Any) -> None:
    command("drop", logs)
    assert functions.puts == 3
    code, shown, _ = command("drop", logs)
    assert (code, functions.puts) == (0, 3)
    assert "3 files already ingested: nothing to do" in shown
    assert "5 events read, 5 searchable" in shown
    code, report, _ = command("drop", logs, "--json")
    assert [file["uploaded"] for file in report["files"]] == [False] * 3
    assert [file["seconds"] for file in report["files"]] == [None] * 3


def test_other_bytes_of_the_same_length_are_another_object(functions: Functions, logs: Path, command: Any) -> None:
    command("drop", logs / "app.log")
    (logs / "app.log").write_bytes(b"FOUR\nFIVE\n")
    code, report, _ = command("drop", logs / "app.log", "--json")
    assert (code, functions.puts) == (0, 2)
    assert report["files"][0]["uploaded"]


def test_bytes_that_the_ledger_does_not_know_are_uploaded_again_as_the_same_object(
    functions: Functions, deployment: Deployment, tmp_path: Path, command: Any
) -> None:
    large = tmp_path / "large.log"
    large.write_bytes(b"a line of text\n" * (PART_BYTES // 15 + 1))
    functions.troubles = {"large.log": "ignored"}
    _, first, _ = command("drop", large, "--no-wait", "--json")
    etag = deployment.s3.head_object(Bucket="drop-bucket", Key="drop/large.log")["ETag"]
    assert etag.endswith('-2"')
    functions.troubles = {}
    code, second, _ = command("drop", large, "--json")
    assert (code, functions.puts) == (0, 4)
    assert second["files"][0]["object_id"] == first["files"][0]["object_id"]
    assert second["searchable"] == PART_BYTES // 15 + 1


def test_without_waiting_files_are_only_uploaded(functions: Functions, logs: Path, command: Any) -> None:
    code, report, _ = command("drop", logs, "--no-wait", "--json")
    assert (code, report["searchable"]) == (0, None)
    assert {file["state"] for file in report["files"]} == {"uploaded"}
    assert functions.opensearch.requests == []
    functions.work()
    code, report, _ = command("drop", logs, "--no-wait", "--json")
    assert (code, {file["state"] for file in report["files"]}) == (0, {"done"})


def test_a_damaged_file_fails_with_its_reason_and_the_others_arrive(
    functions: Functions, logs: Path, command: Any
) -> None:
    functions.troubles = {"app.log": "damaged"}
    code, report, _ = command("drop", logs, "--json")
    assert (code, report["ok"], report["searchable"]) == (1, False, 5)
    assert [file["state"] for file in report["files"]] == ["failed", "indexed", "indexed"]
    assert report["files"][0]["error"] == "truncated: the object ends early \x1b[31m"
    code, shown, _ = command("drop", logs)
    assert code == 1
    assert r"the object ends early \x1b[31m" in shown
    assert command("drop", logs, "--no-wait")[0] == 1


def test_refused_events_are_accounted_for_and_are_a_failure(functions: Functions, logs: Path, command: Any) -> None:
    functions.troubles = {"app.log": "refused"}
    code, report, _ = command("drop", logs / "app.log", "--json")
    (file,) = report["files"]
    assert (code, file["events"], file["indexed"], file["dead_lettered"]) == (1, 2, 1, 1)


def test_what_nobody_reads_is_given_up_with_advice(functions: Functions, logs: Path, command: Any) -> None:
    functions.troubles = {"app.log": "ignored"}
    clock = iter(range(0, 10_000, 20))
    drop.Follower.keywords["clock"] = lambda: float(next(clock))  # type: ignore[attr-defined]
    code, report, told = command("drop", logs, "--json")
    assert (code, report["ok"]) == (1, False)
    assert "gave up after 3 min" in told
    assert "1 object waiting: no reader has taken them up" in told
    assert len(report["stalled"]) == 1


def test_ctrl_c_says_what_goes_on_by_itself(functions: Functions, logs: Path, command: Any) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    drop.Follower.keywords["sleep"] = interrupt  # type: ignore[attr-defined]
    code, shown, told = command("drop", logs)
    assert (code, shown) == (drop.INTERRUPTED, "")
    assert "3 of 3 files uploaded" in told
    assert "logflume status" in told
    assert functions.puts == 3


def test_uploads_that_nobody_waits_for_any_more_are_broken_off(
    functions: Functions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second_may_go_on = Event()

    class Pool(ThreadPoolExecutor):
        def __init__(self, _threads: int, **options: str) -> None:
            super().__init__(1, **options)

        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            second_may_go_on.set()
            super().shutdown(wait)

    def hold_back(params: dict[str, Any], **_: object) -> None:
        if "second" in params["url_path"]:
            second_may_go_on.wait()

    for name in ("1-first", "2-second", "3-third"):
        (tmp_path / name).write_bytes(b"x\n")
    monkeypatch.setattr(upload, "ThreadPoolExecutor", Pool)
    functions.deployment.s3.meta.events.register("before-call.s3.PutObject", hold_back)
    done: list[int] = []
    outcomes = upload.upload(functions.deployment, upload.plan([tmp_path], ""), done.append)
    next(outcomes)
    outcomes.close()  # type: ignore[attr-defined]
    assert done == [2]
    assert functions.puts == 2


@pytest.mark.usefixtures("functions")
def test_a_file_that_cannot_be_uploaded_does_not_stop_the_others(
    deployment: Deployment, logs: Path, command: Any
) -> None:
    def refuse(params: dict[str, Any], **_: object) -> None:
        if "app.log" in params["url_path"]:
            raise OSError("the disk is gone")

    deployment.s3.meta.events.register("before-call.s3.PutObject", refuse)
    code, report, told = command("drop", logs, "--json")
    assert (code, len(report["files"])) == (1, 2)
    assert [(failed["key"], failed["error"]) for failed in report["not_uploaded"]] == [
        ("drop/logs/app.log", "the disk is gone")
    ]
    assert "not uploaded: " in told


@pytest.mark.usefixtures("functions")
def test_a_bucket_that_is_gone_is_said_for_each_file(deployment: Deployment, logs: Path, command: Any) -> None:
    deployment.s3.delete_bucket(Bucket="drop-bucket")
    code, report, _ = command("drop", logs, "--json")
    assert code == 1
    assert [failed["error"].split(":")[0] for failed in report["not_uploaded"]] == [
        "AWS refused PutObject (NoSuchBucket)"
    ] * 3


@pytest.mark.usefixtures("functions")
def test_the_digest_is_kept_with_the_object(deployment: Deployment, logs: Path, command: Any) -> None:
    command("drop", logs / "empty.log")
    head = deployment.s3.head_object(Bucket="drop-bucket", Key="drop/empty.log")
    assert head["Metadata"] == {SHA256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}


def test_status_shows_the_ledger_newest_first_and_what_is_wrong(
    functions: Functions, deployment: Deployment, logs: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "recent_rates", lambda _deployment: Rates(120, 2.0, 500.0, 900.0))
    assert "nothing was dropped yet" in command("status")[1]
    functions.troubles = {"app.log": "damaged"}
    command("drop", logs)
    deployment.sqs.send_message(QueueUrl=deployment["DlqUrl"], MessageBody="x")
    code, shown, _ = command("status")
    assert code == 0
    assert "2 done, 1 failed · 5 events, 24 B raw" in shown
    assert "dead-letter queue 1" in shown
    assert "120 events, 2 events/s in the busiest minute · lag p50 0.5 s, p95 0.9 s" in shown
    assert r"logs/app.log" in shown
    assert r"the object ends early \x1b[31m" in shown
    assert "logs/empty.log" not in command("status", "--failed")[1]
    _, report, _ = command("status", "--json")
    assert report["objects"] == {"done": 2, "failed": 1}
    assert {(item["key"], item["status"], item["events"]) for item in report["ledger"]} == {
        ("drop/logs/app.log", "failed", 2),
        ("drop/logs/empty.log", "done", 0),
        ("drop/logs/web/access log+1.gz", "done", 3),
    }


@pytest.mark.usefixtures("functions")
def test_status_shows_what_it_knows_where_cloudwatch_does_not_answer(
    deployment: Deployment, logs: Path, command: Any
) -> None:
    def refuse(**_: object) -> None:
        raise refused("Throttling", "GetMetricData", "Rate exceeded")

    deployment.cloudwatch.meta.events.register("before-call.cloudwatch", refuse)
    command("drop", logs)
    code, shown, _ = command("status")
    assert (code, "3 done" in shown, "indexed   not known" in shown) == (0, True, True)
    code, report, _ = command("status", "--json")
    assert (code, report["objects"], report["indexed"], report["alarms"]) == (0, {"done": 3}, None, None)


def test_an_audit_that_cannot_ask_opensearch_does_not_say_that_anything_differs(
    functions: Functions, logs: Path, command: Any
) -> None:
    command("drop", logs)
    secret = {"OpenSearchAuth": "basic", "OpenSearchSecretArn": "arn:aws:secretsmanager:us-east-1:1:secret:gone"}
    vars(functions.deployment)["outputs"] |= secret
    vars(functions.deployment).pop("search_client")
    code, _, said = command("audit")
    assert (code, "cannot be read" in said) == (2, True)


def test_status_says_that_there_are_more_objects_than_shown(
    functions: Functions, logs: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "recent_rates", lambda _deployment: Rates())
    monkeypatch.setattr(status, "ROWS", 2)
    command("drop", logs)
    assert functions.puts == 3
    assert "the newest 2 of 3 objects" in command("status")[1]
    shown = command("status", "--all")[1]
    assert "the newest" not in shown
    assert len([line for line in shown.splitlines() if line.startswith("logs/")]) == 3


@pytest.fixture
def local_cloud(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_deploy", lambda _name: deployment)
    monkeypatch.setattr(run.shutil, "which", lambda _name: None)


@pytest.mark.usefixtures("local_cloud")
def test_run_shows_that_every_line_is_searchable_and_does_nothing_twice(
    functions: Functions, logs: Path, command: Any
) -> None:
    code, shown, _ = command("run", logs)
    assert code == 0
    assert "5 lines dropped, 5 searchable" in shown
    assert '"message": "four"' in shown
    assert "/bin/logflume search message:four -n 3" in shown
    assert "make stop" in shown
    code, shown, _ = command("run", logs)
    assert (code, functions.puts) == (0, 3)
    assert "all of it was ingested before: nothing was ingested twice" in shown


@pytest.mark.usefixtures("local_cloud")
def test_run_fails_when_fewer_events_are_searchable_than_lines_were_dropped(
    functions: Functions, logs: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run.samples, "count_events", lambda _path: 6)
    code, shown, _ = command("run", logs / "app.log")
    assert (code, functions.puts) == (1, 1)
    assert "6 lines dropped, 2 searchable" in shown
    assert "app.log: 6 lines, 2 searchable" in shown
    code, report, _ = command("run", logs / "app.log", "--json")
    assert (code, report["ok"], report["lines"], report["searchable"]) == (1, False, 6, 2)


@pytest.mark.usefixtures("local_cloud", "functions")
def test_run_compares_only_what_it_could_count(logs: Path, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"app.log": None, "empty.log": 0, "access log+1.gz": 3}
    monkeypatch.setattr(run.samples, "count_events", lambda path: counts[path.name])
    code, shown, _ = command("run", logs)
    assert code == 0
    assert "3 lines dropped, 3 searchable" in shown
    assert "app.log: damaged or not gzip's; 2 events searchable" in shown


@pytest.mark.usefixtures("local_cloud", "functions")
def test_run_finds_a_mistake_in_the_paths_before_it_starts_anything(
    tmp_path: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_deploy", lambda _name: pytest.fail("it was started"))
    code, shown, told = command("run", tmp_path / "missing.gz")
    assert (code, shown) == (1, "")
    assert "there is no such file" in told
