#!/usr/bin/env python3
"""Training speed of networks of the zoo against PyTorch and torchvision, in turns on the same machine, on the CPU.

usage: zoo_pair.py [--networks resnet50,...] [--precision bf16,fp32] [--rounds 5] [--batch 32] [--steps 4]

Ours is a whole run: JPEG files of the network's size are read and decoded in every step; images/s of an epoch of `steps` steps
after a first one. PyTorch trains on one batch in memory, channels last, the better of eager and compiled: what is better is
found once for each network and precision. Both: SGD with momentum, cross-entropy, float32 weights; bf16 means autocast there.
Networks that give maps (unet, segnet_basic, segnet, fcn_resnet50, deeplabv3_resnet50) train on maps of labels, at CamVid's size
where a pipeline of ours has it; ours read them from PNG files. resnet18_32 is ResNet-18 with a stem for images of 32 x 32.
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
CLASSES = {"classify": 1000, "segment": 11}
TITLES = {"unet": "unet, up transposed", "resnet18_32": "resnet18, stem small"}  # in zoo_models; else the network's name
SIZES = {"inception_v3": (299, 299), "resnet18_32": (32, 32), "unet": (184, 240), "segnet_basic": (192, 240),
         "segnet": (384, 480)}  # else 224 x 224
PIPELINE = """
[run]
name = "pair"
epochs = 2
seed = 1
folder = ""
[network]
use = "{network}"
classes = {classes}
{variables}
[train]
flow = ["read", "decode_image", "batch", "forward_backward", "allreduce", "optimizer", "metrics"]
[train.read]
{read}
[train.decode_image]
size = {size}
[train.batch]
size = {batch}
[train.forward_backward]
loss = "{loss}"
[train.optimizer]
momentum = 0.9
learning_rate = {{ initial = 0.01 }}
"""


READ = {
    "classify": """stage = "read_folder"
path = "{folder}/images"
classes = {names}""",
    "segment": """stage = "read_pairs"
images = "{folder}/flat"
labels = "{folder}/labels"
classes = {names}""",
}
CLASS_NAMES = {
    "classify": json.dumps([f"class{i}" for i in range(10)]),
    "segment": "[" + ", ".join(f'{{ name = "class{i}" }}' for i in range(CLASSES["segment"])) + "]",
}
LOSS = {"classify": "cross_entropy", "segment": "pixel_cross_entropy"}


def twin(network):
    sys.path.insert(0, str(HERE / "tests/reference"))
    import zoo_models
    return next(t for t in zoo_models.TWINS if t.title == TITLES.get(network, network))


def draw_images(folder, count, size):
    """Photographs in folders of classes, the same ones in one folder, and maps of labels for these."""
    import numpy as np
    from PIL import Image
    random = np.random.default_rng(1)
    height, width = size
    for i in range(count):
        small = random.integers(0, 255, (8, 8, 3), dtype=np.uint8)
        photograph = Image.fromarray(small).resize((width, height), Image.BICUBIC)
        for at in (folder / "images" / f"class{i % 10}", folder / "flat"):
            at.mkdir(parents=True, exist_ok=True)
            photograph.save(at / f"{i}.jpg", quality=90)
        (folder / "labels").mkdir(exist_ok=True)
        labels = random.integers(0, CLASSES["segment"], (8, 8), dtype=np.uint8)
        Image.fromarray(labels).resize((width, height), Image.NEAREST).save(folder / "labels" / f"{i}.png")


def folder_of(work, size):
    return work / f"{size[0]}x{size[1]}"


def ours(work, network, size, precision, batch):
    pair = twin(network)
    names = CLASS_NAMES[pair.task]
    variables = dict(pair.variables) | (dict(height=size[0], width=size[1]) if "height" in pair.defaults else {})
    file = work / "pair.toml"
    text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in variables.items())
    file.write_text(PIPELINE.format(network=pair.network, classes=CLASSES[pair.task], size=list(size), batch=batch, variables=text,
                                    loss=LOSS[pair.task],
                                    read=READ[pair.task].format(folder=folder_of(work, size), names=names)))
    run = os.environ.get("PIPELINE_RUN", str(HERE / "build/release/bin/pipeline-run"))
    done = subprocess.run([run, file, "--set", f"run.precision={precision}", "--json", "--quiet"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return [e["images_per_second"] for e in map(json.loads, done.stdout.splitlines()) if e["event"] == "epoch"][1]


def theirs(network, size, precision, batch, steps, compiled):
    """Runs in a process of its own, so that threads and caches of one do not stay for the other."""
    command = [sys.executable, __file__, "--torch", network, *map(str, (*size, precision, batch, steps, int(compiled)))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr[-2000:], file=sys.stderr)
        return 0.0
    return float(done.stdout.split()[-1])


def torch_speed(network, size, precision, batch, steps, compiled):
    import torch
    pair = twin(network)
    classes = CLASSES[pair.task]
    torch.manual_seed(1)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    model = pair.make(classes)
    model = model.to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x = torch.randn(batch, 3, *size).to(memory_format=torch.channels_last)
    target = torch.randint(0, classes, (batch,) if pair.task == "classify" else (batch, *size))
    forward = torch.compile(model) if compiled else model

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            output = forward(x)
            output = output["out"] if isinstance(output, dict) else output
            loss = torch.nn.functional.cross_entropy(output, target)
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
    parser.add_argument("--torch", nargs=7, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.torch:
        network, height, width, precision, batch, steps, compiled = options.torch
        return torch_speed(network, (int(height), int(width)), precision, int(batch), int(steps), compiled == "1")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        for network in options.networks.split(","):
            size = SIZES.get(network, (224, 224))
            if not folder_of(work, size).exists():
                draw_images(folder_of(work, size), options.batch * options.steps, size)
            for precision in options.precision.split(","):
                eager, compiled = (theirs(network, size, precision, options.batch, options.steps, c) for c in (False, True))
                better = compiled > eager
                print(f"{network} {precision}: PyTorch eager {eager:.1f}, compiled {compiled:.1f} images/s", flush=True)
                pairs = []
                for _ in range(options.rounds):
                    a = ours(work, network, size, precision, options.batch)
                    b = theirs(network, size, precision, options.batch, options.steps, better)
                    pairs.append((a, b))
                    print(f"  Millrace {a:.1f}, PyTorch {b:.1f} images/s, ratio {a / b:.2f}", flush=True)
                rows.append((network, precision, statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs),
                             "compiled" if better else "eager", statistics.median(a / b for a, b in pairs)))
    print("\n| network | precision | Millrace | PyTorch | ratio |\n|---|---|---:|---:|---:|")
    for network, precision, a, b, which, ratio in rows:
        print(f"| {network} | {precision} | {a:.1f} | {b:.1f} ({which}) | {ratio:.2f} |")


if __name__ == "__main__":
    main()
