"""Network: the subnets and the security group of functions and domain, and the VPC's endpoints to AWS."""

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.config.settings import Settings
from infra.constructs.removal import removal_policy

HTTPS = 443

GATEWAYS = ("s3", "dynamodb")
# What the functions themselves call. Logs and metrics leave a function through Lambda, and Lambda polls the queue and
# the stream outside the VPC.
INTERFACES = ("kinesis-streams", "sqs")
SECRETS = "secretsmanager"

# The network interfaces of a function in a VPC (Lambda guide, "Required IAM permissions"). Lambda makes them with the
# function's role, and EC2 knows no ARN to restrict the descriptions to.
INTERFACE_ACTIONS = (
    *("ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:DescribeNetworkInterfaces"),
    *("ec2:DescribeSubnets", "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses"),
)


class Network(Construct):
    """An existing VPC, named by ids only, so that nothing is looked up and synthesis needs no account."""

    def __init__(self, scope: Construct, name: str, settings: Settings) -> None:
        super().__init__(scope, name)
        self.subnets = settings.subnets
        self.security_group = settings.vpc_security_group_id or self._security_group(settings)
        if settings.vpc_endpoints:
            self._endpoints(settings)

    def place(self, function: lambda_.Function) -> None:
        """Put `function` into the subnets. Its role has to be allowed `INTERFACE_ACTIONS`."""
        resource = function.node.default_child
        assert isinstance(resource, lambda_.CfnFunction)  # noqa: S101 - what a Function is made of
        resource.vpc_config = lambda_.CfnFunction.VpcConfigProperty(
            subnet_ids=self.subnets, security_group_ids=[self.security_group]
        )

    def allow(self) -> list[iam.PolicyStatement]:
        """What the role of a function in the VPC needs."""
        return [iam.PolicyStatement(actions=list(INTERFACE_ACTIONS), resources=["*"])]

    def _security_group(self, settings: Settings) -> str:
        group = ec2.CfnSecurityGroup(
            self,
            "SecurityGroup",
            group_description=f"Logflume deployment {settings.deployment}: HTTPS out, and in from itself",
            vpc_id=settings.vpc_id,
            security_group_egress=[
                ec2.CfnSecurityGroup.EgressProperty(
                    ip_protocol="tcp",
                    from_port=port,
                    to_port=port,
                    cidr_ip="0.0.0.0/0",
                    description="AWS and OpenSearch",
                )
                for port in sorted({HTTPS, settings.opensearch_port})
            ],
        )
        if settings.opensearch_domain:
            # What a domain that stays is in cannot be deleted.
            group.apply_removal_policy(removal_policy(settings))
        ec2.CfnSecurityGroupIngress(
            self,
            "FromItself",
            group_id=group.attr_group_id,
            source_security_group_id=group.attr_group_id,
            ip_protocol="tcp",
            from_port=HTTPS,
            to_port=HTTPS,
            description="endpoints and the domain, from the functions",
        )
        return group.attr_group_id

    def _endpoints(self, settings: Settings) -> None:
        region = Stack.of(self).region
        for service in GATEWAYS:
            ec2.CfnVPCEndpoint(
                self,
                service.capitalize(),
                vpc_endpoint_type="Gateway",
                service_name=f"com.amazonaws.{region}.{service}",
                vpc_id=settings.vpc_id,
                route_table_ids=settings.route_tables,
            )
        secrets = settings.opensearch_secret_arn or settings.http_source_secret_arn
        for service in (*INTERFACES, *([SECRETS] if secrets else [])):
            ec2.CfnVPCEndpoint(
                self,
                service.title().replace("-", ""),
                vpc_endpoint_type="Interface",
                service_name=f"com.amazonaws.{region}.{service}",
                vpc_id=settings.vpc_id,
                subnet_ids=self.subnets,
                security_group_ids=[self.security_group],
                private_dns_enabled=True,
            )
