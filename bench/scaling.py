"""Scaling: the whole pipeline in one process, and in two at once on different files, against the linear model.

The model (`bench.capacity`) says: so many invocations at a time do so many times the work of one, and an event costs
each of them the same CPU. Here processes share a machine; so the model's speed-up ends where all cores are used, of
which one process takes more than one (the indexer's senders, and the server that is played, are threads).

    python -m bench.scaling [--events N] [--repeat N]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import generate, measure

EVENTS = 1_000_000
REPETITIONS = 2
PROCESSES = (1, 2)
_GO = "go\n"
# Imports are done before the clock starts: of a warm environment only the work counts.
_WORKER = """
import json, sys, time
from pathlib import Path
from bench import pipeline
print("ready", flush=True)
sys.stdin.readline()
before = time.process_time()
figures = pipeline.run(Path(sys.argv[1]), "text")
print(json.dumps({**figures, "all_cpu_s": time.process_time() - before}), flush=True)
"""


def together(paths: list[Path]) -> dict[str, float]:
    """A process for each file, begun at once: seconds until the last is done, and the CPU seconds of all."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _WORKER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for path in paths
    ]
    for process in processes:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        process.stdout.readline()
    began = time.perf_counter()
    for process in processes:
        assert process.stdin is not None  # noqa: S101
        process.stdin.write(_GO)
        process.stdin.flush()
    printed = [process.communicate()[0] for process in processes]
    seconds = time.perf_counter() - began
    if any(process.returncode for process in processes):
        raise SystemExit("bench: a process failed")
    figures = [json.loads(text) for text in printed]
    return {
        "seconds": seconds,
        "events": sum(one["events"] for one in figures),
        "cpu_s": sum(one["reader_cpu_s"] + one["indexer_cpu_s"] for one in figures),
        "all_cpu_s": sum(one["all_cpu_s"] for one in figures),
    }


def run(events: int = EVENTS, repetitions: int = REPETITIONS) -> dict[str, Any]:
    """The figures: the best of the repetitions of each number of processes, gone in turns."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"access-{number}.gz") for number in range(max(PROCESSES))]
        for seed, path in enumerate(paths):
            generate.write("access", events, path, seed=seed)
        tried: dict[int, list[dict[str, float]]] = {number: [] for number in PROCESSES}
        for _ in range(repetitions):
            for number in PROCESSES:
                tried[number].append(together(paths[:number]))
    cores = os.cpu_count() or 1
    best = {number: min(runs, key=lambda one: one["seconds"]) for number, runs in tried.items()}
    rows = [
        {
            "processes": number,
            "seconds": round(one["seconds"], 2),
            "events_per_s": round(one["events"] / one["seconds"]),
            "cpu_s_per_million": round(one["cpu_s"] / one["events"] * 1e6, 3),
            "speed_up": round(one["events"] / one["seconds"] * best[1]["seconds"] / best[1]["events"], 3),
            "modelled": round(min(number, cores / (best[1]["all_cpu_s"] / best[1]["seconds"])), 3),
        }
        for number, one in best.items()
    ]
    return {"cores": cores, "events_each": events, "repetitions": repetitions, "rows": rows}


def main() -> None:
    """Parse the command line and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--events", type=int, default=EVENTS, metavar="N", help=f"of each process ({EVENTS:,})")
    parser.add_argument("--repeat", type=int, default=REPETITIONS, metavar="N", help=f"the best of N ({REPETITIONS})")
    options = parser.parse_args()
    measure.report(run(options.events, options.repeat))


if __name__ == "__main__":
    main()
