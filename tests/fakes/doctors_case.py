"""A healthy deployment that answers every question of `logflume doctor`; a test makes it ill in one place."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec

from infra.cli.checks.templates import RESOURCE_TYPE
from infra.cli.deployment import Deployment
from infra.config.settings import CONFIG_DIR
from infra.monitoring.alarms import ALARMS, alarms
from logflume import sources
from logflume.templates import Options, plan
from tests.fakes.event_sources import FakeLambda, refused

QUEUE, DLQ = "arn:aws:sqs:us-east-1:1:queue", "arn:aws:sqs:us-east-1:1:dlq"
NOW = 1_800_000_000
DATE = "Fri, 15 Jan 2027 08:00:00 GMT"  # the same


class DoctorsCase:
    """`answers` are AWS's by operation, `search` OpenSearch's by path; `denied` operations are refused."""

    def __init__(self) -> None:
        options = Options(deployment="blue", index_prefix="logs", retention_days=30)
        self.plan = plan(sources.load(CONFIG_DIR / "pipeline.toml"), options)
        self.lambda_ = FakeLambda()
        self.lambda_.mappings["reader"]["ScalingConfig"] = {"MaximumConcurrency": 20}
        self.lambda_.mappings["indexer"]["ParallelizationFactor"] = 2
        self.lambda_.account = {"AccountLimit": {"UnreservedConcurrentExecutions": 1_000}}
        self.denied: set[str] = set()
        self.outputs = {
            "DropBucket": "drop-bucket",
            "DropPrefix": "drop/",
            "QueueUrl": "https://queue",
            "DlqUrl": "https://dlq",
            "LedgerTable": "ledger",
            "StreamName": "stream",
            "DeadLetterBucket": "dead-letters",
            "ReaderFunction": "reader",
            "IndexerFunction": "indexer",
            "ReaderEventSource": "reader",
            "IndexerEventSource": "indexer",
            "ReaderLogGroup": "/reader",
            "IndexerLogGroup": "/indexer",
            "OpenSearchEndpoint": "https://search",
            "OpenSearchAuth": "es",
            "IndexPrefix": "logs",
        }
        self.lambda_.functions = {
            "reader": self._function("LEDGER_TABLE", "STREAM_NAME", "QUEUE_URL", "DLQ_URL", "INDEX_PREFIX"),
            "indexer": self._function("OPENSEARCH_ENDPOINT", "OPENSEARCH_AUTH", "DEADLETTER_BUCKET", "LEDGER_TABLE"),
        }
        statement = {
            "Effect": "Allow",
            "Principal": {"Service": "s3.amazonaws.com"},
            "Action": "sqs:SendMessage",
        }
        self.queue = {
            "QueueArn": QUEUE,
            "Policy": json.dumps({"Statement": [{"Effect": "Deny", "Principal": "*"}, statement]}),
            "RedrivePolicy": json.dumps({"deadLetterTargetArn": DLQ, "maxReceiveCount": 10}),
            "ApproximateNumberOfMessages": "3",
        }
        self.dlq = {"QueueArn": DLQ, "ApproximateNumberOfMessages": "0"}
        template = {"Resources": {"Templates": {"Type": RESOURCE_TYPE, "Properties": {}}}}
        template["Resources"]["Templates"]["Properties"]["Plan"] = msgspec.json.encode(self.plan).decode()
        self.logs: dict[str, list[dict[str, Any]]] = {}
        self.answers: dict[str, Any] = {
            "get_caller_identity": {
                "Arn": "arn:aws:iam::1:user/me",
                "ResponseMetadata": {"HTTPHeaders": {"date": DATE}},
            },
            "describe_stacks": {"Stacks": [{"StackStatus": "UPDATE_COMPLETE"}]},
            "get_template": {"TemplateBody": template},
            "get_bucket_notification_configuration": {
                "QueueConfigurations": [
                    {
                        "QueueArn": QUEUE,
                        "Events": ["s3:ObjectCreated:*"],
                        "Filter": {"Key": {"FilterRules": [{"Name": "Prefix", "Value": "drop/"}]}},
                    }
                ]
            },
            "describe_rule": {
                "State": "ENABLED",
                "EventPattern": json.dumps({"detail": {"bucket": {"name": ["drop-bucket"]}}}),
            },
            "list_targets_by_rule": {"Targets": [{"Id": "Queue", "Arn": QUEUE}]},
            "list_objects_v2": {"CommonPrefixes": [{"Prefix": "dropped/"}]},
            "describe_stream_summary": {"StreamDescriptionSummary": {"StreamStatus": "ACTIVE", "OpenShardCount": 4}},
            "describe_table": {"Table": {"TableStatus": "ACTIVE"}},
            "describe_limits": {
                "OpenShardCount": 4,
                "ShardLimit": 200,
                "OnDemandStreamCount": 1,
                "OnDemandStreamCountLimit": 50,
            },
            "describe_alarms": {
                "MetricAlarms": [{"AlarmName": alarm.of("blue"), "StateValue": "OK"} for alarm in ALARMS]
            },
        }
        self.search: dict[str, Any] = {
            "/": {"version": {"distribution": "opensearch", "number": "3.7.0"}},
            "/_cluster/health": {
                "status": "green",
                "number_of_nodes": 3,
                "number_of_data_nodes": 3,
                "active_shards": 40,
            },
            "/_cat/allocation": [{"node": "a", "disk.percent": "41"}, {"node": "UNASSIGNED", "disk.percent": None}],
            "/_cluster/settings": {"defaults": {"cluster.max_shards_per_node": "1000"}},
            "/logs-*/_settings/index.blocks.*": {},
            "/_index_template/logflume-blue.*": {
                "index_templates": [
                    {"name": name, "index_template": body} for name, body in self.plan.templates.items()
                ]
            },
            **{
                f"/_index_template/_simulate_index/{body['index_patterns'][0].replace('*', '2099.01.01')}": {
                    "template": body["template"]
                }
                for body in self.plan.templates.values()
            },
            **{f"/_plugins/_ism/policies/{name}": {} for name in self.plan.policies},
        }
        session: Any = SimpleNamespace(client=self._client, region_name="us-east-1")
        self.deployment = Deployment("blue", "aws", self.outputs, session)
        vars(self.deployment).update(lambda_=self._client("lambda"), opensearch=self._ask)

    def with_http_source(self) -> None:
        """Have the HTTP source on."""
        self.outputs |= {"HttpSourceFunction": "http_source", "HttpSourceLogGroup": "/http_source"}
        self.lambda_.functions["http_source"] = self._function("LEDGER_TABLE", "STREAM_NAME", "INDEX_PREFIX")
        states = [{"AlarmName": alarm.of("blue"), "StateValue": "OK"} for alarm in alarms(http=True)]
        self.answers["describe_alarms"]["MetricAlarms"] = states

    def variables(self, function: str) -> dict[str, str]:
        """The environment of a function."""
        found: dict[str, str] = self.lambda_.functions[function]["Environment"]["Variables"]
        return found

    def say(self, function: str, **line: Any) -> None:
        """Have a function write a line of JSON."""
        lines = self.logs.setdefault(f"/{function}", [])
        lines.append({"timestamp": NOW * 1000, "eventId": f"{function}{len(lines)}", "message": json.dumps(line)})

    def _function(self, *names: str) -> dict[str, Any]:
        titles = {
            "DLQ_URL": "DlqUrl",
            "OPENSEARCH_ENDPOINT": "OpenSearchEndpoint",
            "OPENSEARCH_AUTH": "OpenSearchAuth",
            "DEADLETTER_BUCKET": "DeadLetterBucket",
        }
        found = {f"LOGFLUME_{name}": self.outputs[titles.get(name, name.title().replace("_", ""))] for name in names}
        return {"State": "Active", "LastUpdateStatus": "Successful", "Environment": {"Variables": found}}

    def _client(self, _service: str, **_options: Any) -> Any:
        return _Client(self)

    def _ask(self, _method: str, path: str, _body: object = None, **_params: str) -> tuple[int, Any]:
        answer = self.search.get(path, {"error": "no such thing"})
        if isinstance(answer, Exception):
            raise answer
        return (200 if path in self.search else 404), answer

    def answer(self, operation: str, request: dict[str, Any]) -> Any:
        """AWS's answer."""
        if operation in self.denied or "*" in self.denied:
            raise refused("AccessDeniedException", operation)
        if operation == "get_queue_attributes":
            return {"Attributes": self.queue if request["QueueUrl"] == "https://queue" else self.dlq}
        if operation == "filter_log_events":
            return {"events": self.logs.get(request["logGroupName"], [])}
        if hasattr(FakeLambda, operation):
            return getattr(self.lambda_, operation)(**request)
        found = self.answers[operation]
        if isinstance(found, Exception):
            raise found
        return found


class _Client:
    """Any client of AWS's, answering as the case says."""

    def __init__(self, case: DoctorsCase) -> None:
        self._case = case

    def get_paginator(self, operation: str) -> Any:
        case = self._case
        return SimpleNamespace(paginate=lambda **request: [case.answer(operation, request)])

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        return lambda **request: self._case.answer(operation, request)
