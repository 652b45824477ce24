"""For all tests: what takes how long fails none of them, and which of them share a worker of `pytest -n`.

Services are started once a folder, other fixtures once a file.
"""

import os
from typing import Any

import hypothesis
from xdist.scheduler import LoadScopeScheduling

# Rich keeps the width that it finds when it is imported; a worker has one, and so may a developer's shell.
for variable in ("COLUMNS", "LINES"):
    os.environ.pop(variable, None)

# On a busy machine an example may take any time, and so may making one up.
hypothesis.settings.register_profile("untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("untimed")

# Their session fixtures start services, or synthesise every template.
TOGETHER = frozenset({"e2e", "infra", "integration"})


class ByFolder(LoadScopeScheduling):
    """Hands out whole folders, and files of the others. (xdist's own groups want marks, and a way into node ids.)"""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        folder = file.split("/")[1]
        return folder if folder in TOGETHER else file


def pytest_xdist_make_scheduler(config: Any, log: Any) -> ByFolder:
    return ByFolder(config, log)
