"""Layer contents made on this machine: uv brings wheels for Lambda's platform, no Docker."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from logflume.errors import ConfigurationError

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "layers/dependencies/requirements.txt"
LIBRARY = ROOT / "layers/logflume/python"
PIPELINE = ROOT / "infra/config/pipeline.toml"
BUILT = ROOT / ".logflume/layers"
KEPT = 8  # of each kind, the latest used: other branches have theirs, and so has a synthesis that runs beside this one

PYTHON_VERSION = "3.13"
PLATFORMS = {"arm64": "aarch64-manylinux2014", "x86_64": "x86_64-manylinux2014"}

# What interpreters and checkers on this machine left behind.
LEFTOVERS = ("__pycache__", "*.pyc", ".*")

# Where Lambda unpacks layers.
LAYERS_THERE = "/opt"

# Never imported at run time. `bin` holds scripts that begin with a path of the building machine, RECORD lists
# the files that go here; METADATA stays, importlib.metadata reads versions there.
TRIMMED = (
    "bin",
    "**/tests",
    "**/*.pyi",
    "**/py.typed",
    "**/*.pyx",
    "**/*.pxd",
    "**/*.h",
    "**/*.dist-info/RECORD",
)


def dependencies(architecture: str) -> Path:
    """A folder with the locked requirements as wheels for `architecture`, laid out as a layer.

    Installed again only when the requirements, Python, the platform or the rules in this module change; until
    then no network is needed.

    Raises:
        ConfigurationError: uv is missing, or could not install them.
    """
    platform = PLATFORMS[architecture]
    inputs = [REQUIREMENTS.read_bytes(), PYTHON_VERSION.encode(), platform.encode(), Path(__file__).read_bytes()]
    return _built(f"dependencies-{architecture}", inputs, lambda python: _install(python, platform))


def library(ca_file: Path | None = None) -> Path:
    """A folder with the package `logflume` and, beside it, the deployment's pipeline.toml, laid out as a layer.

    `ca_file`, the authority of OpenSearch's certificate, goes there as well.
    """
    files = sorted(path for path in LIBRARY.rglob("*") if path.is_file() and not _left_over(path.relative_to(LIBRARY)))
    inputs = [part for path in files for part in (str(path.relative_to(LIBRARY)).encode(), path.read_bytes())]
    beside = [PIPELINE, *([ca_file] if ca_file else [])]

    def fill(python: Path) -> None:
        shutil.copytree(LIBRARY, python, ignore=shutil.ignore_patterns(*LEFTOVERS))
        for file in beside:
            shutil.copy(file, python)

    inputs += [part for file in beside for part in (file.name.encode(), file.read_bytes())]
    return _built("library", [*inputs, Path(__file__).read_bytes()], fill)


def _left_over(path: Path) -> bool:
    return any(fnmatchcase(part, pattern) for part in path.parts for pattern in LEFTOVERS)


def _built(name: str, inputs: Iterable[bytes], fill: Callable[[Path], None]) -> Path:
    """The folder that `fill` makes of `inputs`, made once.

    It appears under its name only when complete, so an interrupted build leaves nothing that looks like one.
    """
    digest = hashlib.sha256()
    for part in inputs:
        digest.update(len(part).to_bytes(8) + part)
    folder = BUILT / f"{name}-{digest.hexdigest()[:16]}"
    if not folder.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILT) as scratch:
            layer = Path(scratch, "layer")
            layer.mkdir()
            fill(layer / "python")
            _compile(layer)
            try:
                layer.rename(folder)
            except OSError:  # another synthesis was quicker
                if not folder.exists():
                    raise
        _forget(name)
    os.utime(folder)
    return folder


def _forget(name: str) -> None:
    """Remove the folders of this kind that were not used for longest."""
    with suppress(FileNotFoundError):  # another synthesis does the same
        for path in sorted(BUILT.glob(f"{name}-*"), key=lambda path: path.stat().st_mtime)[:-KEPT]:
            shutil.rmtree(path, ignore_errors=True)


def _compile(layer: Path) -> None:
    """Put byte code beside the sources: a layer is read-only, so each cold start would compile all that it imports.

    Without times or paths of this machine, so that equal sources make equal byte code (PEP 552, unchecked).
    """
    command = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    done = subprocess.run(
        [*command, "-s", str(layer), "-p", LAYERS_THERE, str(layer / "python")],
        env={"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ConfigurationError(f"the layer's byte code could not be made:\n{done.stdout.strip()}")


def _install(target: Path, platform: str) -> None:
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        raise ConfigurationError("uv is missing, it builds the dependency layer: run infra/setup.sh")
    command = [uv, "pip", "install", "--quiet", "--color", "never", "--target", str(target)]
    command += ["--python-platform", platform, "--python-version", PYTHON_VERSION, "--only-binary", ":all:"]
    command += ["--require-hashes", "--no-compile-bytecode", "--link-mode", "copy", "-r", str(REQUIREMENTS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigurationError(f"uv could not install the layer's requirements:\n{done.stderr.strip()}")
    for pattern in TRIMMED:
        for path in list(target.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
