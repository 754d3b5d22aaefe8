#!/usr/bin/env python3
"""Training speed of networks of the zoo beside PyTorch and torchvision, in turns on the same machine, on the CPU.

usage: zoo_pair.py [--networks resnet50,...] [--precision bf16,fp32] [--rounds 5] [--batch 32] [--steps 4]

Ours is a whole run: JPEG files of the network's size are read and decoded in every step; images/s of an epoch of `steps` steps
after a first one. PyTorch trains on one batch in memory, channels last, the better of eager and compiled: what is better is
found once for each network and precision. Both: SGD with momentum, cross-entropy, float32 weights; bf16 means autocast there.
Prints each round, then a table. The interpreter needs torch and torchvision.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parents[2]
CLASSES = 1000
PIPELINE = """
[run]
name = "pair"
epochs = 2
seed = 1
folder = ""
[network]
use = "{network}"
classes = {classes}
[train]
flow = ["read", "decode_image", "batch", "forward_backward", "allreduce", "optimizer", "metrics"]
[train.read]
stage = "read_folder"
path = "{images}"
classes = {class_names}
[train.decode_image]
size = [{side}, {side}]
[train.batch]
size = {batch}
[train.optimizer]
momentum = 0.9
learning_rate = {{ initial = 0.01 }}
"""


def draw_images(folder, count, side):
    import numpy as np
    from PIL import Image
    random = np.random.default_rng(1)
    for i in range(count):
        at = folder / f"class{i % 10}"
        at.mkdir(parents=True, exist_ok=True)
        small = random.integers(0, 255, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(small).resize((side, side), Image.BICUBIC).save(at / f"{i}.jpg", quality=90)


def ours(work, network, side, precision, batch):
    file = work / "pair.toml"
    file.write_text(PIPELINE.format(network=network, classes=CLASSES, side=side, images=work / str(side),
                                    class_names=json.dumps([f"class{i}" for i in range(10)]), batch=batch))
    run = os.environ.get("PIPELINE_RUN", str(HERE / "build/release/bin/pipeline-run"))
    done = subprocess.run([run, file, "--set", f"run.precision={precision}", "--json", "--quiet"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return [e["images_per_second"] for e in map(json.loads, done.stdout.splitlines()) if e["event"] == "epoch"][1]


def theirs(network, side, precision, batch, steps, compiled):
    """Runs in a process of its own, so that threads and caches of one do not stay for the other."""
    command = [sys.executable, __file__, "--torch", network, str(side), precision, str(batch), str(steps), str(int(compiled))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr[-2000:], file=sys.stderr)
        return 0.0
    return float(done.stdout.split()[-1])


def torch_speed(network, side, precision, batch, steps, compiled):
    import torch
    import torchvision
    torch.manual_seed(1)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    options = {"aux_logits": False, "init_weights": True} if network in ("googlenet", "inception_v3") else {}
    maps = network.startswith(("fcn", "deeplab"))
    if maps:
        model = torchvision.models.segmentation.__dict__[network](weights=None, weights_backbone=None, num_classes=CLASSES)
    else:
        model = torchvision.models.__dict__[network](weights=None, num_classes=CLASSES, **options)
    model = model.to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x = torch.randn(batch, 3, side, side).to(memory_format=torch.channels_last)
    target = torch.randint(0, CLASSES, (batch,))
    forward = torch.compile(model) if compiled else model

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            loss = torch.nn.functional.cross_entropy(forward(x), target)
        loss.backward()
        optimizer.step()

    for _ in range(2):
        step()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    print(batch * steps / (time.perf_counter() - began))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="mobilenet_v2,densenet121,resnet50,vgg16")
    parser.add_argument("--precision", default="bf16,fp32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--torch", nargs=6, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.torch:
        network, side, precision, batch, steps, compiled = options.torch
        return torch_speed(network, int(side), precision, int(batch), int(steps), compiled == "1")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        for network in options.networks.split(","):
            side = 299 if network == "inception_v3" else 224
            if not (work / str(side)).exists():
                draw_images(work / str(side), options.batch * options.steps, side)
            for precision in options.precision.split(","):
                eager, compiled = (theirs(network, side, precision, options.batch, options.steps, c) for c in (False, True))
                better = compiled > eager
                print(f"{network} {precision}: PyTorch eager {eager:.1f}, compiled {compiled:.1f} images/s", flush=True)
                pairs = []
                for _ in range(options.rounds):
                    a = ours(work, network, side, precision, options.batch)
                    b = theirs(network, side, precision, options.batch, options.steps, better)
                    pairs.append((a, b))
                    print(f"  Millrace {a:.1f}, PyTorch {b:.1f} images/s, ratio {a / b:.2f}", flush=True)
                rows.append((network, precision, statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs),
                             "compiled" if better else "eager", statistics.median(a / b for a, b in pairs)))
    print("\n| network | precision | Millrace | PyTorch | ratio |\n|---|---|---:|---:|---:|")
    for network, precision, a, b, which, ratio in rows:
        print(f"| {network} | {precision} | {a:.1f} | {b:.1f} ({which}) | {ratio:.2f} |")


if __name__ == "__main__":
    main()
