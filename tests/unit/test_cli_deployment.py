"""A deployment found through its stack's outputs, and what is said when it is not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from infra.cli.deployment import REQUIRED_OUTPUTS, Deployment, explain_refusal
from infra.cli.errors import CommandError, OpenSearchUnreachable
from infra.cli.main import app
from infra.local.service import free_port

OUTPUTS = {name: f"the {name}" for name in REQUIRED_OUTPUTS}


def client_error(code: str, message: str, operation: str = "DescribeStacks") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)


class Session:
    """A boto3 session whose CloudFormation answers with one stack, or an error."""

    region_name = "eu-central-1"

    def __init__(self, answer: dict[str, str] | Exception, status: str = "CREATE_COMPLETE") -> None:
        self._answer, self._status = answer, status

    def client(self, service: str, **_options: object) -> "Session":
        assert service == "cloudformation"
        return self

    def describe_stacks(self, StackName: str) -> dict[str, Any]:  # noqa: N803 - boto3's name
        assert StackName == "mine"
        if isinstance(self._answer, Exception):
            raise self._answer
        outputs = [{"OutputKey": key, "OutputValue": value} for key, value in self._answer.items()]
        return {"Stacks": [{"StackStatus": self._status, "Outputs": outputs}]}


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Callable[[Session], None]:
    return lambda session: monkeypatch.setattr(boto3, "Session", lambda **_options: session)


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials anywhere, and no network to ask for them."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def test_the_outputs_are_the_deployment(account: Callable[[Session], None]) -> None:
    account(Session(OUTPUTS))
    found = Deployment.find("aws", "mine")
    assert (found.name, found.target, found.endpoint_url) == ("mine", "aws", None)
    assert found["DropBucket"] == "the DropBucket"


def test_a_stack_that_is_not_there_is_said_to_be_deployed_first(account: Callable[[Session], None]) -> None:
    account(Session(client_error("ValidationError", "Stack with id mine does not exist")))
    with pytest.raises(CommandError, match=r"no stack 'mine' .*`cdk deploy`"):
        Deployment.find("aws", "mine")


def test_a_stack_without_our_outputs_is_none_of_ours(account: Callable[[Session], None]) -> None:
    account(Session({}, "ROLLBACK_COMPLETE"))
    with pytest.raises(CommandError, match=r"\(ROLLBACK_COMPLETE\) has no output DropBucket"):
        Deployment.find("aws", "mine")


@pytest.mark.parametrize("command", ["status", "search x", "drop x", "deadletters list", "dashboard", "audit", "pause"])
def test_a_command_that_finds_no_deployment_ends_as_one_that_could_not_begin(
    account: Callable[[Session], None], command: str
) -> None:
    account(Session(client_error("AccessDenied", "not authorized to perform: cloudformation:DescribeStacks")))
    with pytest.raises(SystemExit) as ended:
        app([*command.split(), "--target", "aws", "--deployment", "mine"])
    assert ended.value.code == 2, "docs/operating.md"


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidClientTokenId", "SignatureDoesNotMatch"])
def test_bad_credentials_are_told_from_missing_rights(account: Callable[[Session], None], code: str) -> None:
    account(Session(client_error(code, "The security token included in the request is …")))
    with pytest.raises(CommandError, match=r"does not accept these credentials .*AWS_PROFILE"):
        Deployment.find("aws", "mine")
    account(Session(client_error("AccessDenied", "not authorized to perform: cloudformation:DescribeStacks")))
    with pytest.raises(CommandError, match=r"refused DescribeStacks \(AccessDenied\)"):
        Deployment.find("aws", "mine")


@pytest.mark.usefixtures("nobody")
def test_without_region_or_credentials_it_says_which_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match="set AWS_REGION"):
        Deployment.find("aws", "mine")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    with pytest.raises(CommandError, match=r"no AWS credentials .*`aws sso login`"):
        Deployment.find("aws", "mine")
    monkeypatch.setenv("AWS_PROFILE", "missing")
    with pytest.raises(CommandError, match="missing"):
        Deployment.find("aws", "mine")


@pytest.mark.usefixtures("nobody")
def test_a_local_cloud_that_is_not_up_is_said_to_be_deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGFLUME_LOCAL_AWS_PORT", str(free_port()))
    with pytest.raises(CommandError, match="not up: run `logflume local deploy`"):
        Deployment.find("local", "logflume")


def test_opensearch_that_is_away_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    found = Deployment("mine", "local", {"OpenSearchEndpoint": url, "OpenSearchAuth": "none"}, boto3.Session())
    with pytest.raises(OpenSearchUnreachable, match=f"{url} does not answer .*`logflume local status`"):
        found.opensearch("GET", "/")


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, CommandError), (403, CommandError), (429, OpenSearchUnreachable), (503, OpenSearchUnreachable)],
)
def test_opensearchs_refusals_are_told_apart(status: int, error: type[Exception]) -> None:
    class Client:
        def request(self, *_arguments: object, **_params: str) -> tuple[int, str]:
            return status, "no"

    found = Deployment("mine", "aws", {"OpenSearchEndpoint": "https://search", "OpenSearchAuth": "es"}, boto3.Session())
    vars(found)["search_client"] = Client()
    with pytest.raises(CommandError, match=f"HTTP {status}") as refused:
        found.opensearch("GET", "/")
    assert type(refused.value) is error


def test_what_aws_says_is_shown_on_one_harmless_line() -> None:
    assert explain_refusal(client_error("Odd", "two\nlines \x1b[31m")).isprintable()
