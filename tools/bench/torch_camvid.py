#!/usr/bin/env python3
"""The yardstick of segmentation: pipelines/unet_camvid.toml's network and recipe in plain PyTorch on the CPU.

usage: torch_camvid.py CAMVID [--network unet|segnet_basic] [--epochs 48] [--steps N | --profile N] [--dtype bf16|fp32] [--compile]
                       [--threads N] [--seed N]

CAMVID holds {train,val}/{images,labels}, label images with ids 0 to 10, and 11 where nothing counts. Images become 180 x 240 and
get the pipeline's margin; labels take the nearest pixel. AdamW 1e-3 with a cosine to a fiftieth, weight decay 1e-4, batches of 8,
classes weighted by median frequency, flips and shifts of up to 10 pixels of image and labels. Networks are those of
tests/reference/zoo_models.py, channels last; bf16 means autocast, with float32 weights.

It is kept favourable to PyTorch: every image is decoded before the clock starts. A step is a whole one: cutting out the batch,
flips and shifts, forward, backward, update. Prints images/s of each epoch, and after every fourth one global accuracy and mean IoU
on the validation images; then one JSON object as the last line. --steps N only times N steps, after two; --profile N
prints which operators they spend their time in. Needs torch, torchvision, numpy and pillow.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import sys
import time

import numpy
import torch
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/reference"))
import zoo_models  # noqa: E402

CLASSES, NOTHING = 11, 255
HEIGHT, WIDTH, BATCH, SHIFT = 180, 240, 8, 10
MARGINS = dict(unet=2, segnet_basic=6)  # rows above and below
FILL = (105, 107, 110)                  # the data's mean
RATE, DECAY, FINAL_FACTOR = 1e-3, 1e-4, 0.02
VALIDATE_EVERY, WARM_UP = 4, 2


# ---------------------------------------------------------------- data


def read_part(folder, margin):
    """-> images (N, H, W, 3) and labels (N, H, W), uint8, with the margin."""
    images, labels = [], []
    for path in sorted((folder / "images").iterdir()):
        image = Image.open(path).convert("RGB").resize((WIDTH, HEIGHT), Image.BILINEAR)
        label = Image.open(folder / "labels" / (path.stem + ".png")).resize((WIDTH, HEIGHT), Image.NEAREST)
        images.append(numpy.full((HEIGHT + 2 * margin, WIDTH, 3), FILL, dtype=numpy.uint8))
        images[-1][margin:margin + HEIGHT] = numpy.asarray(image)
        values = numpy.asarray(label)
        labels.append(numpy.full((HEIGHT + 2 * margin, WIDTH), NOTHING, dtype=numpy.uint8))
        labels[-1][margin:margin + HEIGHT] = numpy.where(values < CLASSES, values, NOTHING)
    if not images:
        sys.exit(f"{folder}/images holds no image")
    return torch.from_numpy(numpy.stack(images)), torch.from_numpy(numpy.stack(labels))


def median_frequency_weights(labels):
    """Eigen and Fergus, arXiv 1411.4734: a class's pixels over those of the images that have it."""
    counts = torch.stack([torch.bincount(one.flatten(), minlength=256)[:CLASSES] for one in labels]).double()
    pixels, of_images = counts.sum(0), ((counts > 0) * counts.sum(1, keepdim=True)).sum(0)
    there = pixels > 0
    frequency = pixels[there] / of_images[there]
    weights = torch.zeros(CLASSES)
    weights[there] = (numpy.median(frequency) / frequency).float()
    return weights


def moved(image, label, generator):
    """Flipped by chance and shifted; what comes in is the mean colour, and counts nowhere."""
    flips, down, right = (int(torch.randint(low, high, (), generator=generator))
                          for low, high in ((0, 2), (-SHIFT, SHIFT + 1), (-SHIFT, SHIFT + 1)))
    if flips:
        image, label = image.flip(1), label.flip(1)
    height, width = label.shape
    out, of = torch.tensor(FILL, dtype=torch.uint8).repeat(height, width, 1), torch.full_like(label, NOTHING)
    to = (slice(max(down, 0), height + min(down, 0)), slice(max(right, 0), width + min(right, 0)))
    come = (slice(max(-down, 0), height + min(-down, 0)), slice(max(-right, 0), width + min(-right, 0)))
    out[to], of[to] = image[come], label[come]
    return out, of


class Batches:
    def __init__(self, images, labels, twin):
        self.images, self.labels = images, labels
        self.mean, self.deviation = (torch.tensor(twin.input[key]).view(3, 1, 1) for key in ("mean", "deviation"))

    def network_input(self, images):
        """(N, H, W, 3) bytes -> (N, 3, H, W), channels last in memory."""
        return ((images.permute(0, 3, 1, 2).float() / 255 - self.mean) / self.deviation).contiguous(memory_format=torch.channels_last)

    def epoch(self, generator):
        order = torch.randperm(len(self.labels), generator=generator)
        for first in range(0, len(order) - BATCH + 1, BATCH):
            pairs = [moved(self.images[i], self.labels[i], generator) for i in order[first:first + BATCH]]
            images, labels = (torch.stack(each) for each in zip(*pairs))
            yield self.network_input(images), labels.long()

    def whole(self):
        for first in range(0, len(self.labels), BATCH):
            yield self.network_input(self.images[first:first + BATCH]), self.labels[first:first + BATCH].long()

    def count(self):
        return len(self.labels) // BATCH


# ---------------------------------------------------------------- training


class Trainer:
    def __init__(self, model, weights, total, options):
        self.options, self.total, self.done = options, total, 0
        self.model = model.to(memory_format=torch.channels_last)
        self.forward = torch.compile(self.model) if options.compile else self.model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
        self.loss = torch.nn.CrossEntropyLoss(weights, ignore_index=NOTHING)

    def autocast(self):
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.options.dtype == "bf16")

    def step(self, images, labels):
        cosine = 0.5 * (1 + math.cos(math.pi * self.done / self.total))
        for group in self.optimizer.param_groups:
            group["lr"] = RATE * (FINAL_FACTOR + (1 - FINAL_FACTOR) * cosine)
        self.optimizer.zero_grad()
        with self.autocast():
            outputs = self.forward(images)
        loss = self.loss(outputs.float(), labels)
        loss.backward()
        self.optimizer.step()
        self.done += 1
        return loss.item()

    @torch.no_grad()
    def figures(self, batches):
        """-> global accuracy and mean IoU."""
        self.model.eval()
        matrix = torch.zeros(CLASSES * CLASSES, dtype=torch.int64)
        for images, labels in batches.whole():
            with self.autocast():
                predicted = self.model(images).argmax(1)
            counts = labels != NOTHING
            matrix += torch.bincount(labels[counts] * CLASSES + predicted[counts], minlength=CLASSES * CLASSES)
        self.model.train()
        matrix = matrix.view(CLASSES, CLASSES).double()
        right, occurring = matrix.diagonal(), matrix.sum(1)
        union = occurring + matrix.sum(0) - right
        return float(right.sum() / matrix.sum()), float((right / union)[occurring > 0].mean())


def time_steps(trainer, train, generator, count):
    seconds = []
    while True:
        batches = train.epoch(generator)
        while True:
            began = time.perf_counter()  # before the batch is cut out
            batch = next(batches, None)
            if batch is None:
                break
            trainer.step(*batch)
            seconds.append(time.perf_counter() - began)
            if len(seconds) == WARM_UP + count:
                return dict(images_per_second=round(BATCH / statistics.median(seconds[WARM_UP:]), 2))


def profile_steps(trainer, train, generator, count):
    """Prints the operators that take most of a step, in ms of one step."""
    batches = train.epoch(generator)
    for _ in range(WARM_UP):
        trainer.step(*next(batches))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(count):
            trainer.step(*next(batches))
    operators = sorted(profiler.key_averages(), key=lambda each: -each.self_cpu_time_total)
    for each in operators[:12]:
        print(f"{each.key:<44} {each.self_cpu_time_total / 1e3 / count:9.1f} ms, {each.count / count:.0f} calls")
    print(f"{'all':<44} {sum(each.self_cpu_time_total for each in operators) / 1e3 / count:9.1f} ms")


def run(trainer, train, validation, generator, epochs):
    seconds, result = [], {}
    for epoch in range(1, epochs + 1):
        began, losses = time.perf_counter(), []
        for batch in train.epoch(generator):
            losses.append(trainer.step(*batch))
        seconds.append(time.perf_counter() - began)
        line = f"epoch {epoch}/{epochs}: loss {statistics.mean(losses):.4f}, {train.count() * BATCH / seconds[-1]:.1f} images/s"
        if epoch % VALIDATE_EVERY == 0 or epoch == epochs:
            accuracy, iou = trainer.figures(validation)
            result = dict(accuracy=round(accuracy, 4), mean_iou=round(iou, 4))
            line += f", accuracy {100 * accuracy:.2f} %, mean IoU {100 * iou:.2f} %, {sum(seconds):.0f} s of training"
        print(line, flush=True)
    rate = train.count() * BATCH / statistics.median(seconds)
    return dict(images_per_second=round(rate, 2), training_seconds=round(sum(seconds), 1), epochs=epochs) | result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--network", choices=tuple(MARGINS), default="unet")
    parser.add_argument("--epochs", type=int, default=48)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--dtype", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--profile", type=int, metavar="N")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)
    twin = [twin for twin in zoo_models.TWINS if twin.network == options.network][-1]  # of the U-Nets, the one of the pipeline
    train, validation = (Batches(*read_part(options.data / part, MARGINS[options.network]), twin) for part in ("train", "val"))
    model = twin.make(classes=CLASSES).train()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{twin.title}: {parameters} parameters, {len(train.labels)} and {len(validation.labels)} images", flush=True)
    trainer = Trainer(model, median_frequency_weights(train.labels), options.epochs * train.count(), options)
    if options.profile:
        return profile_steps(trainer, train, generator, options.profile)
    result = dict(torch=torch.__version__, network=options.network, dtype=options.dtype, compile=options.compile,
                  threads=options.threads)
    result |= (time_steps(trainer, train, generator, options.steps) if options.steps else
               run(trainer, train, validation, generator, options.epochs))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
