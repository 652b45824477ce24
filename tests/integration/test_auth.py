"""Being let in: signatures and logins against a server that checks them, secrets that rotate, certificates."""

import datetime
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.credentials import Credentials, RefreshableCredentials
from moto import mock_aws

from bench.certificates import Authority, make_authority
from infra.cli.deployment import Deployment
from infra.config import settings
from logflume.bulk import Bulk, Operations
from logflume.credentials import LOOK_UP_S, Signature, secret_login
from logflume.errors import CertificateRefused, ConfigurationError, IndexOutage
from logflume.search import Endpoint, SearchClient, _verifying, deployed_endpoint
from tests.fakes.signed import GuardedServer, LoginGate, Request, SignatureGate, guarded_server

REGION = "eu-west-1"
KEYS: dict[str, tuple[str, str | None]] = {"AKIDFIRST": ("first-secret", "first-token")}
FOREVER = float("inf")


class Clock:
    """Seconds that pass only in pauses."""

    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str, str | None]]:
    """The keys that the server knows; the environment holds the first."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDFIRST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "first-secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "first-token")
    return dict(KEYS)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("tls"))


def operations(count: int = 3, start: int = 0) -> Operations:
    chunks = [b'{"create":{"_index":"logs","_id":"%d"}}\n{"n":%d}\n' % (i, i) for i in range(start, start + count)]
    return Operations(chunks, count)


def bulk(client: SearchClient) -> Bulk:
    """Deliveries whose pauses take no time."""
    clock = Clock()
    return Bulk(client, clock=clock, sleep=clock.sleep)


# --- Signatures -------------------------------------------------------------------------------------------------


@pytest.fixture(params=["es", "aoss"])
def signed(request: pytest.FixtureRequest, keys: dict[str, tuple[str, str | None]]) -> Iterator[GuardedServer]:
    with guarded_server(SignatureGate(request.param, REGION, keys)) as server:
        yield server


@pytest.fixture
def client(signed: GuardedServer) -> Iterator[SearchClient]:
    assert isinstance(signed.gate, SignatureGate)
    made = SearchClient(Endpoint(signed.url, signed.gate.service, REGION), timeout_s=5)
    yield made
    made.close()


def test_a_gzipped_bulk_body_is_signed(signed: GuardedServer, client: SearchClient) -> None:
    assert bulk(client).deliver(operations(100), deadline=FOREVER).created == 100
    assert (len(signed.documents), signed.refusals) == (100, [])
    assert signed.requests[0].headers["content-encoding"] == "gzip"


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("/logs-*/_search", {"ignore_unavailable": "true", "allow_no_indices": "true"}),
        ("/logs/_search", {"q": "message:a b+c&d=e/ü*~", "filter_path": "hits.total,hits.*.x"}),
        ("/a%2Fb%20c/_doc/1", {}),
        ("/", {"empty": ""}),
    ],
)
def test_paths_with_parameters_are_signed(
    signed: GuardedServer, client: SearchClient, path: str, params: dict[str, str]
) -> None:
    status, answer = client.request("GET", path, **params)
    assert (status, signed.refusals) == (200, [])
    assert str(answer["target"]).startswith(path)
    assert client.request("POST", path, {"query": {"match_all": {}}}, **params)[0] == 200


def test_credentials_that_are_renewed_sign_the_next_request(
    signed: GuardedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = signed.gate
    assert isinstance(gate, SignatureGate)
    gate.keys["AKIDSECOND"] = ("second-secret", "second-token")
    served = iter(["FIRST", "SECOND"])

    def renewed() -> dict[str, str]:
        name = next(served)
        # The first is due for renewal by its second use (botocore: 15 minutes before it expires).
        expiry = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=5 if name == "FIRST" else 60)
        return {
            "access_key": f"AKID{name}",
            "secret_key": f"{name.lower()}-secret",
            "token": f"{name.lower()}-token",
            "expiry_time": expiry.isoformat(),
        }

    credentials = RefreshableCredentials.create_from_metadata(renewed(), renewed, "test")
    monkeypatch.setattr(boto3.Session, "get_credentials", lambda self: credentials)
    client = SearchClient(Endpoint(signed.url, gate.service, REGION))
    assert client.request("GET", "/first")[0] == 200
    assert "AKIDSECOND" in signed.requests[-1].headers["authorization"]
    del gate.keys["AKIDFIRST"]
    assert client.request("GET", "/second")[0] == 200
    client.close()


def test_long_lived_keys_without_a_token_are_signed_with(
    signed: GuardedServer, client: SearchClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(signed.gate, SignatureGate)
    monkeypatch.delenv("AWS_SESSION_TOKEN")
    signed.gate.keys["AKIDFIRST"] = ("first-secret", None)
    assert client.request("GET", "/")[0] == 200


def test_a_signature_is_made_over_tls(keys: dict[str, tuple[str, str | None]], authority: Authority) -> None:
    with guarded_server(SignatureGate("aoss", REGION, keys), authority.server_context()) as server:
        client = SearchClient(Endpoint(server.url, "aoss", REGION, ca_file=authority.ca_file))
        assert bulk(client).deliver(operations(), deadline=FOREVER).created == 3
        client.close()


def test_a_refused_signature_is_an_outage_and_sent_once(signed: GuardedServer, client: SearchClient) -> None:
    assert isinstance(signed.gate, SignatureGate)
    signed.gate.keys.clear()
    with pytest.raises(IndexOutage, match="http_403"):
        bulk(client).deliver(operations(), deadline=FOREVER)
    assert signed.refusals == ["unknown access key"]


def late(gate: SignatureGate) -> None:
    now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=6)
    gate.now = lambda: now


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (lambda gate: setattr(gate, "service", "s3"), "signed for"),
        (lambda gate: setattr(gate, "region", "us-east-1"), "signed for"),
        (lambda gate: gate.keys.update(AKIDFIRST=("other", "first-token")), "signature mismatch"),
        (lambda gate: gate.keys.update(AKIDFIRST=("first-secret", "other")), "wrong session token"),
        (late, "expired"),
    ],
)
def test_the_server_does_check(
    signed: GuardedServer, client: SearchClient, fault: Callable[[SignatureGate], None], reason: str
) -> None:
    assert isinstance(signed.gate, SignatureGate)
    fault(signed.gate)
    assert client.request("GET", "/")[0] == 403
    assert reason in signed.refusals[0]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"body": b"{}"}, "x-amz-content-sha256 is not the body's"),
        ({"method": "PUT"}, "signature mismatch"),
        ({"target": "/_bulk?filter_path=y"}, "signature mismatch"),
        ({"target": "/other?filter_path=x"}, "signature mismatch"),
        ({"header": ("x-amz-extra", "1")}, "x-amz-extra is not signed"),
        ({"header": ("authorization", "")}, "unsigned"),
        ({"header": ("host", "elsewhere")}, "signature mismatch"),
    ],
)
def test_the_server_sees_what_was_changed_on_the_way(change: dict[str, Any], reason: str) -> None:
    gate = SignatureGate("aoss", REGION, dict(KEYS))
    sign = Signature(Credentials("AKIDFIRST", "first-secret", "first-token"), "aoss", REGION)
    made = sign("POST", "https://search.example.com/_bulk?filter_path=x", b"body")
    headers = {name.lower(): value for name, value in made.items()} | {"host": "search.example.com"}
    whole = {"method": "POST", "target": "/_bulk?filter_path=x", "body": b"body", "headers": headers}
    assert gate(Request(**whole)) is None
    if header := change.pop("header", None):
        change["headers"] = headers | dict([header])
    assert gate(Request(**(whole | change))) == (403, reason)


# --- Serverless -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "params"),
    [
        ("POST", "/logs-*/_refresh", {}),
        ("GET", "/_cluster/health", {}),
        ("GET", "/_nodes/stats", {}),
        ("PUT", "/_plugins/_ism/policies/logs", {}),
        ("PUT", "/_data_stream/logs", {}),
        ("POST", "/_bulk", {"refresh": "true"}),
    ],
)
def test_what_serverless_does_not_do_is_not_asked_for(
    signed: GuardedServer, client: SearchClient, method: str, path: str, params: dict[str, str]
) -> None:
    assert isinstance(signed.gate, SignatureGate)
    if signed.gate.service == "aoss":
        with pytest.raises(ConfigurationError, match=r"OpenSearch Serverless has no _?[a-z]+"):
            client.request(method, path, **params)
        assert not signed.requests
    else:
        assert client.request(method, path, **params)[0] == 200


# --- Logins -----------------------------------------------------------------------------------------------------


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        yield boto3.client("secretsmanager", region_name=REGION)


class Secret:
    """A secret in Secrets Manager; `reads` counts how often it was looked up."""

    def __init__(self, secrets: Any, password: str) -> None:
        self._secrets = secrets
        self.reads = 0
        self.arn = secrets.create_secret(Name="search", SecretString=self._text(password))["ARN"]

    @staticmethod
    def _text(password: str) -> str:
        return f'{{"username": "ingest", "password": "{password}"}}'

    def rotate(self, password: str) -> None:
        self._secrets.put_secret_value(SecretId=self.arn, SecretString=self._text(password))

    def spoil(self, text: str) -> None:
        self._secrets.put_secret_value(SecretId=self.arn, SecretString=text)

    def get_secret_value(self, **arguments: str) -> Any:
        self.reads += 1
        return self._secrets.get_secret_value(**arguments)


@pytest.fixture
def secret(secrets: Any) -> Secret:
    return Secret(secrets, "first")


@pytest.fixture
def door() -> LoginGate:
    return LoginGate("ingest", "first")


@pytest.fixture
def guarded(door: LoginGate) -> Iterator[GuardedServer]:
    with guarded_server(door) as server:
        yield server


@pytest.fixture
def known(guarded: GuardedServer, secret: Secret, clock: Clock) -> Iterator[SearchClient]:
    look_up: Any = secret
    made = SearchClient(Endpoint(guarded.url, "basic", login=secret_login(look_up, secret.arn)), clock=clock)
    yield made
    made.close()


def test_the_secret_is_read_once_for_all_warm_invocations(
    guarded: GuardedServer, known: SearchClient, secret: Secret, clock: Clock
) -> None:
    for number in range(20):
        clock.now += 30
        assert bulk(known).deliver(operations(1, number), deadline=FOREVER).created == 1
    assert secret.reads == 1
    assert not guarded.refusals


def test_a_rotated_password_costs_one_request_and_no_outage(
    guarded: GuardedServer, known: SearchClient, secret: Secret, door: LoginGate
) -> None:
    bulk(known).deliver(operations(5), deadline=FOREVER)
    secret.rotate("second")
    door.password = "second"
    delivery = bulk(known).deliver(operations(5, 5), deadline=FOREVER)
    assert (delivery.created, delivery.requests, delivery.retries) == (5, 1, 0)
    assert (len(guarded.refusals), secret.reads, len(guarded.documents)) == (1, 2, 10)
    assert guarded.connections == 2  # other credentials, other connections


def test_threads_refused_at_once_share_one_look_up(
    guarded: GuardedServer, known: SearchClient, secret: Secret, door: LoginGate
) -> None:
    bulk(known).deliver(operations(1), deadline=FOREVER)
    secret.rotate("second")
    door.password = "second"
    done: list[int] = []

    def send(start: int) -> None:
        done.append(bulk(known).deliver(operations(10, start), deadline=FOREVER).created)

    threads = [threading.Thread(target=send, args=(100 * number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (done, len(guarded.documents), secret.reads) == ([10] * 4, 41, 2)


def test_ten_minutes_of_a_wrong_password_lose_nothing_and_hammer_nobody(
    guarded: GuardedServer, known: SearchClient, secret: Secret, door: LoginGate, clock: Clock
) -> None:
    door.password = "second"  # and the secret does not know yet
    work, outages = operations(50), 0
    ends = clock.now + 600
    while clock.now < ends:
        with pytest.raises(IndexOutage) as raised:
            bulk(known).deliver(work, deadline=FOREVER)
        assert raised.value.reason == "http_401"
        outages += 1
        clock.now += 1  # Lambda comes again
    assert len(guarded.requests) == outages == 600
    assert secret.reads <= 1 + 600 / LOOK_UP_S
    assert guarded.connections <= 1 + 600 / 60
    secret.rotate("second")
    clock.now += LOOK_UP_S
    assert bulk(known).deliver(work, deadline=FOREVER).created == 50
    assert len(guarded.documents) == 50


@pytest.mark.parametrize("text", ["hunter2", '{"user": "ingest", "password": "hunter2"}'])
def test_a_spoiled_secret_is_an_outage_that_names_it(
    guarded: GuardedServer, known: SearchClient, secret: Secret, text: str
) -> None:
    secret.spoil(text)
    for _ in range(10):
        with pytest.raises(IndexOutage, match="configuration") as raised:
            bulk(known).deliver(operations(), deadline=FOREVER)
        assert secret.arn in str(raised.value)
        assert "hunter2" not in str(raised.value)
    assert (secret.reads, guarded.requests) == (1, [])


def test_a_refusal_that_no_login_mends_keeps_its_meaning(
    guarded: GuardedServer, known: SearchClient, secret: Secret
) -> None:
    guarded.gate = lambda request: (403, "no permissions for [indices:data/write/bulk]")
    for _ in range(3):
        with pytest.raises(IndexOutage, match="no permissions"):
            bulk(known).deliver(operations(), deadline=FOREVER)
    assert (len(guarded.requests), guarded.connections, secret.reads) == (3, 1, 2)


def test_a_function_finds_its_login_by_the_environment(
    guarded: GuardedServer, secret: Secret, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGFLUME_OPENSEARCH_ENDPOINT", guarded.url)
    monkeypatch.setenv("LOGFLUME_OPENSEARCH_AUTH", "basic")
    monkeypatch.setenv("LOGFLUME_OPENSEARCH_SECRET_ARN", secret.arn)
    client = SearchClient(deployed_endpoint())
    assert client.request("GET", "/")[0] == 200
    client.close()


# --- Certificates -----------------------------------------------------------------------------------------------


@pytest.fixture
def private(authority: Authority) -> Iterator[GuardedServer]:
    with guarded_server(tls=authority.server_context()) as server:
        yield server


def test_an_authority_of_ones_own_is_trusted(private: GuardedServer, authority: Authority) -> None:
    client = SearchClient(Endpoint(private.url, ca_file=authority.ca_file))
    for number in range(5):
        assert bulk(client).deliver(operations(1, number), deadline=FOREVER).created == 1
    assert client.opened == private.connections == 1
    client.close()


@pytest.mark.parametrize("trusting", ["another authority", "the public ones"])
def test_a_certificate_nobody_vouches_for_is_an_outage_at_once(
    private: GuardedServer, tmp_path: Path, trusting: str
) -> None:
    ca_file = make_authority(tmp_path, "other").ca_file if trusting == "another authority" else None
    client = SearchClient(Endpoint(private.url, ca_file=ca_file))
    with pytest.raises(IndexOutage, match="CERTIFICATE_VERIFY_FAILED") as raised:
        bulk(client).deliver(operations(), deadline=FOREVER)
    assert (raised.value.reason, private.connections) == ("tls", 1)  # not tried again
    assert f"TLS: {private.url}" in str(raised.value)
    with pytest.raises(CertificateRefused):
        client.request("GET", "/")
    assert private.requests == []
    client.close()


def test_a_certificate_for_another_host_is_refused(private: GuardedServer, authority: Authority) -> None:
    client = SearchClient(Endpoint(private.url.replace("127.0.0.1", "localhost"), ca_file=authority.ca_file))
    with pytest.raises(CertificateRefused, match="TLS"):
        client.request("GET", "/")
    assert private.requests == []
    client.close()


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_without_certificates_is_named(private: GuardedServer, tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(CertificateRefused, match=r"ca\.pem"):
        SearchClient(Endpoint(private.url, ca_file=file)).request("GET", "/")


def test_a_server_that_speaks_no_tls_may_pass(authority: Authority) -> None:
    with guarded_server() as plain:
        client = SearchClient(Endpoint(plain.url.replace("http:", "https:"), ca_file=authority.ca_file))
        with pytest.raises(ConnectionError, match="TLS"):
            client.request("GET", "/")
        client.close()


def test_a_function_finds_its_authority_beside_the_library(
    private: GuardedServer, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGFLUME_OPENSEARCH_ENDPOINT", private.url)
    monkeypatch.setenv("LOGFLUME_OPENSEARCH_CA_FILE", str(authority.ca_file))
    client = SearchClient(deployed_endpoint())
    assert client.request("GET", "/")[0] == 200
    client.close()
    monkeypatch.setenv("LOGFLUME_OPENSEARCH_CA_FILE", "ca.pem")
    library = Path(__file__).parents[2] / "layers/logflume/python"
    assert deployed_endpoint().ca_file == library / "ca.pem"


def test_the_command_line_finds_login_and_authority_by_the_stacks_outputs(
    door: LoginGate, secret: Secret, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "CONFIG_DIR", authority.ca_file.parent)
    with guarded_server(door, authority.server_context()) as server:
        outputs = {
            "OpenSearchEndpoint": server.url,
            "OpenSearchAuth": "basic",
            "OpenSearchSecretArn": secret.arn,
            "OpenSearchCaFile": authority.ca_file.name,
        }
        deployment = Deployment("logs", "aws", outputs, boto3.Session(region_name=REGION))
        assert deployment.opensearch("GET", "/") == (200, {"target": "/"})
        deployment.search_client.close()


@pytest.mark.parametrize("own", [True, False])
def test_verification_is_never_off(authority: Authority, own: bool) -> None:
    context = _verifying(authority.ca_file if own else None)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert (len(context.get_ca_certs()) == 1) == own
