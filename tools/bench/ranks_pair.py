#!/usr/bin/env python3
"""Two ranks against one on the same cores, sums that hide under backward, and bytes on the wire.

    ranks_pair.py BUILD CIFAR10 [--rounds N] [--short] [--only efficiency|hidden|bytes]

efficiency  airbench94, batch 1024: two ranks with a core each against one rank with both, in turns. Images/s of the second epoch.
            The ratio of each pair, and their median. One rank is taken as one replica and as two.
hidden      ResNet-18 in two replicas, whose sums take as long as over a network (slow_sums, `ninja benchmarks`) that is busy for
            half of a step. The time for which replicas wait for sums, less that without a network, against the time of the last
            bucket, which nothing can hide.
bytes       what two ranks send in a namespace that has nothing else (unshare -rn), against the least that can be sent: the sum of
            N bytes over two ranks takes N bytes each way. Counts both headers and signs of life.

Efficiency and hidden ask for a quiet machine; bytes do not. --short takes few images and two rounds.
"""

import argparse
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parents[2]
FIRST_BYTES, STEPS = 2, 6  # steps of the two runs whose difference is measured


def images(cifar10, folder, each):
    """A folder with so many images of each class."""
    for cls in sorted((cifar10 / "train").iterdir()):
        (folder / "train" / cls.name).mkdir(parents=True)
        for image in sorted(cls.glob("*.jpg"))[:each]:
            (folder / "train" / cls.name / image.name).symlink_to(image)
    return folder


def airbench(build, data, *options):
    # Every epoch reads its files: the cache is too small to save the second one that.
    return [build / "bin/pipeline-run", HERE / "pipelines/cifar10_airbench.toml", "--set", 'train.cache.memory="1"',
            "--set", "train.cache.device=false", "--set", f"data.path={data}", "--set", f"validate.read.path={data}/train",
            "--set", f"final.read.path={data}/train", "--graph", "train", "--set", "run.folder=", "--set", "checkpoint.every=never", "--set", "run.precision=fp32",
            "--json", "--quiet", *options]


def run(command, **more):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def epoch_rate(text):
    epochs = [event for event in map(json.loads, text.splitlines()) if event["event"] == "epoch"]
    return epochs[-1]["images_per_second"]


def efficiency(build, data, rounds):
    ways = {"two ranks": ["--devices", "cpu*2", "--processes", "2"], "one rank, one replica": ["--devices", "cpu"],
            "one rank, two replicas": ["--devices", "cpu*2"]}
    rates = {way: [] for way in ways}
    for number in range(rounds):
        for way, options in ways.items():
            rates[way].append(epoch_rate(run(airbench(build, data, "--set", "run.epochs=2", *options))))
        print(f"round {number + 1}: " + ", ".join(f"{way} {rates[way][-1]:.1f}" for way in ways) + " images/s", flush=True)
    for way in list(ways)[1:]:
        ratios = [two / one for two, one in zip(rates["two ranks"], rates[way])]
        print(f"efficiency against {way}: {statistics.median(ratios):.3f} (median of {rounds}; {min(ratios):.3f} to {max(ratios):.3f};"
              " wanted 0.95)")


def waits(build, data, speed, log, steps):
    """Seconds of a step, and for how long replicas wait for sums in it."""
    environment = dict(os.environ, MILLRACE_PLUGIN_PATH=str(build / "bench"), MILLRACE_PLUGIN_TRUST="any",
                       MILLRACE_SLOW_SUMS=str(speed), MILLRACE_SLOW_SUMS_LOG=str(log))
    report = json.loads(run([build / "bin/pipeline-profile", HERE / "pipelines/cifar10_resnet.toml", "--set", f"data.path={data}",
                             "--set", "run.precision=fp32", "--set", "train.allreduce.communicator=slow_sums", "--set",
                             "train.batch.size=128", "--devices", "cpu*2", "--steps", steps, "--json"],
                            env=environment, stderr=subprocess.DEVNULL))
    step = report["seconds"] / report["steps"]
    # The last replica only waits for the network, the other one for that replica too.
    return step, min(device["waits_for_sums"] for device in report["devices"]) * step


def hidden(build, data, folder, rounds, steps):
    log = folder / "buckets"
    step, _ = waits(build, data, 0, log, steps)
    buckets = [int(line.split()[1]) for line in log.read_text().splitlines()]
    speed = sum(buckets) / (step / 2)
    last = buckets[-1] / speed
    print(f"{len(buckets)} buckets of {', '.join(f'{size / 1e6:.1f}' for size in buckets)} MB at {speed / 1e6:.0f} MB/s: "
          f"{1e3 * sum(buckets) / speed:.0f} ms, the last one {1e3 * last:.0f} ms")
    ratios = []
    for number in range(rounds):
        (_, without), (_, slowed) = waits(build, data, 0, log, steps), waits(build, data, speed, log, steps)
        ratios.append((slowed - without) / last)
        print(f"round {number + 1}: waits {1e3 * slowed:.0f} ms, without a network {1e3 * without:.0f} ms: {ratios[-1]:.3f} of the "
              "last bucket", flush=True)
    print(f"not hidden: {statistics.median(ratios):.3f} of the last bucket's time (median of {rounds}; wanted 1.05 at most)")


def bytes_on_the_wire(build, data):
    def sent(steps, ranks):
        command = " ".join(f"'{word}'" for word in airbench(build, data, "--set", f"stop.max_steps={steps}", "--set",
                                                            "train.batch.size=128", "--devices", "cpu*2", "--processes", ranks))
        text = run(["unshare", "-rn", "sh", "-ec", f"ip link set lo up\n{command}\ncat /proc/net/dev"])
        return int(re.search(r"lo: *(\d+)", text).group(1))

    a, b = sent(FIRST_BYTES, 2), sent(FIRST_BYTES + STEPS, 2)
    network = run([build / "bin/pipeline-inspect", "airbench94", "--parameters"])
    gradients = 4 * sum(math.prod(each["shape"]) for each in map(json.loads, network.splitlines()) if each["kind"] == "trained")
    each, least = (b - a) / STEPS, 2 * gradients
    print(f"two ranks send {each / 1e6:.3f} MB a step; the least is {least / 1e6:.3f} MB (gradients of {gradients / 1e6:.3f} MB each "
          f"way): {each / least:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("cifar10", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--short", action="store_true", help="two rounds of few images: whether it works, not how fast it is")
    parser.add_argument("--only", choices=["efficiency", "hidden", "bytes"])
    arguments = parser.parse_args()
    build, rounds = arguments.build.resolve(), 2 if arguments.short else arguments.rounds
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = images(arguments.cifar10.resolve(), folder / "data", 210 if arguments.short else 1230)
        if arguments.only in (None, "bytes"):
            bytes_on_the_wire(build, data)
        if arguments.only in (None, "efficiency"):
            efficiency(build, data, rounds)
        if arguments.only in (None, "hidden"):
            hidden(build, data, folder, rounds, 6 if arguments.short else 30)


if __name__ == "__main__":
    main()
