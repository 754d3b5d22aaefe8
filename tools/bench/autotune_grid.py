#!/usr/bin/env python3
"""What pipeline-profile --autotune reaches, compared with an exhaustive grid of settings.

    autotune_grid.py BUILD [--short] [--only NAME] [--rounds N] [--seconds S]

Five pipelines, each with another thing that holds it up, of stages whose times are given (what_if_stages, `ninja benchmarks`). The
settings of a grid of threads, I/O threads, chunks and buffers are run in turns, `--rounds` times each. The best of them and what
--autotune has chosen then run in pairs, since the best of many noisy rates is partly luck. Prints the medians, and the median ratio of
the pairs: 0.95 is required. --short: half an hour becomes five minutes, with a smaller grid that is run once.
"""

import argparse
import itertools
import pathlib
import re
import statistics
import subprocess
import tempfile

import what_if_pair

# name: changes to the usual file of what_if_pair.py.
PIPELINES = {
    "slow storage": dict(latency=10000, spin=100),
    "few data threads": dict(threads=1, spin=2000),
    "large chunks, few batches": dict(chunk=32, buffers=2, spin=1000),
    "small batches": dict(batch=4, spin=200, threads=1),
    "slow storage and slow stages": dict(latency=4000, spin=1500, io_threads=1, buffers=2),
}
GRID = dict(threads=[1, 2, 3], io_threads=[2, 8], chunk=['"auto"', 8], buffers=[2, 4])
SHORT_GRID = dict(threads=[1, 2], io_threads=[2, 8], chunk=['"auto"'], buffers=[2, 4])


def rate(build, file, seconds):
    return what_if_pair.number(r"measured: +([\d.]+)", what_if_pair.profile(build, file, seconds, "--what-if", "threads=1"))[0]


def compare(build, folder, name, grid, rounds, pairs, seconds, tuning):
    """The ratio of the chosen setting to the best of the grid."""
    usual = {**what_if_pair.USUAL, **PIPELINES[name]}
    before = folder / "before.toml"
    before.write_text(what_if_pair.FILE.format(**usual), encoding="utf-8")
    chosen = folder / "chosen.toml"
    chosen.unlink(missing_ok=True)
    what_if_pair.profile(build, before, tuning, "--autotune", "--out", str(chosen))
    files = {"as it is": before}
    for values in itertools.product(*grid.values()):
        setting = dict(zip(grid, values))
        key = " ".join(f"{key}={value}" for key, value in setting.items())
        files[key] = folder / (re.sub(r"\W+", "_", key) + ".toml")
        files[key].write_text(what_if_pair.FILE.format(**{**usual, **setting}), encoding="utf-8")
    rates = {key: [] for key in files}
    for _ in range(rounds):  # alternating, so that other load affects all of them
        for key, file in files.items():
            rates[key].append(rate(build, file, seconds))
    medians = {key: statistics.median(each) for key, each in rates.items()}
    best = max(medians, key=medians.get)
    measured = [(rate(build, chosen, seconds), rate(build, files[best], seconds)) for _ in range(pairs)]
    ratio = statistics.median(one / other for one, other in measured)
    print(f"{name:<30} as it is {medians['as it is']:7.0f}  best of {len(files)} {medians[best]:7.0f} ({best})  in pairs: chosen "
          f"{statistics.median(one for one, _ in measured):7.0f}, best {statistics.median(other for _, other in measured):7.0f}, ratio "
          f"{ratio:.2f}", flush=True)
    return ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", default="", help="pipelines whose name holds this")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float)
    arguments = parser.parse_args()
    rounds, seconds = arguments.rounds or (1 if arguments.short else 3), arguments.seconds or (1 if arguments.short else 2.5)
    grid, pairs, tuning = (SHORT_GRID, 1, 15) if arguments.short else (GRID, 5, 60)
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for name in PIPELINES:
            if arguments.only in name:
                ratios.append(compare(arguments.build.resolve(), pathlib.Path(folder), name, grid, rounds, pairs, seconds, tuning))
    print(f"{sum(ratio >= 0.95 for ratio in ratios)} of {len(ratios)} reach 0.95")


if __name__ == "__main__":
    main()
