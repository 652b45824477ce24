"""The default template is what it was: a change of it is seen, and committed on purpose."""

import difflib
from collections.abc import Callable
from pathlib import Path

from tests.infra.snapshot import FILE, normalised

REFRESH = ".venv/bin/python -m tests.infra.snapshot"


def test_the_template_is_the_one_that_was_committed(template_file: Callable[[str], Path]) -> None:
    before, now = FILE.read_text().splitlines(), normalised(template_file("default")).splitlines()
    changes = difflib.unified_diff(before, now, FILE.name, "now", n=6, lineterm="")
    assert before == now, f"if this is meant, run {REFRESH} and commit it:\n" + "\n".join(changes)


def test_neither_assets_nor_paths_of_this_machine_are_in_it() -> None:
    text = FILE.read_text()
    assert "<asset>" in text
    assert str(Path.cwd()) not in text
    assert "/home/" not in text
