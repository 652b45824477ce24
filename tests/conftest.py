"""Which tests share a worker: services are started once a folder, fixtures once a file."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Their session fixtures start services, or synthesise every template.
TOGETHER = frozenset({"e2e", "infra", "integration"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Only matters under `-n`: a group of tests runs in order, on one worker."""
    for item in items:
        where = item.path.relative_to(HERE)
        group = where.parts[0] if where.parts[0] in TOGETHER else where.as_posix()
        item.add_marker(pytest.mark.xdist_group(group))
