"""Index templates: what the deployment installed, against what the server has now and what pipeline.toml says today."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from infra.cli.checks.finding import Finding, fail, ok, unknown, warn
from infra.cli.configuration import loaded
from infra.cli.deployment import Deployment
from infra.cli.errors import CannotRun
from infra.cli.terminal import number, printable
from logflume.errors import ConfigurationError
from logflume.index_setup import POLICIES, TEMPLATES, Changes, IndexSetup
from logflume.serverless import SERVICE
from logflume.templates import Options, Plan, plan, prefix

RESOURCE_TYPE = "Custom::LogflumeIndexTemplates"
INSTALL_PATIENCE_S = 30.0
# Any date: what a new index would be called.
_DATE = "2099.01.01"
_AGAIN = "`logflume doctor --install-templates` installs them again; do it before an index is made without them"
_NOT_OURS = "this deployment leaves the templates to you (manage_templates = false)"


def templates(deployment: Deployment) -> Iterable[Finding]:
    """Whether every template is there as it was installed, and is the one that counts."""
    planned = deployed_plan(deployment)
    if planned is None:
        yield unknown(_NOT_OURS)
        return
    status, answer = deployment.opensearch("GET", f"{TEMPLATES}/{prefix(deployment.name)}*")
    there = {one["name"]: one["index_template"] for one in answer["index_templates"]} if status == 200 else {}
    missing = sorted(planned.templates.keys() - there.keys())
    changed = sorted(
        name for name, body in planned.templates.items() if name in there and not _holds(there[name], body)
    )
    overruled = sorted(_overruled(deployment, planned, there.keys() - set(changed)))
    if missing:
        yield fail(printable(f"{number(len(missing), 'template')} missing: {', '.join(missing)}"), _AGAIN)
    if changed:
        yield fail(printable(f"{number(len(changed), 'template')} changed by somebody: {', '.join(changed)}"), _AGAIN)
    if overruled:
        yield warn(
            printable(f"a template of higher priority takes the place of {', '.join(overruled)}"),
            "`GET _index_template` lists all: lower the other's priority or narrow its index_patterns",
        )
    if not (missing or changed or overruled):
        yield ok(f"{number(len(planned.templates), 'template')} as deployed")


def retention(deployment: Deployment) -> Iterable[Finding]:
    """Whether what deletes old indices is there."""
    planned = deployed_plan(deployment)
    if planned is None or not planned.policies:
        yield ok("nothing is to be deleted by age" if planned else _NOT_OURS)
        return
    missing = [name for name in planned.policies if deployment.opensearch("GET", f"{POLICIES}/{name}")[0] != 200]
    if missing:
        yield fail(printable(f"{number(len(missing), 'ISM policy')} missing: {', '.join(sorted(missing))}"), _AGAIN)
    else:
        yield ok(f"{len(planned.policies)} ISM policies as deployed")


def pipeline(deployment: Deployment) -> Iterable[Finding]:
    """Whether pipeline.toml, as it lies here, names the indices and fields that were deployed."""
    planned = deployed_plan(deployment)
    if planned is None:
        yield unknown(_NOT_OURS)
        return
    options = Options(
        deployment=deployment.name,
        index_prefix=deployment["IndexPrefix"],
        serverless=deployment["OpenSearchAuth"] == SERVICE,
    )
    try:
        here = plan(loaded()[1], options)
    except (CannotRun, ConfigurationError) as error:
        yield warn(printable(f"infra/config/pipeline.toml is wrong: {error}"), "`logflume check` tells each place")
        return
    names = sorted(
        name
        for name in planned.templates.keys() | here.templates.keys()
        if _of_sources(planned.templates.get(name)) != _of_sources(here.templates.get(name))
    )
    if names:
        text = f"infra/config/pipeline.toml here differs from what is deployed: {', '.join(names)}"
        yield warn(printable(text), "`cdk deploy` if it is to be so; on another's machine ask whose is the newer one")
    else:
        yield ok("infra/config/pipeline.toml here names the indices and fields that are deployed")


def install(deployment: Deployment) -> Changes:
    """Install what was deployed once more. Raises `IndexSetupError`, `CannotRun` where there is nothing to install."""
    planned = deployed_plan(deployment)
    if planned is None:
        raise CannotRun(_NOT_OURS)
    setup = IndexSetup(deployment.search_client, deployment.name, deadline=time.monotonic() + INSTALL_PATIENCE_S)
    return setup.install(planned)


def deployed_plan(deployment: Deployment) -> Plan | None:
    """The plan in the deployed stack's own template; None where it manages no templates."""
    cloudformation = deployment.session.client("cloudformation", endpoint_url=deployment.endpoint_url)
    body: Any = cloudformation.get_template(StackName=deployment.name)["TemplateBody"]
    stack = json.loads(body) if isinstance(body, str) else body
    for resource in stack["Resources"].values():
        if resource["Type"] == RESOURCE_TYPE:
            return msgspec.json.decode(resource["Properties"]["Plan"], type=Plan)
    return None


def _overruled(deployment: Deployment, planned: Plan, there: Iterable[str]) -> Iterator[str]:
    """Those of our templates whose mappings a new index would not get."""
    if deployment["OpenSearchAuth"] == SERVICE:
        return
    for name in there & planned.templates.keys():
        body = planned.templates[name]
        index = body["index_patterns"][0].replace("*", _DATE)
        status, answer = deployment.opensearch("POST", f"{TEMPLATES}/_simulate_index/{index}")
        if status == 200 and not _holds(answer["template"], {"mappings": body["template"]["mappings"]}):
            yield name


def _holds(there: Mapping[str, Any], planned: Mapping[str, Any]) -> bool:
    """Whether everything planned is there; servers add defaults, write figures as text, and unfold dotted names."""
    return _flat(planned).items() <= _flat(there).items()


def _flat(value: Any, path: str = "") -> dict[str, str]:
    match value:
        case Mapping():
            found: dict[str, str] = {}
            for name, member in value.items():
                found |= _flat(member, path if name == "properties" else f"{path}.{name}")
            return found
        case list():
            found = {}
            for place, member in enumerate(value):
                found |= _flat(member, f"{path}.{place}")
            return found
        case _:
            return {path: str(value).lower()}


def _of_sources(template: Mapping[str, Any] | None) -> Any:
    """The part of a template that comes from pipeline.toml, not from the deployment's settings."""
    if template is None:
        return None
    return template["index_patterns"], template["template"]["mappings"], template["_meta"]["sources"]
