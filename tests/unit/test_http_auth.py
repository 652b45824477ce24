"""Tokens: the current and the previous version of the secret are let in, and looked up again only so often."""

import base64
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from logflume.http import auth
from logflume.http.auth import KEPT_S, LOOK_UP_S, Tokens
from logflume.http.messages import Refusal
from tests.fakes.http_world import HttpWorld, said

OLD, NEW, OTHER = "old-token-0123456789", "new-token-0123456789", "other-token-012345678"


class SecretsManager:
    """A secret's versions by stage; `trouble` is an error's code."""

    def __init__(self, **versions: str) -> None:
        self.versions = versions
        self.trouble = ""
        self.asked = 0

    def get_secret_value(self, *, SecretId: str, VersionStage: str) -> dict[str, Any]:  # noqa: N803
        self.asked += 1
        if self.trouble or VersionStage not in self.versions:
            code = self.trouble or "ResourceNotFoundException"
            raise ClientError({"Error": {"Code": code, "Message": "no"}}, "GetSecretValue")
        return {"SecretString": self.versions[VersionStage]}


class Case:
    def __init__(self, **versions: str) -> None:
        self.secrets = SecretsManager(**versions)
        self.now = 1_000_000.0
        self.tokens = Tokens(self.secrets, "arn:secret", clock=lambda: self.now)  # type: ignore[arg-type]

    def status(self, authorization: str) -> int:
        try:
            self.tokens.check(authorization)
        except Refusal as refusal:
            return refusal.status
        return 200

    def bearer(self, token: str) -> int:
        return self.status(f"Bearer {token}")


@pytest.mark.parametrize("text", [NEW, f" {NEW}\n", json.dumps({"token": NEW, "note": "x"})])
def test_the_secrets_token_is_let_in_however_it_is_sent(text: str) -> None:
    case = Case(AWSCURRENT=text)
    login = base64.b64encode(f"anybody:{NEW}".encode()).decode()
    for authorization in (f"Bearer {NEW}", f"bearer  {NEW} ", f"Basic {login}"):
        assert case.status(authorization) == 200


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer ", NEW, f"Token {NEW}", "Basic !!!", "Basic é", f"Basic {NEW}", f"Bearer {NEW}x", "Bearer é",
     f"Bearer {NEW[:-1]}", "Bearer \ud800"],
)  # fmt: skip
def test_nothing_else_is_let_in(authorization: str) -> None:
    assert Case(AWSCURRENT=NEW).status(authorization) == 401


def test_rotation_has_no_downtime() -> None:
    case = Case(AWSCURRENT=OLD)
    assert case.bearer(OLD) == 200
    case.secrets.versions = {"AWSCURRENT": NEW, "AWSPREVIOUS": OLD}
    case.now += LOOK_UP_S
    assert (case.bearer(NEW), case.bearer(OLD)) == (200, 200)


def test_wrong_tokens_do_not_make_it_ask_again_and_again() -> None:
    case = Case(AWSCURRENT=NEW)
    for _ in range(100):
        assert case.bearer(OTHER) == 401
    assert case.secrets.asked == 2
    case.now += LOOK_UP_S
    assert case.bearer(OTHER) == 401
    assert case.secrets.asked == 4


def test_a_token_that_was_rotated_out_ends() -> None:
    case = Case(AWSCURRENT=OLD)
    assert case.bearer(OLD) == 200
    case.secrets.versions = {"AWSCURRENT": OTHER, "AWSPREVIOUS": NEW}
    case.now += KEPT_S
    assert case.bearer(OLD) == 200
    case.now += 1
    assert case.bearer(OLD) == 401


def test_what_was_known_holds_while_secrets_manager_is_away() -> None:
    case = Case(AWSCURRENT=NEW)
    assert case.bearer(NEW) == 200
    case.secrets.trouble = "InternalServiceError"
    case.now += 10 * KEPT_S
    assert (case.bearer(NEW), case.bearer(OTHER)) == (200, 401)


def test_without_any_knowledge_nobody_is_told_that_their_token_is_wrong() -> None:
    case = Case(AWSCURRENT=NEW)
    case.secrets.trouble = "AccessDeniedException"
    assert case.bearer(NEW) == 503
    case.secrets.trouble = ""
    assert case.bearer(NEW) == 503
    case.now += LOOK_UP_S
    assert case.bearer(NEW) == 200


@pytest.mark.parametrize("text", ["", "short", '{"token":""}', '{"token":"x"}'])
def test_an_empty_or_short_secret_lets_nobody_in(text: str) -> None:
    case = Case(AWSCURRENT=text)
    assert case.bearer(text or "x") in (401, 503)


def test_every_version_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    real = auth.hmac.compare_digest
    monkeypatch.setattr(auth.hmac, "compare_digest", lambda a, b: compared.append((a, b)) or real(a, b))
    case = Case(AWSCURRENT=NEW, AWSPREVIOUS=OLD)
    assert case.bearer(OLD) == 200
    assert compared == [(OLD.encode(), NEW.encode()), (OLD.encode(), OLD.encode())]


def test_the_service_asks_for_a_token_everywhere_but_for_its_description() -> None:
    world = HttpWorld(tokens=Case(AWSCURRENT=NEW).tokens)
    for method, path in (
        ("POST", "/log/ingest"),
        ("POST", "/_bulk"),
        ("GET", "/"),
        ("GET", "/none"),
        ("GET", "/_bulk"),
    ):
        answer = world.ask(method, path)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, 'Bearer realm="logflume"')
    assert world.ask("GET", "/openapi.json").status == 200
    answer = world.send("/log/ingest", b'{"n":1}', authorization=f"Bearer {NEW}")
    assert said(answer) == {"accepted": 1}
