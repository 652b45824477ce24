"""Java 21 or newer: found on the machine, or known to be missing."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MINIMUM_VERSION = 21  # OpenSearch 3

# Where Linux distributions, SDKMAN, asdf, Homebrew and macOS's installers put Java homes.
USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/*",
    "/opt/java/*",
    "~/.sdkman/candidates/java/*",
    "~/.asdf/installs/java/*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/Library/Java/JavaVirtualMachines/*/Contents/Home",
)


class Java(NamedTuple):
    """A Java home that runs, and what it brings: trimmed ones lack modules and languages."""

    home: Path
    version: int
    modules: frozenset[str]
    thai: bool

    @property
    def executable(self) -> Path:
        """The `java` to run."""
        return self.home / "bin" / "java"

    @property
    def library(self) -> Path:
        """The JVM as a shared library."""
        folder = self.home / "lib" / "server"
        return next(path for name in ("libjvm.so", "libjvm.dylib") if (path := folder / name).exists())


def find_java(*extra: Path) -> Java | None:
    """The first Java of at least MINIMUM_VERSION: of JAVA_HOME, PATH, the usual places and then `extra` homes."""
    seen = set()
    for home in (*_candidates(), *extra):
        resolved = home.resolve()
        if resolved in seen or not (resolved / "bin" / "java").exists() or _declared_too_old(resolved):
            continue
        seen.add(resolved)
        java = examine(resolved)
        if java and java.version >= MINIMUM_VERSION and (resolved / "lib" / "server").is_dir():
            return java
    return None


def examine(home: Path) -> Java | None:
    """Ask a Java home what it is; None when it does not run."""
    try:
        answer = subprocess.run(
            [home / "bin" / "java", "-XshowSettings:locale", "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stderr
        listing = subprocess.run(
            [home / "bin" / "java", "--list-modules"], capture_output=True, text=True, timeout=60, check=False
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r'version "(?:1\.)?(\d+)', answer)
    if version is None:
        return None
    modules = frozenset(line.partition("@")[0] for line in listing.split())
    return Java(home, int(version[1]), modules, thai=bool(re.search(r"\bth_TH\b", answer)))


def _declared_too_old(home: Path) -> bool:
    """Whether the home's own `release` file names an older version: spares the half second of asking."""
    try:
        version = re.search(r'JAVA_VERSION="(?:1\.)?(\d+)', (home / "release").read_text())
    except OSError:
        return False
    return version is not None and int(version[1]) < MINIMUM_VERSION


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if executable := shutil.which("java"):
        yield Path(executable).resolve().parents[1]
    for place in USUAL_PLACES:
        pattern = Path(place).expanduser()
        # Newest names first: java-25 before java-21.
        yield from sorted(Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor))), reverse=True)
