"""A cloud of its own for the e2e suite: on free ports, deployed by cdk, ended with the session."""

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import urllib3

from infra.cli.deployment import Deployment
from infra.local.cloud import HOME_VARIABLE, LocalCloud, Ports
from infra.local.deploy import deploy
from infra.local.localstack import PORT_VARIABLE as AWS_PORT
from infra.local.localstack import RECORD_VARIABLE, UPDATES_VARIABLE
from infra.local.opensearch import PORT_VARIABLE as OPENSEARCH_PORT
from infra.local.paths import REPOSITORY
from logflume.notifications import ObjectRef

HOME = REPOSITORY / ".logflume" / "e2e"
# What the functions ask of AWS and OpenSearch, for test_zz_permissions.
CALLS = HOME / "calls.jsonl"
# Far longer than anything here takes on a busy machine: it ends a hang, and is no measurement.
PATIENCE_S = 480.0


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


@dataclass
class World:
    """The deployed stack, and what a test does with it."""

    cloud: LocalCloud
    deployment: Deployment
    logs: list[Path] = field(default_factory=list)

    def drop(self, key: str, body: bytes) -> ObjectRef:
        """Put an object into the drop folder."""
        bucket, key = self.deployment["DropBucket"], self.deployment["DropPrefix"] + key
        answer = self.deployment.s3.put_object(Bucket=bucket, Key=key, Body=body)
        return ObjectRef(bucket, key, None, answer["ETag"], len(body))

    def send(self, body: str) -> None:
        """Put a message into the reader's queue."""
        self.deployment.sqs.send_message(QueueUrl=self.deployment["QueueUrl"], MessageBody=body)

    def until[T](self, what: str, look: Callable[[], T | None]) -> T:
        """Look until there is something; on giving up, say what was awaited and where the logs are."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if (found := look()) is not None and found is not False:
                return found
            time.sleep(0.3)
        raise AssertionError(f"waited {PATIENCE_S:.0f} s for {what}; logs are in {self.cloud.home / 'logs'}")

    def ended(self, *refs: ObjectRef) -> list[dict[str, Any]]:
        """The ledger's items once all objects have ended."""

        def look() -> list[dict[str, Any]] | None:
            items = [self.deployment.ledger.get(ref.id) for ref in refs]
            return [item for item in items if item] if all(i and i["status"] != "reading" for i in items) else None

        return self.until(f"the end of {', '.join(map(str, refs))}", look)

    def documents(self, ref: ObjectRef) -> list[dict[str, Any]]:
        """The object's documents in order of their offsets."""
        found: list[dict[str, Any]] = []
        query: dict[str, Any] = {
            "size": 5000,
            "query": {"match": {"log.object_id": ref.id}},
            "sort": [{"log.offset": {"order": "asc", "unmapped_type": "long"}}],
        }
        while True:
            status, answer = self.deployment.opensearch(
                "POST", "/logs-*/_search", query, ignore_unavailable="true", allow_no_indices="true"
            )
            assert status == 200, answer
            hits = answer["hits"]["hits"]
            found += [hit["_source"] for hit in hits]
            if len(hits) < query["size"]:
                return found
            query["search_after"] = hits[-1]["sort"]

    def indexed(self, ref: ObjectRef, count: int) -> list[dict[str, Any]]:
        """The object's documents once there are so many; more are there for the caller to see."""

        def look() -> bool:
            status, answer = self.deployment.opensearch(
                "POST", "/logs-*/_count", {"query": {"match": {"log.object_id": ref.id}}}
            )
            return status == 200 and answer["count"] >= count

        def refreshed() -> bool:
            self.deployment.opensearch("POST", "/logs-*/_refresh")
            return look()

        if count:
            self.until(f"{count} documents of {ref}", refreshed)
        return self.documents(ref)

    def quiet(self) -> None:
        """Wait until the reader's queue is empty, hidden messages included."""

        def look() -> bool:
            names = [f"ApproximateNumberOfMessages{suffix}" for suffix in ("", "NotVisible", "Delayed")]
            found = self.deployment.sqs.get_queue_attributes(
                QueueUrl=self.deployment["QueueUrl"],
                AttributeNames=names,  # type: ignore[arg-type]
            )["Attributes"]
            return not any(int(found[name]) for name in names)

        self.until("an empty queue", look)

    @contextmanager
    def throttled(self) -> Iterator[Callable[[float], None]]:
        """Within, the function that is handed out says which share of all puts Kinesis refuses; behind it, none."""

        def refuse(share: float) -> None:
            change = {"variable": "KINESIS_ERROR_PROBABILITY", "value": share}
            answer = urllib3.request("POST", f"{self.cloud.aws_url}/_localstack/config", json=change)
            assert answer.json() == change

        try:
            yield refuse
        finally:
            refuse(0.0)

    def logflume(self, *arguments: str, status: int = 0) -> Any:
        """Run the command with --json, as a user would type it; what it printed."""
        environment = {
            **os.environ,
            HOME_VARIABLE: str(self.cloud.home),
            AWS_PORT: str(self.cloud.ports.aws),
            OPENSEARCH_PORT: str(self.cloud.ports.opensearch),
            "LOGFLUME_DEPLOYMENT": self.deployment.name,
        }
        done = subprocess.run(
            [REPOSITORY / ".venv/bin/logflume", *arguments, "--json"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == status, done.stderr + done.stdout
        return json.loads(done.stdout)

    def failures(self) -> dict[str, str]:
        """What `logflume doctor` finds broken: check to what it says."""
        answer = self.logflume("doctor", status=1)
        return {one["check"]: one["says"] for one in answer["checks"] if one["verdict"] == "FAIL"}

    def rings(self, *alarms: str) -> None:
        """Wait until these alarms ring in `logflume status`."""

        def look() -> bool:
            states = {alarm["name"]: alarm["state"] for alarm in self.logflume("status")["alarms"]}
            return all(states[alarm] == "ALARM" for alarm in alarms)

        self.until(f"the alarms {', '.join(alarms)}", look)

    def metric(self, service: str, name: str, since: float) -> float:
        """The sum of a metric since then (Unix seconds)."""
        answer = self.deployment.cloudwatch.get_metric_statistics(
            Namespace="Logflume",
            MetricName=name,
            Dimensions=[
                {"Name": "service", "Value": service},
                {"Name": "deployment", "Value": self.deployment.name},
            ],
            StartTime=since,
            EndTime=time.time() + 60,
            Period=1,
            Statistics=["Sum"],
        )
        return sum(point["Sum"] for point in answer["Datapoints"])


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    cloud = LocalCloud(HOME, Ports(*free_ports(2)))
    cloud.down()  # what an interrupted session may have left
    CALLS.unlink(missing_ok=True)
    try:
        with pytest.MonkeyPatch.context() as patch:  # LocalStack is started here
            patch.setenv(RECORD_VARIABLE, str(CALLS))
            patch.setenv(UPDATES_VARIABLE, "1")
            outputs = deploy(cloud, context={"deployment": "e2e"})
        yield World(cloud, Deployment("e2e", "local", outputs, cloud.session(), cloud.aws_url))
    finally:
        cloud.down()
