#!/usr/bin/env python3
"""What checkpoints cost: pairs of runs on the CPU, one with `[checkpoint] every = "50 steps"` and one without, in turns.

usage: checkpoint_cost.py [--network resnet50] [--side 224] [--precision auto] [--batch 32] [--steps 200] [--every 50] [--rounds 3]

Both runs train the same network with SGD and momentum on JPEG files that `pipeline-data shapes` draws. Of each pair it prints
images/s and processor time (user and system, of all threads) of both runs; and of the run with checkpoints how many it wrote,
how long training stood still for all of them and for the longest, how long the writer took, and three shares in percent:
the pauses' share of the run's time, the share of the processor time that the writer's thread took, and how much more processor
time the run took than the one without. The last one and images/s move with whatever else the machine does; the first two do not.
Images/s and the pauses' share are of whole runs without their first steps, in which the network is compiled. The last line is a row of README.md's table.
PIPELINE_RUN and PIPELINE_DATA name other programs than those of build/release.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parents[2]
WARM_UP = 2  # steps that are not counted
PIPELINE = """
[run]
name = "cost"
epochs = {epochs}
seed = 1
folder = "{runs}"
precision = "{precision}"
[network]
use = "{network}"
classes = 10
[train]
flow = ["read", "decode_image", "batch", "forward_backward", "allreduce", "optimizer", "metrics"]
[train.read]
stage = "read_folder"
path = "{images}/train"
shuffle = "every-epoch"
[train.decode_image]
size = [{side}, {side}]
[train.batch]
size = {batch}
[train.forward_backward]
loss = "cross_entropy"
[train.optimizer]
momentum = 0.9
learning_rate = {{ initial = 0.01 }}
"""
CHECKPOINT = """
[checkpoint]
every = "{every} steps"
keep = 2
"""


def program(name):
    return os.environ.get(name.upper().replace("-", "_"), str(HERE / "build/release/bin" / name))


def draw_images(folder, options):
    """As many as a stretch between two checkpoints takes, so that an epoch is such a stretch."""
    count = options.batch * min(options.every, options.steps)
    done = subprocess.run([program("pipeline-data"), "shapes", folder, "--count", str(count), "--validation", "10", "--size",
                           str(options.side)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return count


def processor_time_of(process, thread):
    """Seconds that the thread of this name has taken so far."""
    for task in pathlib.Path(f"/proc/{process}/task").glob("*"):
        try:
            name, figures = re.fullmatch(r"\d+ \((.*)\) (.*)\n", (task / "stat").read_text(), re.DOTALL).groups()
        except OSError:
            continue
        if name == thread:
            return sum(map(int, figures.split()[11:13])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def measure(work, images, options, count, with_checkpoints):
    """One run: its figures."""
    runs = tempfile.mkdtemp(dir=work)
    text = PIPELINE.format(epochs=-(-options.steps * options.batch // count), runs=runs, precision=options.precision,
                           network=options.network, images=images, side=options.side, batch=options.batch)
    file = work / "cost.toml"
    file.write_text(text + (CHECKPOINT.format(every=options.every) if with_checkpoints else "\n[checkpoint]\nevery = \"never\"\n"))
    with open(work / "out", "w+") as out, open(work / "err", "w+") as err:
        child = subprocess.Popen([program("pipeline-run"), file, "--json", "--quiet"], stdout=out, stderr=err)
        writer, status = 0.0, None
        while status is None:
            writer = max(writer, processor_time_of(child.pid, "checkpoints"))
            ended, status, usage = os.wait4(child.pid, os.WNOHANG)
            if ended == 0:
                status = None
                time.sleep(0.1)
        if status != 0:
            err.seek(0)
            sys.exit(err.read())
    [lines] = pathlib.Path(runs).glob("*/latest/metrics.jsonl")
    events = [json.loads(line) for line in lines.read_text().splitlines()]
    steps = [e for e in events if e["event"] == "step"]
    end = next(e for e in events if e["event"] == "end")
    written = [e for e in events if e["event"] == "checkpoint"]
    first = steps[min(WARM_UP, len(steps) - 2)]
    seconds = end["elapsed_seconds"] - first["elapsed_seconds"]
    return {
        "speed": options.batch * (steps[-1]["step"] - first["step"]) / (steps[-1]["elapsed_seconds"] - first["elapsed_seconds"]),
        "seconds": seconds,
        "processor": usage.ru_utime + usage.ru_stime,
        "count": len(written),
        "pauses": [e["stood_still_seconds"] for e in written],
        "writer": writer,
        "writing": sum(e["seconds"] for e in written),
        "megabytes": max((e["bytes"] for e in written), default=0) / 1e6,
    }


def report(saved, plain):
    """Prints one pair. Returns the pauses' share, the writer's, the processor time's, and the ratio of images/s."""
    if saved["count"] == 0:
        sys.exit("the run wrote no checkpoint: give --steps at least the number of --every")
    pauses = 100 * sum(saved["pauses"]) / saved["seconds"]
    writer = 100 * saved["writer"] / saved["processor"]
    processor = 100 * (saved["processor"] / plain["processor"] - 1)
    print(f"  with {saved['speed']:.2f} images/s, {saved['processor']:.1f} s of processor time; without {plain['speed']:.2f} "
          f"images/s, {plain['processor']:.1f} s; {saved['count']} checkpoints of {saved['megabytes']:.1f} MB: training stood still "
          f"{sum(saved['pauses']):.3f} s, at most {max(saved['pauses']):.3f} s; writing took {saved['writing']:.2f} s; "
          f"share of the run: pauses {pauses:.2f} %, writer {writer:.2f} %, processor time {processor:+.2f} %", flush=True)
    return pauses, writer, processor, saved["speed"] / plain["speed"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--precision", default="auto", help="auto: bf16 where the processor multiplies it, else fp32")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=int, default=50, help="steps from one checkpoint to the next")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    shares, longest = [], []
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        count = draw_images(work / "images", options)
        for round_ in range(options.rounds):
            figures = {}
            for with_checkpoints in (True, False) if round_ % 2 == 0 else (False, True):
                figures[with_checkpoints] = measure(work, work / "images", options, count, with_checkpoints)
            shares.append(report(figures[True], figures[False]))
            longest.append(max(figures[True]["pauses"]))
    pauses, writer, processor, ratio = (statistics.median(column) for column in zip(*shares))
    print(f"\n| {options.network}, batch {options.batch}, a checkpoint each {options.every} steps | {pauses:.2f} % | {max(longest):.3f} s | "
          f"{writer:.2f} % | {processor:+.2f} % | {ratio:.3f} |")


if __name__ == "__main__":
    main()
