#!/usr/bin/env python3
"""Predictions of pipeline-profile --what-if against real runs.

    what_if_pair.py BUILD [--rounds N] [--seconds S] [--only NAME]

Stages whose times are given (what_if_stages, `ninja benchmarks`) make pipelines that data threads, storage, a serial device or cores
bound. A pair measures one file, asks for a change, and then runs the file with that change, `--rounds` times in turns, so that what
else the machine does meets both. Prints for each pair how far the prediction was off in the median, and how many of its runs lay within
the bands predicted before them.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

FILE = """
[run]
epochs     = 1
threads    = {threads}
io_threads = {io_threads}
chunk      = {chunk}
folder     = ""
devices    = "{devices}"
precision  = "fp32"

[network]
use     = "quickstart"
classes = 2

[train]
flow = ["tiles", "decode_image", "spin", "batch", "forward_backward", "allreduce", "optimizer", "metrics"]

[train.tiles]
latency = {latency}

[train.decode_image]
size = [32, 32]

[train.spin]
time = {spin}

[train.batch]
size    = {batch}
buffers = {buffers}

[train.optimizer]
learning_rate = 0.01
"""

USUAL = dict(threads=2, io_threads=2, chunk='"auto"', devices="cpu*2", latency=0, spin=1000, batch=32, buffers=3)

# name: changes to the usual file, the question, and changes in the file that answers it.
PAIRS = {
    "threads 1 to 2": (dict(threads=1), "threads=2", dict(threads=2)),
    "threads 2 to 1": (dict(threads=2), "threads=1", dict(threads=1)),
    "spin 2 times as fast": (dict(threads=1), "spin=2x", dict(threads=1, spin=500)),
    "spin half as fast": (dict(threads=1), "spin=0.5x", dict(threads=1, spin=2000)),
    "spin 4 times as fast, 2 threads": (dict(), "spin=4x", dict(spin=250)),
    "storage slow": (dict(spin=100), "storage_latency=10ms", dict(spin=100, latency=10000)),
    "storage fast": (dict(spin=100, latency=10000), "storage_latency=5ms", dict(spin=100, latency=5000)),
    "I/O threads 2 to 6": (dict(spin=100, latency=10000), "io_threads=6", dict(spin=100, latency=10000, io_threads=6)),
    "chunk auto to 16": (dict(), "chunk=16", dict(chunk=16)),
    "chunk 32 to 4": (dict(chunk=32, buffers=2), "chunk=4", dict(chunk=4, buffers=2)),
    "buffers 2 to 4": (dict(buffers=2, chunk=16), "buffers=4", dict(buffers=4, chunk=16)),
    "replicas 1 to 2": (dict(spin=100, devices="cpu"), "replicas=2", dict(spin=100)),
    "replicas 2 to 4": (dict(spin=100), "replicas=4", dict(spin=100, devices="cpu*4")),
    "replicas 2 to 4, data bound": (dict(spin=2000), "replicas=4", dict(spin=2000, devices="cpu*4")),
}


def profile(build, file, seconds, *options):
    # The folder of the bench's plugin belongs to the user who built it.
    environment = dict(os.environ, MILLRACE_PLUGIN_PATH=str(build / "bench"), MILLRACE_PLUGIN_TRUST="any")
    command = [build / "bin/pipeline-profile", file, "--seconds", str(seconds), "--steps", "10", *options]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def number(pattern, text):
    return [float(value) for value in re.search(pattern, text).groups()]


def once(build, files, question, seconds):
    """The rate predicted from one file, and the measured rate of the other."""
    asked = profile(build, files[0], seconds, "--what-if", question)
    real = profile(build, files[1], seconds, "--what-if", "threads=1")
    predicted, low, high = number(re.escape(question) + r": ([\d.]+) images.* between ([\d.]+) and ([\d.]+)", asked)
    [today], [error], [measured] = (number(pattern, text) for pattern, text in (
        (r"measured: +([\d.]+)", asked), (r"simulated: .*?, ([\d.]+) %", asked), (r"measured: +([\d.]+)", real)))
    return dict(today=today, error=error, predicted=predicted, low=low / predicted, high=high / predicted, measured=measured,
                inside=low <= measured <= high)


def pair(build, folder, name, rounds, seconds):
    """How far predictions are off the real runs in the median, and how many of these lie in their bands."""
    before, question, after = PAIRS[name]
    files = []
    for which, changes in (("before", before), ("after", after)):
        files.append(folder / f"{which}.toml")
        files[-1].write_text(FILE.format(**{**USUAL, **changes}))
    runs = [once(build, files, question, seconds) for _ in range(rounds)]
    median = {key: statistics.median(each[key] for each in runs) for key in runs[0]}
    ratio = statistics.median(each["measured"] / each["predicted"] for each in runs)
    inside = sum(each["inside"] for each in runs)
    print(f"{name:<34} today {median['today']:6.0f} (simulated {median['error']:4.1f} % off)  predicted {median['predicted']:6.0f} "
          f"(x {median['low']:.2f} to {median['high']:.2f})  measured {median['measured']:6.0f}  off {100 * (1 / ratio - 1):+5.1f} %  "
          f"{inside} of {rounds} inside", flush=True)
    return abs(1 / ratio - 1), inside


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--only", default="", help="pairs whose name holds this")
    arguments = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name in PAIRS:
            if arguments.only in name:
                found.append(pair(arguments.build.resolve(), pathlib.Path(folder), name, arguments.rounds, arguments.seconds))
    off = sorted(error for error, _ in found)
    print(f"{len(found)} pairs: off by {100 * statistics.median(off):.1f} % in the median, {100 * off[-1]:.1f} % at most; "
          f"{sum(error <= 0.1 for error in off)} within 10 %; {sum(inside for _, inside in found)} of "
          f"{arguments.rounds * len(found)} runs inside their bands (wanted: nine of ten)")


if __name__ == "__main__":
    main()
