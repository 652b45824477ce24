"""A real local cloud, started on free ports in a folder of its own: its life, its functions, its faults."""

import io
import json
import os
import time
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
import urllib3

from infra.local.cloud import SERVICES, LocalCloud, Ports
from infra.local.errors import LocalCloudError
from infra.local.process import pids_of
from infra.local.service import free_port

ROLE = "arn:aws:iam::000000000000:role/any"
WAIT_S = 30
EVALUATED_S = 90.0  # alarms are looked at every minute

HANDLER = """
import json, os, time
import a_layer
import boto3

calls = 0

def handler(event, context):
    global calls
    calls += 1
    if event.get("do") == "hang":
        time.sleep(60)
    if event.get("do") == "crash":
        os._exit(3)
    if event.get("do") == "raise":
        raise ValueError("on purpose")
    if event.get("do") == "measure":
        print(json.dumps({
            "_aws": {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [
                {"Namespace": "Test", "Dimensions": [["service"]], "Metrics": [{"Name": "Events", "Unit": "Count"}]}]},
            "service": "reader", "Events": [2, 3]}))
    buckets = len(boto3.client("s3").list_buckets()["Buckets"])
    return {"calls": calls, "layer": a_layer.NAME, "setting": os.environ["SETTING"], "pid": os.getpid(),
            "buckets": buckets, "remaining": context.get_remaining_time_in_millis()}
"""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    cloud = LocalCloud(tmp_path_factory.mktemp("cloud"), Ports(free_port(), free_port()))
    cloud.up()
    yield cloud
    cloud.down()


@pytest.fixture(scope="module")
def client(cloud: LocalCloud) -> Callable[[str], Any]:
    session = boto3.Session("test", "test", region_name="us-east-1")
    return lambda name: session.client(name, endpoint_url=cloud.aws_url)  # type: ignore[call-overload]


@pytest.fixture(scope="module")
def invoke(client: Callable[[str], Any]) -> Callable[..., tuple[str | None, dict[str, Any]]]:
    """The function under test, invoked: its error kind and its answer."""
    functions = client("lambda")
    layers = [
        functions.publish_layer_version(
            LayerName=name, Content={"ZipFile": zipped({"python/a_layer.py": f"NAME = {name!r}"})}
        )["LayerVersionArn"]
        for name in ("first", "second")
    ]
    functions.create_function(
        FunctionName="subject",
        Runtime="python3.13",
        Handler="app.handler",
        Role=ROLE,
        Timeout=2,
        Code={"ZipFile": zipped({"app.py": HANDLER})},
        Layers=layers,
        Environment={"Variables": {"SETTING": "given"}},
        LoggingConfig={"LogFormat": "Text", "LogGroup": "/a/group"},
    )
    functions.get_waiter("function_active_v2").wait(FunctionName="subject", WaiterConfig={"Delay": 1})

    def call(**event: object) -> tuple[str | None, dict[str, Any]]:
        answer = functions.invoke(FunctionName="subject", Payload=json.dumps(event))
        return answer.get("FunctionError"), json.loads(answer["Payload"].read())

    return call


def test_a_second_up_changes_nothing(cloud: LocalCloud) -> None:
    before = [(state.name, state.pid) for state in cloud.status()]
    cloud.up()
    assert [(state.name, state.pid) for state in cloud.status()] == before
    assert [state.name for state in cloud.status() if state.health == "healthy"] == list(SERVICES)


def test_another_cloud_cannot_take_a_port_that_is_in_use_and_says_which(cloud: LocalCloud, tmp_path: Path) -> None:
    rival = LocalCloud(tmp_path, Ports(cloud.ports.aws, free_port()))
    with pytest.raises(LocalCloudError, match=rf"port {cloud.ports.aws}.*LOGFLUME_LOCAL_AWS_PORT"):
        rival.up()
    assert not [state for state in rival.status() if state.health != "stopped"]


def test_a_cloud_that_is_up_is_not_taken_for_one_on_other_ports(cloud: LocalCloud) -> None:
    with pytest.raises(LocalCloudError, match=f"localstack runs on port {cloud.ports.aws}, not on 1"):
        LocalCloud(cloud.home, Ports(1, cloud.ports.opensearch)).up()


def test_a_function_is_cold_once_and_then_warm(invoke: Callable[..., tuple[str | None, dict[str, Any]]]) -> None:
    _, first = invoke()
    _, second = invoke()
    assert second["pid"] == first["pid"]
    assert second["calls"] == first["calls"] + 1


def test_a_function_sees_its_settings_its_time_and_aws(
    invoke: Callable[..., tuple[str | None, dict[str, Any]]],
) -> None:
    error, answer = invoke()
    assert error is None
    assert answer["setting"] == "given"
    assert 0 < answer["remaining"] <= 2000
    assert answer["buckets"] >= 0


def test_the_later_of_two_layers_wins(invoke: Callable[..., tuple[str | None, dict[str, Any]]]) -> None:
    assert invoke()[1]["layer"] == "second"


def test_a_function_that_hangs_is_killed_by_its_timeout_and_starts_anew(
    invoke: Callable[..., tuple[str | None, dict[str, Any]]],
) -> None:
    pid = invoke()[1]["pid"]
    error, answer = invoke(do="hang")
    assert (error, answer["errorType"]) == ("Unhandled", "Sandbox.Timedout")
    assert not Path(f"/proc/{pid}").exists()
    assert invoke()[1]["calls"] == 1


def test_a_function_that_crashes_starts_anew(invoke: Callable[..., tuple[str | None, dict[str, Any]]]) -> None:
    error, answer = invoke(do="crash")
    assert (error, answer["errorType"]) == ("Unhandled", "Runtime.ExitError")
    assert "exit status 3" in answer["errorMessage"]
    assert invoke()[1]["calls"] == 1


def test_a_function_that_raises_keeps_its_process(invoke: Callable[..., tuple[str | None, dict[str, Any]]]) -> None:
    pid = invoke()[1]["pid"]
    error, answer = invoke(do="raise")
    assert (error, answer["errorType"]) == ("Unhandled", "ValueError")
    assert invoke()[1]["pid"] == pid


def test_a_function_whose_module_does_not_load_says_why(client: Callable[[str], Any]) -> None:
    functions = client("lambda")
    functions.create_function(
        FunctionName="broken",
        Runtime="python3.13",
        Handler="app.handler",
        Role=ROLE,
        Code={"ZipFile": zipped({"app.py": "import not_there"})},
    )
    functions.get_waiter("function_active_v2").wait(FunctionName="broken", WaiterConfig={"Delay": 1})
    answer = json.loads(functions.invoke(FunctionName="broken")["Payload"].read())
    assert answer["errorType"] == "Runtime.ImportModuleError"
    assert "not_there" in answer["errorMessage"]


def test_embedded_metrics_reach_cloudwatch(
    invoke: Callable[..., tuple[str | None, dict[str, Any]]], client: Callable[[str], Any]
) -> None:
    invoke(do="measure")
    now = datetime.now(UTC)
    query = {
        "Namespace": "Test",
        "MetricName": "Events",
        "Dimensions": [{"Name": "service", "Value": "reader"}],
        "StartTime": now - timedelta(minutes=5),
        "EndTime": now + timedelta(minutes=5),
        "Period": 3600,
        "Statistics": ["Sum", "SampleCount"],
    }
    points = eventually(lambda: client("cloudwatch").get_metric_statistics(**query)["Datapoints"])
    assert sum(point["Sum"] for point in points) == 5
    assert sum(point["SampleCount"] for point in points) == 2


def test_lambda_says_how_long_an_invocation_took_and_how_many_ran(
    invoke: Callable[..., tuple[str | None, dict[str, Any]]], client: Callable[[str], Any]
) -> None:
    invoke()
    now = datetime.now(UTC)
    query = {
        "Namespace": "AWS/Lambda",
        "Dimensions": [{"Name": "FunctionName", "Value": "subject"}],
        "StartTime": now - timedelta(minutes=5),
        "EndTime": now + timedelta(minutes=5),
        "Period": 3600,
        "Statistics": ["Maximum"],
    }
    cloudwatch = client("cloudwatch")
    for name, low, high in (("Duration", 0, 60_000), ("ConcurrentExecutions", 1, 1)):
        points = eventually(lambda: cloudwatch.get_metric_statistics(**query, MetricName=name)["Datapoints"])  # noqa: B023
        assert all(low <= point["Maximum"] <= high for point in points)
        assert points


def test_an_alarm_of_a_stack_rings_by_a_functions_metric_and_a_deployment_changes_it(
    invoke: Callable[..., tuple[str | None, dict[str, Any]]], client: Callable[[str], Any]
) -> None:
    stacks, cloudwatch = client("cloudformation"), client("cloudwatch")

    def template(threshold: int) -> str:
        properties = {
            "AlarmName": "many",
            "Namespace": "Test",
            "MetricName": "Events",
            "Dimensions": [{"Name": "service", "Value": "reader"}],
            "Statistic": "Sum",
            "Period": 60,
            "EvaluationPeriods": 5,
            "DatapointsToAlarm": 1,
            "Threshold": threshold,
            "ComparisonOperator": "GreaterThanOrEqualToThreshold",
            "TreatMissingData": "notBreaching",
        }
        return json.dumps({"Resources": {"Many": {"Type": "AWS::CloudWatch::Alarm", "Properties": properties}}})

    def state() -> str:
        return str(cloudwatch.describe_alarms(AlarmNames=["many"])["MetricAlarms"][0]["StateValue"])

    invoke(do="measure")
    stacks.create_stack(StackName="alarming", TemplateBody=template(1))
    stacks.get_waiter("stack_create_complete").wait(StackName="alarming", WaiterConfig={"Delay": 1})
    # At once or, where the metric was not there yet, a minute later: not after all five minutes that it looks at.
    assert eventually(lambda: state() == "ALARM", EVALUATED_S)
    stacks.update_stack(StackName="alarming", TemplateBody=template(1_000_000))
    stacks.get_waiter("stack_update_complete").wait(StackName="alarming", WaiterConfig={"Delay": 1})
    assert eventually(lambda: state() == "OK", EVALUATED_S)
    stacks.delete_stack(StackName="alarming")


def test_where_data_is_missing_an_alarm_may_take_it_for_trouble(client: Callable[[str], Any]) -> None:
    cloudwatch = client("cloudwatch")
    now = datetime.now(UTC)
    # The last data are older than the two minutes that it looks at.
    datum = {"MetricName": "Pulse", "Value": 0.0, "Timestamp": now - timedelta(seconds=150)}
    cloudwatch.put_metric_data(Namespace="Test", MetricData=[datum])
    for missing in ("breaching", "notBreaching"):
        cloudwatch.put_metric_alarm(
            AlarmName=missing,
            Namespace="Test",
            MetricName="Pulse",
            Statistic="Maximum",
            Period=60,
            EvaluationPeriods=2,
            DatapointsToAlarm=2,
            Threshold=5.0,
            ComparisonOperator="GreaterThanOrEqualToThreshold",
            TreatMissingData=missing,
        )

    def states() -> dict[str, str]:
        alarms = cloudwatch.describe_alarms(AlarmNames=["breaching", "notBreaching"])["MetricAlarms"]
        return {alarm["AlarmName"]: alarm["StateValue"] for alarm in alarms}

    assert eventually(lambda: states() == {"breaching": "ALARM", "notBreaching": "OK"}, EVALUATED_S)
    cloudwatch.delete_alarms(AlarmNames=["breaching", "notBreaching"])


def test_what_a_function_prints_reaches_the_log_group_that_it_names(
    invoke: Callable[..., tuple[str | None, dict[str, Any]]], client: Callable[[str], Any], cloud: LocalCloud
) -> None:
    invoke(do="raise")

    def messages() -> list[str]:
        try:
            events = client("logs").filter_log_events(logGroupName="/a/group")["events"]
        except client("logs").exceptions.ResourceNotFoundException:
            return []
        return [event["message"] for event in events if "on purpose" in event["message"]]

    assert eventually(messages)
    assert any("on purpose" in log.read_text() for log in cloud.home.glob("logs/functions/subject/*.log"))


RESPONDER = """
import json, urllib.request

def handler(event, context):
    given = event["ResourceProperties"]
    body = {"Status": "FAILED" if given.get("Fail") else "SUCCESS", "Reason": "told to fail",
            "PhysicalResourceId": "made-" + given["Name"], "Data": {"Kind": event["RequestType"]},
            "StackId": event["StackId"], "RequestId": event["RequestId"],
            "LogicalResourceId": event["LogicalResourceId"]}
    print(event["RequestType"], event.get("PhysicalResourceId"), given)
    urllib.request.urlopen(urllib.request.Request(
        event["ResponseURL"], json.dumps(body).encode(), {"content-type": ""}, method="PUT"))
"""


def stack_template(arn: str, name: str, **properties: str) -> str:
    return json.dumps(
        {
            "Resources": {
                "Made": {"Type": "Custom::Thing", "Properties": {"ServiceToken": arn, "Name": name, **properties}},
                "Board": {
                    "Type": "AWS::CloudWatch::Dashboard",
                    "Properties": {"DashboardName": "board", "DashboardBody": '{"widgets":[]}'},
                },
            },
            "Outputs": {
                "Id": {"Value": {"Ref": "Made"}},
                "Kind": {"Value": {"Fn::GetAtt": ["Made", "Kind"]}},
            },
        }
    )


def test_custom_resources_call_their_function_and_dashboards_exist(client: Callable[[str], Any]) -> None:
    functions, stacks = client("lambda"), client("cloudformation")
    arn = functions.create_function(
        FunctionName="responder",
        Runtime="python3.13",
        Handler="app.handler",
        Role=ROLE,
        Timeout=10,
        Code={"ZipFile": zipped({"app.py": RESPONDER})},
    )["FunctionArn"]
    stacks.create_stack(StackName="things", TemplateBody=stack_template(arn, "one"))
    stacks.get_waiter("stack_create_complete").wait(StackName="things", WaiterConfig={"Delay": 1})
    assert outputs(stacks, "things") == {"Id": "made-one", "Kind": "Create"}
    assert [entry["DashboardName"] for entry in client("cloudwatch").list_dashboards()["DashboardEntries"]] == ["board"]
    stacks.update_stack(StackName="things", TemplateBody=stack_template(arn, "one", More="true"))
    stacks.get_waiter("stack_update_complete").wait(StackName="things", WaiterConfig={"Delay": 1})
    assert outputs(stacks, "things")["Kind"] == "Update"
    stacks.delete_stack(StackName="things")
    stacks.get_waiter("stack_delete_complete").wait(StackName="things", WaiterConfig={"Delay": 1})
    assert client("cloudwatch").list_dashboards()["DashboardEntries"] == []


def test_a_custom_resource_that_fails_fails_its_stack(client: Callable[[str], Any]) -> None:
    stacks = client("cloudformation")
    arn = client("lambda").get_function(FunctionName="responder")["Configuration"]["FunctionArn"]
    stacks.create_stack(StackName="failing", TemplateBody=stack_template(arn, "two", Fail="yes"))
    state = eventually(
        lambda: next(
            (
                stack["StackStatus"]
                for stack in stacks.describe_stacks(StackName="failing")["Stacks"]
                if not stack["StackStatus"].endswith("IN_PROGRESS")
            ),
            None,
        )
    )
    assert state in ("CREATE_FAILED", "ROLLBACK_COMPLETE")


def test_opensearch_killed_and_started_again_has_its_documents(cloud: LocalCloud) -> None:
    url = f"{cloud.opensearch_url}/killed/_doc"
    urllib3.request("PUT", f"{url}/1", json={"n": 1})
    cloud.kill("opensearch")
    assert {state.name: state.health for state in cloud.status()}["opensearch"] == "stopped"
    before = {state.name: state.pid for state in cloud.status()}["localstack"]
    cloud.start("opensearch")
    assert urllib3.request("GET", f"{url}/1").json()["_source"] == {"n": 1}
    assert {state.name: state.pid for state in cloud.status()}["localstack"] == before


def test_down_leaves_no_process_and_no_port(cloud: LocalCloud) -> None:
    marks = [json.loads(file.read_text())["mark"] for file in cloud.home.glob("services/*.json")]
    functions = [pid for mark in marks for pid in pids_of(mark)]
    # The functions' own processes are among them.
    assert len(marks) == len(SERVICES) < len(functions)
    cloud.down()
    assert [pid for mark in marks for pid in pids_of(mark)] == []
    # A process that ended may wait a moment for its parent to notice.
    assert eventually(lambda: not [pid for pid in functions if alive(pid)])
    assert {state.health for state in cloud.status()} == {"stopped"}
    cloud.down()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def outputs(stacks: Any, name: str) -> dict[str, str]:
    found = stacks.describe_stacks(StackName=name)["Stacks"][0]["Outputs"]
    return {output["OutputKey"]: output["OutputValue"] for output in found}


def eventually[T](probe: Callable[[], T], wait_s: float = WAIT_S) -> T:
    deadline = time.monotonic() + wait_s
    while not (found := probe()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def zipped(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()
