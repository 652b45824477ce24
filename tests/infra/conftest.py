"""Each variant of the stack is synthesised once a session, in one jsii process."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.infra.synthesis import VARIANTS, Synthesised, build


@pytest.fixture(scope="session")
def template_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The template file of a variant."""
    files: dict[str, Path] = {}

    def synthesise(variant: str) -> Path:
        if variant not in files:
            app, stack = build(VARIANTS[variant], tmp_path_factory.mktemp(variant))
            files[variant] = Path(app.synth().get_stack_by_name(stack.stack_name).template_full_path)
        return files[variant]

    return synthesise


@pytest.fixture(scope="session")
def synthesised(template_file: Callable[[str], Path]) -> Callable[[str], Synthesised]:
    """A variant, read."""
    return lambda variant: Synthesised(json.loads(template_file(variant).read_text()))


@pytest.fixture
def build_template(tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, str]], Synthesised]:
    """A stack of any context, for one test."""

    def synthesise(context: dict[str, str]) -> Synthesised:
        app, stack = build(context, tmp_path_factory.mktemp("stack"))
        made = Path(app.synth().get_stack_by_name(stack.stack_name).template_full_path)
        return Synthesised(json.loads(made.read_text()))

    return synthesise


@pytest.fixture(scope="session")
def stack(synthesised: Callable[[str], Synthesised]) -> Synthesised:
    """The default deployment."""
    return synthesised("default")


@pytest.fixture(scope="session", params=VARIANTS)
def each_stack(request: pytest.FixtureRequest, synthesised: Callable[[str], Synthesised]) -> Synthesised:
    """Every variant in turn."""
    return synthesised(request.param)
