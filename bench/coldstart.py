"""Cold start: what each function costs before its first event, by package, and what its layers weigh.

A fresh interpreter loads the handler from the folders that Lambda would give it and nothing else: the function, the
layers as they are built, and of the runtime's own packages boto3, compiled. Nothing is written: what has no byte code
is compiled at every start, as it is there.

    python -m bench.coldstart [FUNCTION...] [--repeat N]
"""

import argparse
import compileall
import importlib.util
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.constructs import bundling
from logflume import limits

FUNCTIONS = ("reader", "indexer", "index_setup")
REPETITIONS = 5
SHOWN_PACKAGES = 12

# What the runtime brings and the layers do not (Lambda guide, "Packages included in the Python runtimes").
RUNTIME = ("boto3", "botocore", "s3transfer")

_ENVIRONMENT = {
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "LOGFLUME_DEPLOYMENT": "bench",
    "LOGFLUME_INDEX_PREFIX": "logs",
    "LOGFLUME_LEDGER_TABLE": "ledger",
    "LOGFLUME_STREAM_NAME": "stream",
    "LOGFLUME_QUEUE_URL": "https://sqs.us-east-1.amazonaws.com/000000000000/queue",
    "LOGFLUME_DLQ_URL": "https://sqs.us-east-1.amazonaws.com/000000000000/dlq",
    "LOGFLUME_DEADLETTER_BUCKET": "dead-letters",
    "LOGFLUME_MAX_OBJECT_BYTES": str(limits.DECODED_MAX_BYTES),
    "LOGFLUME_MAX_RATIO": str(limits.DECODED_MAX_RATIO),
    "LOGFLUME_OPENSEARCH_ENDPOINT": "https://search.example.com",
    "LOGFLUME_OPENSEARCH_AUTH": "es",
    "POWERTOOLS_METRICS_NAMESPACE": "Logflume",
    "PYTHONDONTWRITEBYTECODE": "1",
}

# Everything before it is the interpreter's own start, which Lambda has behind it.
_INIT = """
import sys, time
already, wall, cpu = set(sys.modules), time.perf_counter(), time.process_time()
import handler
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
import json
print(json.dumps({"wall_ms": wall * 1e3, "cpu_ms": cpu * 1e3, "modules": sorted(set(sys.modules) - already)}))
"""
_IMPORT_TIME = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s*(\S+)")


class ColdStarts:
    """Starts functions in fresh interpreters, with the layers for this machine's architecture."""

    def __init__(self, scratch: Path) -> None:
        self.layers = {"dependencies": bundling.dependencies(_architecture()), "library": bundling.library()}
        for name in RUNTIME:
            found = importlib.util.find_spec(name)
            assert found is not None  # noqa: S101 - we import it ourselves
            (origin,) = found.submodule_search_locations or [""]
            shutil.copytree(origin, scratch / name, ignore=shutil.ignore_patterns("data", "__pycache__"))
            if (data := Path(origin, "data")).exists():
                (scratch / name / "data").symlink_to(data)
        compileall.compile_dir(scratch, quiet=1)
        self._runtime = scratch

    def run(self, function: str, code: str, *options: str) -> subprocess.CompletedProcess[str]:
        """What `code` prints in an interpreter that has the function's folders."""
        # As Lambda has them: the function before the layers, these before the runtime.
        folders = [bundling.ROOT / "functions" / function]
        folders += [*(layer / "python" for layer in reversed(self.layers.values())), self._runtime]
        search = {"PYTHONPATH": os.pathsep.join(map(str, folders)), "POWERTOOLS_SERVICE_NAME": function}
        return subprocess.run(
            [sys.executable, "-S", *options, "-c", code],
            env=_ENVIRONMENT | search,
            capture_output=True,
            text=True,
            check=True,
        )

    def init(self, function: str) -> dict[str, Any]:
        """One initialisation: milliseconds by the wall clock and of CPU, and the modules that it loads."""
        figures: dict[str, Any] = json.loads(self.run(function, _INIT).stdout)
        return figures

    def imports_ms(self, function: str) -> dict[str, float]:
        """Milliseconds that importing takes, by top-level package; `handler` includes making its clients."""
        told = self.run(function, "import handler", "-X", "importtime").stderr
        spent: Counter[str] = Counter()
        for microseconds, module in _IMPORT_TIME.findall(told):
            spent[module.partition(".")[0]] += int(microseconds)
        return {name: round(us / 1000, 1) for name, us in spent.most_common()}


def weigh(layer: Path) -> dict[str, Any]:
    """A layer's bytes, zipped and not, in all and by package."""
    zipped: Counter[str] = Counter()
    unzipped: Counter[str] = Counter()
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(layer.rglob("*")):
                if path.is_file():
                    archive.write(path, path.relative_to(layer))
        total = file.tell()
        for entry in archive.infolist():
            package = entry.filename.split("/")[1].removesuffix(".py")
            zipped[package] += entry.compress_size
            unzipped[package] += entry.file_size
    packages = {name: {"zipped": size, "unzipped": unzipped[name]} for name, size in zipped.most_common()}
    return {"zipped_bytes": total, "unzipped_bytes": unzipped.total(), "packages": packages}


def run(functions: list[str], repetitions: int) -> dict[str, Any]:
    """The figures: for each function the median of its initialisations, and what the layers weigh."""
    with tempfile.TemporaryDirectory() as scratch:
        starts = ColdStarts(Path(scratch))
        figures: dict[str, Any] = {"python": platform.python_version(), "functions": {}}
        for function in functions:
            tried = [starts.init(function) for _ in range(repetitions)]
            figures["functions"][function] = {
                **{name: round(statistics.median(one[name] for one in tried), 1) for name in ("cpu_ms", "wall_ms")},
                "modules": len(tried[0]["modules"]),
                "import_ms": starts.imports_ms(function),
            }
        return figures | {"layers": {name: weigh(layer) for name, layer in starts.layers.items()}}


def table(figures: Mapping[str, Any]) -> str:
    """The figures for a person."""
    lines = []
    for name, of in figures["functions"].items():
        lines.append(f"{name}: {of['cpu_ms']} ms of CPU, {of['wall_ms']} ms, {of['modules']} modules; importing, ms")
        lines += [f"  {package:<24}{ms:>9.1f}" for package, ms in list(of["import_ms"].items())[:SHOWN_PACKAGES]]
    for name, of in figures["layers"].items():
        lines.append(f"layer {name}: {of['zipped_bytes']:,} bytes zipped, {of['unzipped_bytes']:,} unzipped")
        packages = list(of["packages"].items())[:SHOWN_PACKAGES]
        lines += [f"  {package:<24}{size['zipped']:>12,}{size['unzipped']:>14,}" for package, size in packages]
    return "\n".join(lines)


def _architecture() -> str:
    return "arm64" if platform.machine() in ("arm64", "aarch64") else "x86_64"


def main() -> None:
    """Parse the command line and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.coldstart", description=__doc__.split("\n\n")[0])
    parser.add_argument("functions", nargs="*", metavar="FUNCTION", help=f"of {', '.join(FUNCTIONS)}; all of them")
    parser.add_argument("--repeat", type=int, default=REPETITIONS, metavar="N", help=f"the median of N ({REPETITIONS})")
    options = parser.parse_args()
    figures = run(options.functions or list(FUNCTIONS), options.repeat)
    print(table(figures), file=sys.stderr)
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
