#!/usr/bin/env python3
"""Forecasts of pipeline-profile for several machines against real runs.

    scaling_pair.py BUILD [--ranks 1,2,4] [--links 100,300,1000] [--tcp reno] [--seconds S]

Each rank has a network namespace of its own, which is a machine to Millrace: a virtual Ethernet of the given speed (Mb/s, token
buckets of tc on what it sends and what it gets) leads from it to a bridge. One rank alone is measured, --forecast asks it for more, and then the ranks
run. Each rank is bound to a core. Where there are more of them than cores, each may use an equal part of one, also when it runs alone:
a control group gives it some of every 4 milliseconds. Needs root, iproute2, and tc's tbf.
"""

import argparse
import contextlib
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

NETWORK = """
input  = { channels = 3, height = 32, width = 32 }
layers = [
  { op = "conv", out = 16, kernel = 3, padding = 1 }, { op = "relu" }, { op = "max_pool", kernel = 2 },
  { op = "flatten" }, { op = "linear", out = 256 }, { op = "relu" }, { op = "linear", out = 2 },
]
"""

FILE = """
[run]
epochs    = 100
folder    = ""
precision = "fp32"
devices   = "cpu"

[network]
use = "network.toml"

[train]
flow = ["tiles", "decode_image", "batch", "forward_backward", "allreduce", "optimizer", "metrics"]

[train.decode_image]
size = [32, 32]

[train.batch]
size = 32

[train.optimizer]
learning_rate = 0.01
"""


def ip(*words):
    subprocess.run(["ip", *words], check=True)


@contextlib.contextmanager
def machines(count, mbits, tcp):
    """So many namespaces, each with a link of its own; 10.9.0.1 is the first one's address."""
    ip("link", "add", "hub", "type", "bridge")
    ip("link", "set", "hub", "up")
    names = [f"millrace{number}" for number in range(count)]
    try:
        for number, name in enumerate(names):
            ip("netns", "add", name)
            ip("link", "add", f"port{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", f"port{number}", "master", "hub", "up")
            ip("-n", name, "addr", "add", f"10.9.0.{number + 1}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", "eth0", "up")
            burst = max(64_000, int(mbits * 1e6 / 8 / 400))  # less slows down a fast link, more lets it exceed its rate
            limit = ["root", "tbf", "rate", f"{mbits}mbit", "burst", str(burst), "latency", "200ms"]
            subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", "eth0", *limit], check=True)
            subprocess.run(["tc", "qdisc", "add", "dev", f"port{number}", *limit], check=True)
            subprocess.run(["ip", "netns", "exec", name, "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={tcp}"], check=True)
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False)
        ip("link", "del", "hub")


@contextlib.contextmanager
def parts_of_cores(count):
    """So many control groups; what runs in one has an equal part of a core, a tenth of which stays for the kernel's network."""
    period, part = 4000, min(1, 0.9 * os.cpu_count() / count)
    root = pathlib.Path("/sys/fs/cgroup")
    is_unified = (root / "cgroup.controllers").exists()
    groups = [(root if is_unified else root / "cpu") / f"millrace{number}" for number in range(count)]
    limits = {"cpu.max": f"{round(part * period)} {period}"} if is_unified else {
        "cpu.cfs_period_us": str(period), "cpu.cfs_quota_us": str(round(part * period))}
    try:
        for group in groups:
            group.mkdir()
            for name, value in limits.items() if part < 1 else ():
                (group / name).write_text(value, encoding="ascii")
        yield groups
    finally:
        for group in groups:
            group.rmdir()


class Profiles:
    def __init__(self, build, folder, seconds, groups):
        self.program, self.folder, self.seconds, self.groups = build / "bin/pipeline-profile", folder, seconds, groups
        self.environment = dict(os.environ, MILLRACE_PLUGIN_PATH=str(build / "bench"), MILLRACE_PLUGIN_TRUST="any",
                                MILLRACE_JOB_KEY="a key of this bench")

    def start(self, machine, rank, *options):
        enter = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', self.groups[rank] / "cgroup.procs"]
        core = str(rank % os.cpu_count())
        command = [*enter, "ip", "netns", "exec", machine, "taskset", "-c", core, self.program, "pipeline.toml", *options]
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True)

    def forecast(self, machine, most, mbits):
        """What one rank predicts: images a second by number of ranks and kind of scaling."""
        table = self.folder / "forecast.csv"
        run = self.start(machine, 0, "--forecast", f"devices=1,hosts={most},network={mbits}Mb/s,latency=100us", "--csv", table,
                         "--seconds", str(self.seconds))
        run.communicate()
        if run.returncode != 0:
            sys.exit("the forecast failed")
        with open(table, encoding="utf-8") as lines:
            return {(row["scaling"], int(row["devices"])): row for row in csv.DictReader(lines)}

    def measure(self, names, batch, guess):
        """Images a second of ranks that run together. `guess`: about so many; the first steps are slower than the others."""
        ranks = len(names)
        steps = max(10, round(self.seconds * guess / batch))
        together = ["--rank", "{}", "--ranks", str(ranks), "--master", "10.9.0.1:29500"] if ranks > 1 else []
        runs = []
        for rank, name in enumerate(names):
            words = [word.format(rank) for word in together]
            runs.append(self.start(name, rank, "--json", "--steps", str(steps), "--set", f"train.batch.size={batch}", *words))
        texts = [run.communicate()[0] for run in runs]
        if any(run.returncode != 0 for run in runs):
            sys.exit(f"of {ranks} ranks some failed")
        return json.loads(texts[0])["images_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--links", default="100,300,1000", help="Mb/s")
    parser.add_argument("--tcp", default="reno", help="its congestion control; others than reno must be the machine's own, too")
    parser.add_argument("--seconds", type=float, default=5, help="of a run")
    arguments = parser.parse_args()
    if os.environ.get("MILLRACE_SCALING_PAIR") is None:  # namespaces and the bridge end with this process
        os.execvpe("unshare", ["unshare", "--net", "--mount", sys.executable, *sys.argv], dict(os.environ, MILLRACE_SCALING_PAIR="1"))
    sizes = [int(size) for size in arguments.ranks.split(",")]
    off = []
    with tempfile.TemporaryDirectory() as name, parts_of_cores(max(sizes)) as groups:
        folder = pathlib.Path(name)
        (folder / "network.toml").write_text(NETWORK, encoding="utf-8")
        (folder / "pipeline.toml").write_text(FILE, encoding="utf-8")
        profiles = Profiles(arguments.build.resolve(), folder, arguments.seconds, groups)
        for mbits in [int(link) for link in arguments.links.split(",")]:
            with machines(max(sizes), mbits, arguments.tcp) as names:
                predicted = profiles.forecast(names[0], max(sizes), mbits)
                for kind in ("weak", "strong"):
                    for size in sizes:
                        row = predicted[kind, size]
                        real = profiles.measure(names[:size], round(float(row["batch"]) * size), float(row["images_per_second"]))
                        error = float(row["images_per_second"]) / real - 1
                        off.append((abs(error), float(row["low"]) <= real <= float(row["high"])))
                        print(f"{mbits:5} Mb/s {kind:>6} {size} ranks: predicted {float(row['images_per_second']):7.1f} "
                              f"({float(row['low']):.1f} to {float(row['high']):.1f})  measured {real:7.1f}  off {100 * error:+5.1f} %"
                              f"  bound by {row['bound_by']}", flush=True)
    within = sum(error <= 0.1 for error, _ in off)
    print(f"{len(off)} forecasts: {within} within 10 %, {sum(inside for _, inside in off)} inside their bands")


if __name__ == "__main__":
    main()
