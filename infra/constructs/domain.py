"""Domain: an OpenSearch made by the stack, in one of two sizes."""

from dataclasses import dataclass

from aws_cdk import Aws, CfnUpdatePolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_opensearchservice as opensearch
from constructs import Construct

from infra.config.settings import Settings
from infra.constructs.acknowledge import acknowledge
from infra.constructs.encryption import Encryption
from infra.constructs.log_group import log_group
from infra.constructs.network import Network
from infra.constructs.removal import removal_policy
from infra.constructs.search_access import SearchAccess

# The version that the tests run against.
ENGINE = "OpenSearch_3.7"
TLS_POLICY = "Policy-Min-TLS-1-2-PFS-2023-10"
LOGS = ("ES_APPLICATION_LOGS", "INDEX_SLOW_LOGS", "SEARCH_SLOW_LOGS")


@dataclass(frozen=True)
class Size:
    """`zones` Availability Zones with a data node each. Throughput in MiB/s of a node's gp3 volume."""

    instance: str
    zones: int
    disk_gib: int
    throughput_mib_s: int | None
    manager: str | None


SIZES = {
    "small": Size("t3.medium.search", 1, 50, None, None),
    "production": Size("r7g.xlarge.search", 3, 1024, 250, "m7g.large.search"),
}
MANAGERS = 3  # one is elected by a majority, so three are the fewest that survive the loss of one
# Included in the price of a gp3 volume, whichever is more; with fewer, OpenSearch Service refuses the domain
# (LimitExceededException, "IOPS must be between 15000 and 20000" for 5 TB).
GP3_IOPS = 3_000
GP3_IOPS_GIB = 3


class Domain(Construct):
    """Encrypted at rest and between nodes, HTTPS only, open to nobody but who may sign for it.

    It has no access policy of its own: AWS then asks the callers' policies alone, and those of our functions name the
    domain and the requests (`access`). The CDK's own Domain would deploy a function of its own for logs and policy.
    """

    def __init__(
        self, scope: Construct, name: str, settings: Settings, *, encryption: Encryption, network: Network | None
    ) -> None:
        super().__init__(scope, name)
        size = SIZES[settings.opensearch_domain]
        disk_gib = settings.opensearch_domain_gib or size.disk_gib
        groups = {kind: log_group(self, kind.title().replace("_", ""), settings, encryption) for kind in LOGS}
        self._domain = opensearch.CfnDomain(
            self,
            "Domain",
            engine_version=ENGINE,
            cluster_config=_cluster(size),
            ebs_options=opensearch.CfnDomain.EBSOptionsProperty(
                ebs_enabled=True,
                volume_type="gp3",
                volume_size=disk_gib,
                iops=max(GP3_IOPS, GP3_IOPS_GIB * disk_gib),
                throughput=size.throughput_mib_s,
            ),
            encryption_at_rest_options=opensearch.CfnDomain.EncryptionAtRestOptionsProperty(
                enabled=True, kms_key_id=encryption.key.key_id if encryption.key else None
            ),
            node_to_node_encryption_options=opensearch.CfnDomain.NodeToNodeEncryptionOptionsProperty(enabled=True),
            domain_endpoint_options=opensearch.CfnDomain.DomainEndpointOptionsProperty(
                enforce_https=True, tls_security_policy=TLS_POLICY
            ),
            log_publishing_options={
                kind: opensearch.CfnDomain.LogPublishingOptionProperty(
                    enabled=True, cloud_watch_logs_log_group_arn=group.log_group_arn
                )
                for kind, group in groups.items()
            },
            software_update_options=opensearch.CfnDomain.SoftwareUpdateOptionsProperty(
                auto_software_update_enabled=True
            ),
            off_peak_window_options=opensearch.CfnDomain.OffPeakWindowOptionsProperty(enabled=True),
            vpc_options=opensearch.CfnDomain.VPCOptionsProperty(
                subnet_ids=network.subnets[: size.zones], security_group_ids=[network.security_group]
            )
            if network
            else None,
        )
        self._domain.apply_removal_policy(removal_policy(settings))
        # A new engine version is an upgrade of this domain, not another domain without what is in this one.
        self._domain.cfn_options.update_policy = CfnUpdatePolicy(enable_version_upgrade=True)
        self._domain.node.add_dependency(self._log_delivery(settings, groups))
        self._acknowledge(size, network)

    @property
    def name(self) -> str:
        """The domain's generated name, a token."""
        return self._domain.ref

    @property
    def access(self) -> SearchAccess:
        """How the functions reach it."""
        return SearchAccess(
            endpoint=f"https://{self._domain.attr_domain_endpoint}", auth="es", resource_arn=self._domain.attr_arn
        )

    def _log_delivery(self, settings: Settings, groups: dict[str, logs.LogGroup]) -> logs.CfnResourcePolicy:
        """OpenSearch is let into its log groups. CloudWatch Logs wants a name, and has ten places in a region."""
        document = iam.PolicyDocument(
            statements=[
                iam.PolicyStatement(
                    principals=[iam.ServicePrincipal("es.amazonaws.com")],
                    actions=["logs:CreateLogStream", "logs:PutLogEvents", "logs:PutLogEventsBatch"],
                    resources=[group.log_group_arn for group in groups.values()],
                    conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
                )
            ]
        )
        stack = Stack.of(self)
        return logs.CfnResourcePolicy(
            self,
            "LogDelivery",
            policy_name=f"{settings.deployment}-domain-logs",
            policy_document=stack.to_json_string(document.to_json()),
        )

    def _acknowledge(self, size: Size, network: Network | None) -> None:
        signed = "no access policy: AWS asks the callers' own policies, which takes a signed request"
        accepted = {"AwsSolutions-OS3": signed, "AwsSolutions-OS5": signed}
        if network is None:
            accepted["AwsSolutions-OS1"] = "without vpc_id there is no VPC to place it in; requests are signed"
        if size.zones == 1:
            alone = "one node, the size to try it with; production has three zones and managers"
            accepted |= {"AwsSolutions-OS4": alone, "AwsSolutions-OS7": alone}
        for rule, reason in accepted.items():
            acknowledge(self._domain, rule, reason)


def _cluster(size: Size) -> opensearch.CfnDomain.ClusterConfigProperty:
    return opensearch.CfnDomain.ClusterConfigProperty(
        instance_type=size.instance,
        instance_count=size.zones,
        dedicated_master_enabled=size.manager is not None,
        dedicated_master_type=size.manager,
        dedicated_master_count=MANAGERS if size.manager else None,
        zone_awareness_enabled=size.zones > 1,
        zone_awareness_config=opensearch.CfnDomain.ZoneAwarenessConfigProperty(availability_zone_count=size.zones)
        if size.zones > 1
        else None,
        # All three zones take writes; a standby would take none, and indices would need two replicas.
        multi_az_with_standby_enabled=False,
    )
