#!/usr/bin/env python3
"""What the page of a run costs: the share of the processor that its two threads take while browsers watch.

    page_load.py BIN_FOLDER DATA [--browsers 10] [--seconds 20] [--batch 2]

A run of quickstart.toml with small batches and a network of one layer makes many updates a second. Each browser here reads all events, and one more reads
none. Times are those of threads, which other programs on the machine do not change. Fails above 2 %.
"""

import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

LIMIT = 0.02
NETWORK = """
defaults = { classes = 10 }
input    = { channels = 3, height = 32, width = 32 }
layers   = [{ op = "global_average_pool" }, { op = "linear", out = "${classes}" }]
"""
TICK = os.sysconf("SC_CLK_TCK")


def times(process):
    """Seconds of the processor by thread name."""
    seconds = {}
    for task in pathlib.Path(f"/proc/{process}/task").iterdir():
        name = (task / "comm").read_text().strip()
        fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
        seconds[name] = seconds.get(name, 0) + (int(fields[11]) + int(fields[12])) / TICK
    return seconds


def resident(process):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{process}/status").read_text()).group(1)) / 1024


def read(address, counts, index):
    with urllib.request.urlopen(address) as events:
        for line in events:
            counts[index] += line.startswith(b"event:")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("data")
    parser.add_argument("--browsers", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--batch", type=int, default=2)
    options = parser.parse_args()
    pipeline = options.bin.parent / "share/millrace/pipelines/quickstart.toml"
    with tempfile.TemporaryDirectory() as folder:
        network = pathlib.Path(folder) / "network.toml"
        network.write_text(NETWORK, encoding="utf-8")
        command = [options.bin / "pipeline-run", pipeline, "--page", "--set", f"data.path={options.data}", "--set", f"run.folder={folder}", "--set",
                   f"network.use={network}"]
        command += ["--set", "run.epochs=1000", "--batch", str(options.batch)]
        run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            address = next(re.findall(r"http\S+", line)[0] for line in run.stderr if "http" in line)
            threading.Thread(target=run.stderr.read, daemon=True).start()
            events = address.replace("/?", "/events?")
            counts = [0] * options.browsers
            for i in range(options.browsers):
                threading.Thread(target=read, args=(events, counts, i), daemon=True).start()
            silent = urllib.request.urlopen(events)  # it never reads
            time.sleep(3)
            before, memory, begin = times(run.pid), resident(run.pid), time.monotonic()
            metrics = urllib.request.urlopen(address.replace("/?", "/metrics?")).read().decode()
            time.sleep(options.seconds)
            after, seconds, held = times(run.pid), time.monotonic() - begin, resident(run.pid)
            later = urllib.request.urlopen(address.replace("/?", "/metrics?")).read().decode()
            step = [float(re.search(r"^millrace_step\{.*\} (\S+)", text, re.MULTILINE).group(1)) for text in (metrics, later)]
            silent.close()
        finally:
            run.send_signal(signal.SIGTERM)  # a shell may have its background programs ignore SIGINT
            run.wait()
        spent = {name: after[name] - before.get(name, 0) for name in after}
        page = {name: spent.get(name, 0) for name in ("page", "page server")}
        share = sum(page.values()) / sum(spent.values())
        print(f"{options.browsers} browsers read {sum(counts)} events; {(step[1] - step[0]) / seconds:.0f} steps/s; memory {memory:.1f} -> {held:.1f} MiB")
        print(f"threads of the page: {page['page']:.2f} s taking events, {page['page server']:.2f} s serving, of {sum(spent.values()):.1f} s: {100 * share:.2f} %")
        sys.exit(share > LIMIT)


if __name__ == "__main__":
    main()
