#!/usr/bin/env python3
"""What pipelines/alexnet_transfer.toml does on photographs: five classes of things, drawn here, are learned by AlexNet and by ResNet-18
from files that torchvision wrote. Prints the accuracy of each, and the images/s of training in full and with everything frozen but the head.

    python tools/bench/transfer_photos.py [--images 40] [--epochs 6] [--steps 20] [--folder FOLDER] [--pretrained]

Without --pretrained the weights are torchvision's initial ones, drawn at random: the run shows that its files can be read, and
the cost of transfer, not its benefit. With it torchvision fetches its published weights.
Needs torch, torchvision and Pillow. PIPELINE_RUN names the program, by default build/release/bin/pipeline-run.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import tempfile

import torch
import torchvision
from PIL import Image, ImageDraw, ImageFilter

HERE = pathlib.Path(__file__).resolve().parents[2]
BATCH = 10  # as in alexnet_transfer.toml
# The last layer, and the names of all layers before it that have parameters.
NETWORKS = {
    "alexnet": ("classifier.6", ["features.*", "classifier.1", "classifier.4"]),
    "resnet18": ("fc", ["conv1", "bn1", "layer1", "layer2", "layer3", "layer4"]),
}


def shaded(draw, box, colour, light, shape):
    """A thing of one colour that light falls on from one side: smaller and smaller copies, each a little lighter."""
    left, top, right, bottom = box
    for i in range(12):
        part = i / 24
        moved = [left + part * (right - left) * (1.3 if light < 0 else 0.7), top + part * (bottom - top) * 0.7,
                 right - part * (right - left) * (0.7 if light < 0 else 1.3), bottom - part * (bottom - top) * 1.3]
        tone = tuple(min(255, int(c * (0.6 + 0.05 * i))) for c in colour)
        if shape == "ball":
            draw.ellipse(moved, fill=tone)
        elif shape == "box":
            draw.rectangle(moved, fill=tone)
        else:
            draw.polygon([((moved[0] + moved[2]) / 2, moved[1]), (moved[2], moved[3]), (moved[0], moved[3])], fill=tone)


def ball(draw, x, y, size, colour, light):
    shaded(draw, [x - size, y - size, x + size, y + size], colour, light, "ball")


def book(draw, x, y, size, colour, light):
    shaded(draw, [x - size, y - 0.7 * size, x + size, y + 0.7 * size], colour, light, "box")
    for i in range(4):
        draw.line([x - 0.6 * size, y + (0.25 * i - 0.4) * size, x + 0.6 * size, y + (0.25 * i - 0.4) * size], fill="white", width=3)


def cone(draw, x, y, size, colour, light):
    shaded(draw, [x - 0.7 * size, y - size, x + 0.7 * size, y + size], colour, light, "cone")


def cup(draw, x, y, size, colour, light):
    draw.arc([x + 0.4 * size, y - 0.5 * size, x + 1.3 * size, y + 0.5 * size], -90, 90, fill=colour, width=int(size / 6))
    shaded(draw, [x - 0.7 * size, y - 0.8 * size, x + 0.7 * size, y + 0.8 * size], colour, light, "box")
    draw.ellipse([x - 0.7 * size, y - size, x + 0.7 * size, y - 0.6 * size], fill=tuple(c // 3 for c in colour))


def table(draw, x, y, size, colour, light):
    for leg in (-0.9, -0.3, 0.3, 0.9):
        draw.line([x + leg * size, y, x + leg * size, y + size], fill=tuple(c // 2 for c in colour), width=int(size / 7))
    shaded(draw, [x - 1.1 * size, y - 0.3 * size, x + 1.1 * size, y], colour, light, "box")


CLASSES = {"ball": ball, "book": book, "cone": cone, "cup": cup, "table": table}


def photograph(rng, thing):
    """The thing before a wall and on a floor, with grain and a little out of focus; of any size, as photographs are."""
    width, height = rng.randint(260, 420), rng.randint(240, 360)
    image = Image.new("RGB", (width, height))
    draw = ImageDraw.Draw(image)
    wall, floor = ([rng.randint(60, 230) for _ in range(3)] for _ in range(2))
    horizon = int(height * rng.uniform(0.5, 0.8))
    for row in range(height):
        near = wall if row < horizon else floor
        fade = 0.75 + 0.25 * row / height
        draw.line([0, row, width, row], fill=tuple(int(c * fade) for c in near))
    size = rng.uniform(0.15, 0.3) * min(width, height)
    x, y = rng.uniform(0.35, 0.65) * width, rng.uniform(0.4, 0.65) * height
    draw.ellipse([x - size, y + 0.8 * size, x + 1.4 * size, y + 1.2 * size], fill=tuple(c // 2 for c in floor))  # its shadow
    thing(draw, x, y, size, tuple(rng.randint(40, 220) for _ in range(3)), rng.choice((-1, 1)))
    image = image.rotate(rng.uniform(-8, 8), Image.Resampling.BICUBIC, expand=False, fillcolor=tuple(wall))
    grain = Image.effect_noise((width, height), rng.uniform(10, 30)).convert("RGB")
    return Image.blend(image, grain, 0.08).filter(ImageFilter.GaussianBlur(rng.uniform(0, 1.2)))


def draw_photographs(folder, images):
    rng = random.Random(1)
    for name, thing in CLASSES.items():
        (folder / name).mkdir(parents=True)
        for i in range(images):
            photograph(rng, thing).save(folder / name / f"{i:03d}.jpg", quality=90)


def events(run, folder, name, *options):
    command = [run, HERE / "pipelines/alexnet_transfer.toml", "--json", "--quiet", "--set", f"data.path={folder / 'photos'}",
               "--set", f"network.classes={len(CLASSES)}", "--set", f"network.use={name}", "--set", f"head.layer={NETWORKS[name][0]}",
               "--weights", folder / f"{name}.pth", "--set", f"run.folder={folder / 'runs'}"]
    for option in options:
        command += ["--set", option]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{name}: pipeline-run ended with {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def images_per_second(run, folder, name, steps, *options):
    """By the median step of the second half: the first steps compile kernels and read files."""
    log = events(run, folder, name, f"stop.max_steps={steps}", "run.epochs=1000", "validate.every=never", *options)
    times = [event["elapsed_seconds"] for event in log if event["event"] == "step"]
    lengths = [later - earlier for earlier, later in zip(times, times[1:])]
    return BATCH / statistics.median(lengths[len(lengths) // 2:])


def measure(run, folder, arguments):
    kind = "published weights" if arguments.pretrained else "initial weights, drawn at random"
    print(f"{len(CLASSES)} classes of {arguments.images} drawn photographs, torchvision's {kind}")
    print("| network | accuracy after {:g} epochs | images/s of training | with all but the head frozen | ratio |".format(arguments.epochs))
    print("|---|---|---|---|---|")
    for name, (_, body) in NETWORKS.items():
        torch.manual_seed(0)
        model = getattr(torchvision.models, name)(weights="DEFAULT" if arguments.pretrained else None)
        torch.save(model.state_dict(), folder / f"{name}.pth")
        log = events(run, folder, name, f"run.epochs={arguments.epochs}")
        accuracy = [event["accuracy"] for event in log if event["event"] == "validate"][-1]
        full = images_per_second(run, folder, name, arguments.steps)
        frozen = images_per_second(run, folder, name, arguments.steps, f"network.freeze={json.dumps(body)}")
        print(f"| `{name}` | {100 * accuracy:.1f} % | {full:.1f} | {frozen:.1f} | {frozen / full:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=40, help="of each class; seven in ten are trained on")
    parser.add_argument("--epochs", type=float, default=6)
    parser.add_argument("--steps", type=int, default=20, help="that the speed is measured over")
    parser.add_argument("--folder", type=pathlib.Path, help="keeps photographs, weights and runs there; it must be new")
    parser.add_argument("--pretrained", action="store_true", help="torchvision's published weights, which it fetches")
    arguments = parser.parse_args()
    run = os.environ.get("PIPELINE_RUN", HERE / "build/release/bin/pipeline-run")
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or pathlib.Path(temporary)
        draw_photographs(folder / "photos", arguments.images)
        measure(run, folder, arguments)


if __name__ == "__main__":
    main()
