"""Inside a VPC: where functions and domain are placed, what lets them talk, and the ways to AWS."""

from collections.abc import Callable

import pytest

from tests.infra.synthesis import ENDPOINT, Synthesised

FUNCTIONS = ["Reader/Function", "Indexer/Function", "IndexSetup/Function"]
PLACED = [*FUNCTIONS, "HttpSource/Function"]
SUBNETS = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1", "subnet-0123456789abcdef2"]
MADE = "${Network/SecurityGroup.GroupId}"


@pytest.fixture
def placed(synthesised: Callable[[str], Synthesised]) -> Synthesised:
    return synthesised("everything")


def endpoints(stack: Synthesised) -> dict[str, str]:
    """Service → path of the VPC's endpoints."""
    return {
        stack.properties(path)["ServiceName"].removeprefix("com.amazonaws.${AWS::Region}."): path
        for path in stack.of_type("AWS::EC2::VPCEndpoint")
    }


@pytest.mark.parametrize("function", PLACED)
def test_the_functions_and_the_domain_are_in_the_subnets(placed: Synthesised, function: str) -> None:
    place = {"SubnetIds": SUBNETS, "SecurityGroupIds": [MADE]}
    assert placed.properties(function)["VpcConfig"] == place
    assert placed.properties("Search/Domain")["VPCOptions"] == place


def test_the_security_group_lets_https_out_and_in_from_itself_only(placed: Synthesised) -> None:
    group = placed.properties("Network/SecurityGroup")
    assert group["VpcId"] == "vpc-0123456789abcdef0"
    assert [(rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) for rule in group["SecurityGroupEgress"]] == [
        ("tcp", 443, 443)
    ]
    assert "SecurityGroupIngress" not in group
    [(_, rule)] = placed.of_type("AWS::EC2::SecurityGroupIngress").items()
    allowed = placed.shown(rule["Properties"])
    assert (allowed["GroupId"], allowed["SourceSecurityGroupId"]) == (MADE, MADE)
    assert (allowed["FromPort"], allowed["ToPort"]) == (443, 443)


def test_a_given_security_group_is_used_as_it_is(synthesised: Callable[[str], Synthesised]) -> None:
    stack = synthesised("vpc")
    assert not stack.of_type("AWS::EC2::SecurityGroup")
    assert stack.properties("Reader/Function")["VpcConfig"]["SecurityGroupIds"] == ["sg-0123456789abcdef0"]


def test_what_the_functions_call_is_reached_without_a_nat_gateway(placed: Synthesised) -> None:
    found = endpoints(placed)
    assert set(found) == {"s3", "dynamodb", "kinesis-streams", "sqs", "secretsmanager"}
    for service in ("s3", "dynamodb"):
        gateway = placed.properties(found[service])
        assert gateway["VpcEndpointType"] == "Gateway"
        assert gateway["RouteTableIds"] == ["rtb-0123456789abcdef0", "rtb-0123456789abcdef1"]
    for service in ("kinesis-streams", "sqs", "secretsmanager"):
        interface = placed.properties(found[service])
        assert (interface["VpcEndpointType"], interface["PrivateDnsEnabled"]) == ("Interface", True)
        assert (interface["SubnetIds"], interface["SecurityGroupIds"]) == (SUBNETS, [MADE])


@pytest.mark.parametrize("variant", ["everything", "vpc"])
def test_the_ways_out_are_there_before_the_index_setup_is_called_and_until_it_has_answered(
    synthesised: Callable[[str], Synthesised], variant: str
) -> None:
    """A custom resource answers through S3. CloudFormation deletes at once what nothing depends on."""
    stack = synthesised(variant)
    first = stack.dependencies("IndexSetup/Templates/Default")
    ways = {path for path in stack.resources if path.startswith("Network/")}
    assert set(endpoints(stack).values()) <= ways
    assert ways <= first


def test_the_security_group_stays_where_a_domain_in_it_stays(
    placed: Synthesised, build_template: Callable[[dict[str, str]], Synthesised]
) -> None:
    group, domain = placed.resources["Network/SecurityGroup"], placed.resources["Search/Domain"]
    for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
        assert group[policy] == domain[policy]
    network = {"vpc_id": "vpc-01234567", "vpc_subnet_ids": "subnet-01234567"}
    without = build_template({"opensearch_endpoint": ENDPOINT} | network)
    assert "DeletionPolicy" not in without.resources["Network/SecurityGroup"]


def test_a_password_is_fetched_through_an_endpoint_too(build_template: Callable[[dict[str, str]], Synthesised]) -> None:
    network = {"vpc_id": "vpc-01234567", "vpc_subnet_ids": "subnet-01234567", "vpc_route_table_ids": "rtb-01234567"}
    secret = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:search-AbCdEf"
    login = {"opensearch_auth": "basic", "opensearch_secret_arn": secret}
    stack = build_template(
        {"opensearch_endpoint": "https://search.internal:9200", "vpc_endpoints": "true"} | network | login
    )
    assert "secretsmanager" in endpoints(stack)
    ports = {rule["FromPort"] for rule in stack.properties("Network/SecurityGroup")["SecurityGroupEgress"]}
    assert ports == {443, 9200}


def test_a_vpc_with_its_own_way_out_gets_no_endpoints(build_template: Callable[[dict[str, str]], Synthesised]) -> None:
    network = {"vpc_id": "vpc-01234567", "vpc_subnet_ids": "subnet-01234567"}
    stack = build_template({"opensearch_endpoint": ENDPOINT} | network)
    assert not endpoints(stack)
    assert stack.properties("Indexer/Function")["VpcConfig"]["SubnetIds"] == ["subnet-01234567"]


def test_without_a_vpc_nothing_of_one_is_there(stack: Synthesised) -> None:
    assert not [each for each in stack.resources.values() if each["Type"].startswith("AWS::EC2::")]
    for function in FUNCTIONS:
        assert "VpcConfig" not in stack.properties(function)
