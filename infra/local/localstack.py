"""LocalStack and the two servers it forwards to, DynamoDB Local and kinesis-local, as services."""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from infra.local import paths
from infra.local.java import Java
from infra.local.service import Service, accepts, free_port, http_ok

NAME = "localstack"
DYNAMODB_NAME = "dynamodb"
KINESIS_NAME = "kinesis"
PORT_VARIABLE = "LOGFLUME_LOCAL_AWS_PORT"
# A file: every request that a function makes is noted there (infra/local/recorder).
RECORD_VARIABLE = "LOGFLUME_LOCAL_RECORD_CALLS"
# LocalStack's own: with "1" a test may make its services refuse while it runs.
UPDATES_VARIABLE = "ENABLE_CONFIG_UPDATES"

# The services that the deployment uses, as LocalStack names them: loaded at start instead of by the first deployment.
AWS_SERVICES = (
    *("s3", "sqs", "sns", "dynamodb", "kinesis", "lambda", "events", "cloudformation", "ssm", "iam", "sts"),
    *("cloudwatch", "logs", "secretsmanager", "kms"),
)

REGION = "us-east-1"
KEY = "test"  # LocalStack takes any key pair; this one stands for account 000000000000


class Backends(NamedTuple):
    """The ports that LocalStack forwards to; any free ones, since nobody else uses them."""

    dynamodb: int
    kinesis: int

    @classmethod
    def choose(cls) -> "Backends":
        """Ports that are free now."""
        return cls(free_port(), free_port())


def dynamodb(home: Path, port: int, java: Java) -> Service:
    """DynamoDB Local in memory; `home` takes the native library that it unpacks."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    return Service(
        name=DYNAMODB_NAME,
        port=port,
        command=[
            paths.LOCALSTACK / "bin" / "python",
            paths.LOCAL / "dynamodb_local_main.py",
            paths.DYNAMODB_LOCAL,
            java.library,
            str(port),
        ],
        healthy=lambda: accepts(port),
        environment={"TMPDIR": str(home)},
    )


def kinesis(port: int) -> Service:
    """kinesis-local in memory, with states that change at once."""
    durations = (
        *("CREATE_STREAM", "DELETE_STREAM", "REGISTER_STREAM_CONSUMER", "DEREGISTER_STREAM_CONSUMER"),
        *("START_STREAM_ENCRYPTION", "STOP_STREAM_ENCRYPTION", "MERGE_SHARDS", "SPLIT_SHARD"),
        *("UPDATE_SHARD_COUNT", "UPDATE_STREAM_MODE"),
    )
    return Service(
        name=KINESIS_NAME,
        port=port,
        command=["node", "--require", paths.LOCAL / "loopback.cjs", paths.KINESIS_LOCAL / "main.js"],
        healthy=lambda: accepts(port),
        environment={
            "KINESIS_MOCK_PLAIN_PORT": str(port),
            "KINESIS_MOCK_TLS_PORT": str(free_port()),
            "KINESIS_MOCK_CERT_PATH": str(paths.KINESIS_LOCAL / "server.json"),
            "AWS_ACCOUNT_ID": "000000000000",
            "SHARD_LIMIT": "100",
            "ON_DEMAND_STREAM_COUNT_LIMIT": "50",
            "LOG_LEVEL": "WARN",
            **{f"{action}_DURATION": "0ms" for action in durations},
        },
    )


def localstack(home: Path, logs: Path, port: int, backends: Backends) -> Service:
    """LocalStack with nothing of an earlier life: it keeps its state in memory, so its files are of no use either."""
    shutil.rmtree(home, ignore_errors=True)
    for folder in ("tmp", "config", "filesystem"):
        (home / folder).mkdir(parents=True)
    return Service(
        name=NAME,
        port=port,
        command=[paths.LOCALSTACK / "bin" / "python", "-m", "localstack.runtime.main"],
        healthy=lambda: http_ok(f"http://127.0.0.1:{port}/_localstack/health") and answers(port),
        environment={
            "FILESYSTEM_ROOT": str(home / "filesystem"),
            "LOCALSTACK_VOLUME_DIR": str(home / "filesystem"),
            "CONFIG_DIR": str(home / "config"),
            "TMPDIR": str(home / "tmp"),
            "GATEWAY_LISTEN": f"127.0.0.1:{port}",
            "LOCALSTACK_HOST": f"127.0.0.1:{port}",
            "OVERRIDE_IN_DOCKER": "0",
            "DNS_ADDRESS": "0",
            # Nothing leaves the machine.
            "SKIP_SSL_CERT_DOWNLOAD": "1",
            "DISABLE_EVENTS": "1",
            "SERVICES": ",".join(AWS_SERVICES),
            "EAGER_SERVICE_LOADING": "1",
            "SQS_ENDPOINT_STRATEGY": "path",
            "DYNAMODB_IN_MEMORY": "1",
            "LOGFLUME_DYNAMODB_PORT": str(backends.dynamodb),
            "LOGFLUME_KINESIS_PORT": str(backends.kinesis),
            "LAMBDA_RUNTIME_EXECUTOR": "process",
            "LOGFLUME_LAMBDA_PYTHON": str(paths.LAMBDA_RUNTIME / "bin" / "python"),
            "LOGFLUME_LAMBDA_LOGS": str(logs),
            **_recording(),
            UPDATES_VARIABLE: os.environ.get(UPDATES_VARIABLE, "0"),
            # An idle event source is polled within a second, not within ten.
            "LAMBDA_EVENT_SOURCE_MAPPING_POLL_INTERVAL_SEC": "0.2",
            "LAMBDA_EVENT_SOURCE_MAPPING_MAX_BACKOFF_ON_EMPTY_POLL_SEC": "1",
            "LAMBDA_EVENT_SOURCE_MAPPING_MAX_BACKOFF_ON_ERROR_SEC": "5",
            "AWS_DEFAULT_REGION": REGION,
        },
        directory=home,
        port_variable=PORT_VARIABLE,
    )


def _recording() -> dict[str, str]:
    file = os.environ.get(RECORD_VARIABLE)
    return {"LOGFLUME_LAMBDA_CALLS": file, "LOGFLUME_LAMBDA_RECORDER": str(paths.RECORDER)} if file else {}


def answers(port: int) -> bool:
    """Whether every service that a deployment needs first answers a request."""
    import boto3  # the command line starts without it
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    url = f"http://127.0.0.1:{port}"
    session = boto3.Session(KEY, KEY, region_name=REGION)
    settings = Config(connect_timeout=2, read_timeout=20, retries={"total_max_attempts": 1})

    try:
        session.client("s3", endpoint_url=url, config=settings).list_buckets()
        session.client("sqs", endpoint_url=url, config=settings).list_queues()
        session.client("dynamodb", endpoint_url=url, config=settings).list_tables()
        session.client("kinesis", endpoint_url=url, config=settings).list_streams()
        session.client("lambda", endpoint_url=url, config=settings).list_functions()
        session.client("cloudformation", endpoint_url=url, config=settings).list_stacks()
    except (BotoCoreError, ClientError):
        return False
    return True
