"""Running an experiment: its files made, its commands run one after the other, what they printed kept as JSON."""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import generate, measure
from bench.report.model import Experiment, Result
from bench.targets import YARDSTICK_EVENTS

ROOT = Path(__file__).parents[2]
COMMAND_S = 900  # the longest that one command may take
_YARDSTICK_TRIES = 3
_LIBRARIES = ("isal", "backports.zstd", "msgpack", "msgspec", "opensearch-py", "boto3")
_ERROR_CHARACTERS = 300


class Files:
    """Generated files in a folder, each made when it is first asked for: `KIND-EVENTS.gz` or `KIND-EVENTS.log`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """The file of this name."""
        path = self.folder / name
        if not path.exists():
            kind, _, events = path.stem.partition("-")
            generate.write(kind, int(events), path)
        return path

    def yardstick(self) -> float:
        """CPU seconds per million access log lines, inflated and compressed with zstd-1, now: the best of a few."""
        path = self.path(f"access-{YARDSTICK_EVENTS}.gz")
        return min(measure.calibrate(path, measure.inflate) for _ in range(_YARDSTICK_TRIES)) / YARDSTICK_EVENTS * 1e6


@contextmanager
def files() -> Iterator[Files]:
    """Files in a folder that is removed at the end."""
    with tempfile.TemporaryDirectory() as folder:
        yield Files(Path(folder))


def run(experiment: Experiment, made: Files) -> Result:
    """Run the experiment's commands; what one of them fails with is kept in its figures' place."""
    began, started = datetime.now(UTC), time.monotonic()
    before = made.yardstick()
    commands: dict[str, str] = {}
    figures: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for command in experiment.commands:
        commands[command.label] = " ".join(("python -m", *(one.removeprefix("@") for one in command.arguments)))
        _tell(f"{experiment.name}: {commands[command.label]}")
        try:
            figures[command.label] = command.read(_printed(command.arguments, made))
        except (subprocess.SubprocessError, ValueError) as error:
            errors[command.label] = _without_paths(_reason(error), made)
            _tell(f"{experiment.name}: FAILED: {errors[command.label]}")
    return Result(
        experiment.name,
        f"{began:%Y-%m-%d %H:%M} UTC",
        round(time.monotonic() - started, 1),
        machine(),
        versions(),
        round(before, 3),
        round(made.yardstick(), 3),
        commands,
        figures,
        errors,
    )


def keep(result: Result, folder: Path) -> None:
    """Write results/NAME.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{result.name}.json").write_text(json.dumps(asdict(result), indent=1) + "\n", encoding="utf-8")


def _printed(arguments: tuple[str, ...], made: Files) -> str:
    """What the command prints. Raises `SubprocessError` if it fails or takes too long."""
    given = [str(made.path(one[1:])) if one.startswith("@") else one for one in arguments]
    return subprocess.run(
        [sys.executable, "-m", *given], cwd=ROOT, capture_output=True, text=True, check=True, timeout=COMMAND_S
    ).stdout


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        said = (error.stderr or error.stdout or "").strip().splitlines()
        return f"exit status {error.returncode}: {said[-1] if said else 'it said nothing'}"
    return f"not over after {COMMAND_S} s" if isinstance(error, subprocess.TimeoutExpired) else str(error)


def _without_paths(text: str, made: Files) -> str:
    """The text without the paths of this machine, which are nobody's business."""
    for path in (made.folder, ROOT, Path.home()):
        text = text.replace(str(path), "…")
    return text[:_ERROR_CHARACTERS]


def machine() -> Mapping[str, str]:
    """Processor, cores, memory and system; no names of hosts."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor() or "unknown",
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": model,
        "cores": str(os.cpu_count()),
        "memory": f"{memory / 2**30:.0f} GiB",
        "system": f"{platform.system()} on {platform.machine()}",
    }


def versions() -> Mapping[str, str]:
    """Python and the libraries that matter for speed."""
    return {"Python": platform.python_version(), **{name: importlib.metadata.version(name) for name in _LIBRARIES}}


def _tell(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)
