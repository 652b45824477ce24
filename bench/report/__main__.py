"""Run the experiments and write the report.

python -m bench.report [--only NAME ...] [--render]
"""

import argparse
import sys
import time
from pathlib import Path

from bench.report import page, runs
from bench.report.experiments import EXPERIMENTS

FOLDER = Path(__file__).parent


def main() -> None:
    """Parse the command line, run, write; exit status 1 if a command failed. A missed target is no failure."""
    names = [one.name for one in EXPERIMENTS]
    parser = argparse.ArgumentParser(prog="python -m bench.report", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"of {', '.join(names)}")
    parser.add_argument("--render", action="store_true", help="run nothing: write the page from the kept results")
    options = parser.parse_args()
    failed, began = False, time.monotonic()
    if not options.render:
        with runs.files() as made:
            for experiment in EXPERIMENTS:
                if options.only is None or experiment.name in options.only:
                    result = runs.run(experiment, made)
                    runs.keep(result, FOLDER / page.RESULTS)
                    page.write(EXPERIMENTS, FOLDER)  # after each: what ends early leaves a report, too
                    failed |= bool(result.errors)
    page.write(EXPERIMENTS, FOLDER)
    print(f"bench: {page.PAGE} written after {time.monotonic() - began:.0f} s", file=sys.stderr)
    sys.exit(failed)


if __name__ == "__main__":
    main()
