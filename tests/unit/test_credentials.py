"""Credentials: when a login is looked up again, what a secret must hold, and where a signature is valid."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.credentials import Credentials
from botocore.exceptions import EndpointConnectionError
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

from logflume.credentials import LOOK_UP_S, Basic, Login, Signature, secret_login, signing_region
from logflume.errors import ConfigurationError

VALUE = "hunter2-and-more"


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class LookUp:
    """Counts how often it is asked; says what it is told to."""

    def __init__(self) -> None:
        self.says: tuple[str, str] | Exception = ("user", "first")
        self.asked = 0

    def __call__(self) -> tuple[str, str]:
        self.asked += 1
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


@pytest.fixture
def look_up() -> LookUp:
    return LookUp()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def login(look_up: LookUp, clock: Clock) -> Login:
    return Login(look_up, clock)


def test_a_login_is_looked_up_once_and_kept(login: Login, look_up: LookUp, clock: Clock) -> None:
    for _ in range(100):
        clock.now += 3600
        assert login.get() == ("user", "first")
    assert look_up.asked == 1


def test_a_refused_login_is_looked_up_at_once(login: Login, look_up: LookUp) -> None:
    old = login.get()
    look_up.says = ("user", "second")
    assert login.renew(old)
    assert (login.get(), look_up.asked) == (("user", "second"), 2)


def test_a_login_that_stays_refused_is_looked_up_at_intervals(login: Login, look_up: LookUp, clock: Clock) -> None:
    wrong = login.get()
    for _ in range(600):  # a refusal every second for ten minutes
        assert not login.renew(wrong)
        clock.now += 1
    assert look_up.asked == 1 + 600 / LOOK_UP_S
    look_up.says = ("user", "mended")
    clock.now += LOOK_UP_S
    assert login.renew(wrong)
    assert login.get() == ("user", "mended")


def test_who_comes_second_with_the_same_refused_login_gets_the_new_one(login: Login, look_up: LookUp) -> None:
    old = login.get()
    look_up.says = ("user", "second")
    assert login.renew(old)
    assert login.renew(old)
    assert look_up.asked == 2


@pytest.mark.parametrize("failure", [ConfigurationError("malformed"), ConnectionError("throttled")])
def test_a_look_up_that_fails_is_tried_again_only_later(
    login: Login, look_up: LookUp, clock: Clock, failure: Exception
) -> None:
    look_up.says = failure
    for _ in range(50):
        with pytest.raises(type(failure), match=str(failure)):
            login.get()
    assert look_up.asked == 1
    look_up.says = ("user", "there")
    clock.now += LOOK_UP_S
    assert (login.get(), look_up.asked) == (("user", "there"), 2)


def test_a_login_survives_a_look_up_that_fails(login: Login, look_up: LookUp) -> None:
    old = login.get()
    look_up.says = ConnectionError("throttled")
    with pytest.raises(ConnectionError):
        login.renew(old)
    assert (login.get(), login.renew(old)) == (old, False)


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        yield boto3.client("secretsmanager", region_name="eu-west-1")


def test_a_secret_holds_user_and_password(secrets: Any) -> None:
    text = '{"username": "ingest", "password": "ä:b", "engine": "opensearch"}'
    arn = secrets.create_secret(Name="search", SecretString=text)["ARN"]
    assert secret_login(secrets, arn)() == ("ingest", "ä:b")


@pytest.mark.parametrize(
    "value",
    [
        VALUE,
        "",
        "[]",
        f'"{VALUE}"',
        f'{{"username": "{VALUE}"}}',
        f'{{"password": "{VALUE}"}}',
        f'{{"username": "u", "password": ["{VALUE}"]}}',
        f'{{"username": "u", "password": 7, "x": "{VALUE}"}}',
        f'{{"username": "", "password": "{VALUE}"}}',
        f'{{"username": "u:v", "password": "{VALUE}"}}',
        f'{{"username": "{VALUE}", "password": ""}}',
    ],
)
def test_a_malformed_secret_is_named_and_its_value_is_not(secrets: Any, value: str) -> None:
    arn = secrets.create_secret(Name="search", SecretString=value or " ")["ARN"]
    with pytest.raises(ConfigurationError) as raised:
        secret_login(secrets, arn)()
    assert arn in str(raised.value)
    assert VALUE not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_binary_secret_is_malformed(secrets: Any) -> None:
    arn = secrets.create_secret(Name="search", SecretBinary=b"\x00\xff")["ARN"]
    with pytest.raises(ConfigurationError, match=f"{arn} is no JSON"):
        secret_login(secrets, arn)()


def test_a_secret_that_is_not_there_is_a_matter_of_configuration(secrets: Any) -> None:
    with pytest.raises(ConfigurationError, match="missing cannot be read: ResourceNotFoundException"):
        secret_login(secrets, "missing")()


def test_secrets_manager_out_of_reach_may_pass() -> None:
    class Unreachable:
        def get_secret_value(self, **_: str) -> None:
            raise EndpointConnectionError(endpoint_url="https://secretsmanager")

    client: Any = Unreachable()
    with pytest.raises(ConnectionError, match="Secrets Manager"):
        secret_login(client, "arn")()


def test_a_login_is_sent_as_utf_8() -> None:
    assert Basic(("ingest", "päss"))("GET", "/", None) == {"authorization": "Basic aW5nZXN0OnDDpHNz"}


@pytest.mark.parametrize(
    ("url", "region"),
    [
        ("https://search-logs-abc.eu-central-1.es.amazonaws.com", "eu-central-1"),
        ("https://vpc-logs-abc.us-gov-west-1.es.amazonaws.com:443", "us-gov-west-1"),
        ("https://search-logs-abc.cn-north-1.es.amazonaws.com.cn", "cn-north-1"),
        ("https://abc123.us-east-2.aoss.amazonaws.com", "us-east-2"),
        ("https://search-logs-abc.aos.ap-southeast-2.on.aws", "ap-southeast-2"),
        ("https://search.example.com", "eu-west-1"),
        ("https://search.us-east-1.example.com", "eu-west-1"),
        ("https://search-us-east-1.eu-north-1.es.amazonaws.com", "eu-north-1"),
        ("https://127.0.0.1:9200", "eu-west-1"),
    ],
)
def test_the_endpoints_own_region_goes_before_the_callers(url: str, region: str) -> None:
    assert signing_region(url, "eu-west-1") == region


def test_no_region_at_all_is_a_matter_of_configuration() -> None:
    with pytest.raises(ConfigurationError, match=r"cannot tell the AWS region of https://search\.example\.com"):
        signing_region("https://search.example.com")


def test_nothing_to_sign_with_is_a_matter_of_configuration() -> None:
    with pytest.raises(ConfigurationError, match="no AWS credentials"):
        Signature(None, "es", "eu-west-1")


@given(body=st.binary(max_size=64), query=st.text("abc=&%20", max_size=12))
def test_every_aws_header_is_signed(body: bytes, query: str) -> None:
    sign = Signature(Credentials("AKID", "secret", "token"), "aoss", "eu-west-1")
    headers = {
        name.lower(): value for name, value in sign("POST", f"https://x.example.com/_bulk?{query}", body).items()
    }
    signed = headers["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
    assert {"host", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"} == set(signed)
    assert "secret" not in str(headers)
