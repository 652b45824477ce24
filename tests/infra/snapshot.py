"""Snapshot of the default template, for a person to see what a change really deploys.

.venv/bin/python -m tests.infra.snapshot        writes it anew; commit it with the change that it shows
"""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from tests.infra.synthesis import VARIANTS, build

FILE = Path(__file__).parent / "snapshots/default.json"

# File names of assets are hashes of their content: they change with every line of code.
_ASSET = re.compile(r"\b[0-9a-f]{64}\b")


def normalised(template: Path) -> str:
    """The template as text, one value a line, without what changes with every line of code."""
    content = json.loads(template.read_text())
    for resource in content["Resources"].values():
        resource.get("Metadata", {}).pop("aws:asset:path", None)
        plan = resource.get("Properties", {}).get("Plan")
        if plan is not None:
            resource["Properties"]["Plan"] = _outline(json.loads(plan))
    return _ASSET.sub("<asset>", json.dumps(content, indent=2, ensure_ascii=False)) + "\n"


def _outline(plan: Any) -> dict[str, list[str]]:
    """The names that a plan of index templates installs; their bodies have tests of their own."""
    return {kind: sorted(bodies) for kind, bodies in plan.items() if isinstance(bodies, dict)}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        app, stack = build(VARIANTS["default"], Path(folder))
        made = Path(app.synth().get_stack_by_name(stack.stack_name).template_full_path)
        FILE.write_text(normalised(made))
