"""The OpenSearch domain that the stack makes: its sizes, what protects it, and that there is none beside another."""

import json
from collections.abc import Callable

import pytest

from infra.config.settings import load
from tests.infra.synthesis import VARIANTS, Synthesised

DOMAIN = "AWS::OpenSearchService::Domain"
WITH_DOMAIN = sorted(variant for variant, context in VARIANTS.items() if load(context).opensearch_domain)


@pytest.fixture(params=WITH_DOMAIN)
def made(request: pytest.FixtureRequest, synthesised: Callable[[str], Synthesised]) -> Synthesised:
    return synthesised(request.param)


@pytest.mark.parametrize("variant", sorted(VARIANTS.keys() - set(WITH_DOMAIN)))
def test_beside_an_opensearch_that_is_there_none_is_made(
    synthesised: Callable[[str], Synthesised], variant: str
) -> None:
    stack = synthesised(variant)
    assert not [each for each in stack.resources.values() if each["Type"].startswith(DOMAIN.rpartition("::")[0])]
    assert stack.outputs()["OpenSearchEndpoint"] == load(VARIANTS[variant]).opensearch_endpoint


def test_the_small_one_is_one_node_and_its_indices_have_no_copies(synthesised: Callable[[str], Synthesised]) -> None:
    stack = synthesised("small")
    domain = stack.properties("Search/Domain")
    assert domain["ClusterConfig"] == {
        "InstanceType": "t3.medium.search",
        "InstanceCount": 1,
        "DedicatedMasterEnabled": False,
        "ZoneAwarenessEnabled": False,
        "MultiAZWithStandbyEnabled": False,
    }
    assert domain["EBSOptions"] == {"EBSEnabled": True, "VolumeType": "gp3", "VolumeSize": 50, "Iops": 3000}
    plan = json.loads(stack.properties("IndexSetup/Templates/Default")["Plan"])
    replicas = {body["template"]["settings"]["index"]["number_of_replicas"] for body in plan["templates"].values()}
    assert replicas == {0}


def test_production_survives_the_loss_of_a_zone(synthesised: Callable[[str], Synthesised]) -> None:
    domain = synthesised("production").properties("Search/Domain")
    cluster = domain["ClusterConfig"]
    assert cluster["ZoneAwarenessEnabled"] is True
    assert cluster["ZoneAwarenessConfig"] == {"AvailabilityZoneCount": 3}
    assert cluster["InstanceCount"] % 3 == 0
    assert (cluster["DedicatedMasterEnabled"], cluster["DedicatedMasterCount"]) == (True, 3)
    assert (domain["EBSOptions"]["VolumeType"], domain["EBSOptions"]["Throughput"]) == ("gp3", 250)


@pytest.mark.parametrize(("gib", "iops"), [(500, 3_000), (1_000, 3_000), (1_024, 3_072), (1_500, 4_500)])
def test_a_larger_disk_has_the_operations_that_the_service_wants_for_it(
    build_template: Callable[[dict[str, str]], Synthesised], gib: int, iops: int
) -> None:
    """It refuses a gp3 volume with fewer than 3 a GiB: LimitExceededException, "IOPS must be between …"."""
    domain = build_template({"profile": "production", "opensearch_domain_gib": str(gib)}).properties("Search/Domain")
    assert (domain["EBSOptions"]["VolumeSize"], domain["EBSOptions"]["Iops"]) == (gib, iops)


def test_it_is_encrypted_at_rest_and_on_every_way(made: Synthesised) -> None:
    domain = made.properties("Search/Domain")
    assert domain["EncryptionAtRestOptions"]["Enabled"] is True
    assert domain["NodeToNodeEncryptionOptions"] == {"Enabled": True}
    assert domain["DomainEndpointOptions"] == {
        "EnforceHTTPS": True,
        "TLSSecurityPolicy": "Policy-Min-TLS-1-2-PFS-2023-10",
    }


def test_its_key_is_the_deployments(synthesised: Callable[[str], Synthesised]) -> None:
    encryption = synthesised("production").properties("Search/Domain")["EncryptionAtRestOptions"]
    assert encryption["KmsKeyId"] == "${Encryption/Key}"
    assert "KmsKeyId" not in synthesised("small").properties("Search/Domain")["EncryptionAtRestOptions"]


def test_only_signed_requests_of_roles_that_name_it_get_in(made: Synthesised) -> None:
    assert "AccessPolicies" not in made.properties("Search/Domain")
    assert made.outputs()["OpenSearchAuth"] == "es"
    for role in ("Indexer/Role", "IndexSetup/Role"):
        assert [each for each in made.permissions(role) if each.startswith("${Search/Domain.Arn}/_")]


def test_its_logs_go_where_they_are_forgotten_and_it_may_write_them(made: Synthesised) -> None:
    published = made.properties("Search/Domain")["LogPublishingOptions"]
    assert set(published) == {"ES_APPLICATION_LOGS", "INDEX_SLOW_LOGS", "SEARCH_SLOW_LOGS"}
    groups = {each["CloudWatchLogsLogGroupArn"] for each in published.values()}
    assert groups == {f"${{{path}.Arn}}" for path in made.of_type("AWS::Logs::LogGroup") if path.startswith("Search/")}
    [statement] = json.loads(made.properties("Search/LogDelivery")["PolicyDocument"])["Statement"]
    assert set(statement["Resource"]) == groups
    assert statement["Principal"] == {"Service": "es.amazonaws.com"}
    assert statement["Condition"] == {"StringEquals": {"aws:SourceAccount": "${AWS::AccountId}"}}
    names = [made.shown({"Ref": name}) for name in made.resources["Search/Domain"]["DependsOn"]]
    assert names == ["${Search/LogDelivery}"]


def test_it_outlives_the_stack_and_a_new_version_is_an_upgrade(made: Synthesised) -> None:
    domain = made.resources["Search/Domain"]
    assert (domain["DeletionPolicy"], domain["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
    assert domain["UpdatePolicy"] == {"EnableVersionUpgrade": True}
    assert domain["Properties"]["SoftwareUpdateOptions"] == {"AutoSoftwareUpdateEnabled": True}


def test_functions_and_command_line_find_it(made: Synthesised) -> None:
    endpoint = "https://${Search/Domain.DomainEndpoint}"
    assert made.outputs()["OpenSearchEndpoint"] == endpoint
    assert made.outputs()["OpenSearchDomain"] == "${Search/Domain}"
    for function in ("Indexer/Function", "IndexSetup/Function"):
        assert made.properties(function)["Environment"]["Variables"]["LOGFLUME_OPENSEARCH_ENDPOINT"] == endpoint
