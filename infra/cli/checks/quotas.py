"""Quotas: what the account allows, against what this deployment may come to need; and the alarms that ring."""

from collections.abc import Iterable

from infra.cli.alarms import alarm_states
from infra.cli.checks.finding import Finding, Group, fail, ok, warn
from infra.cli.deployment import Deployment
from infra.cli.event_sources import EventSources
from infra.cli.terminal import number

NEARLY_ALL = 0.9
_RAISE = "ask for more in Service Quotas"


def concurrency(deployment: Deployment) -> Iterable[Finding]:
    """Lambda's invocations at a time: what both functions may take, and what the account has to give."""
    free = deployment.lambda_.get_account_settings()["AccountLimit"]["UnreservedConcurrentExecutions"]
    sources = EventSources(deployment)
    readers = int(sources.get("reader").get("ScalingConfig", {}).get("MaximumConcurrency", 0))
    shards = deployment.kinesis.describe_stream_summary(StreamName=deployment["StreamName"])
    each = int(sources.get("indexer").get("ParallelizationFactor", 1))
    indexers = shards["StreamDescriptionSummary"]["OpenShardCount"] * each
    said = f"{readers} readers and {indexers} indexers at a time at most, the account has {free:,}"
    if readers + indexers > free:
        yield warn(
            f"{said}: the rest is throttled, and waits",
            f"{_RAISE} (Lambda, concurrent executions), or deploy with a lower reader_concurrency",
        )
    else:
        yield ok(said)


def shards(deployment: Deployment) -> Iterable[Finding]:
    """Kinesis: shards and on-demand streams of the account and region, all deployments and others together."""
    limits = deployment.kinesis.describe_limits()
    used = {
        "shards": (limits["OpenShardCount"], limits["ShardLimit"]),
        "on-demand streams": (limits["OnDemandStreamCount"], limits["OnDemandStreamCountLimit"]),
    }
    scarce = {name: pair for name, pair in used.items() if pair[1] and pair[0] >= NEARLY_ALL * pair[1]}
    for name, (count, limit) in scarce.items():
        found = fail if count > limit else warn
        yield found(f"{count:,} of {limit:,} {name} of this account are in use", f"{_RAISE} (Kinesis Data Streams)")
    if not scarce:
        yield ok(", ".join(f"{count:,} of {limit:,} {name}" for name, (count, limit) in used.items()) + " in use")


def alarms(deployment: Deployment) -> Iterable[Finding]:
    """Which of the deployment's alarms ring."""
    states = alarm_states(deployment)
    for state in states:
        if state.ringing:
            yield warn(f"{state.name} rings: {state.means}", f"see {state.runbook}")
    if missing := [state.name for state in states if state.state == "missing"]:
        yield warn(f"{number(len(missing), 'alarm')} missing: {', '.join(missing)}", "`cdk deploy` makes them")
    if not any(state.ringing or state.state == "missing" for state in states):
        yield ok(f"none of {len(states)} alarms rings")


GROUP = Group({"concurrency": concurrency, "shards": shards, "alarms": alarms})
