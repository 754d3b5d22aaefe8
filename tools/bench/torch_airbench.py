#!/usr/bin/env python3
"""The yardstick: airbench94's network and recipe in plain PyTorch on the CPU.

Millrace's CPU backend is measured against this program on the same machine. It is
kept favourable to PyTorch: every image is decoded before the clock starts and lies in
memory as uint8, and the layout and the dtype can be chosen. It runs on PyTorch 1.13
(Debian 12's python3-torch) and on current versions. It is one file, so that it can be
copied to another machine.

  speed      torch_airbench.py --steps 6 --dtype fp32
  accuracy   torch_airbench.py --data DIR --dtype bf16 --epochs 9.9 --seed 1

DIR holds train/<class>/*.jpg and test/<class>/*.jpg; without --data, --steps runs on
random pixels, which costs the same time. Every measured step is a whole one: drawing
windows and flips, forward, backward, update, and lookahead when its turn comes.

The network and the constants are those of arXiv 2404.00498 as listed in the project's
recipe sheet. bf16 here means bf16 activations and bf16 copies of float32 weights;
batch-norm statistics, the loss and the update stay in float32.

Prints progress lines, then one JSON object as the last line.
"""

import argparse
import json
import math
import os
import platform
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

CLASSES = 10
BATCH = 1024
BORDER = 2  # reflected pixels around each training image
CHANNEL_MEAN = (0.4914, 0.4822, 0.4465)
CHANNEL_DEVIATION = (0.2470, 0.2435, 0.2616)

WIDTHS = (64, 256, 256)
WHITEN_SIZE = 2
WHITEN_FILTERS = 2 * 3 * WHITEN_SIZE * WHITEN_SIZE  # each eigenvector and its negative
WHITEN_EPS = 5e-4
WHITEN_IMAGES = 5000
WHITEN_BIAS_EPOCHS = 3
NORM_EPS = 1e-12
NORM_TAKES = 0.4  # share of the new batch in the running average
LOGIT_SCALE = 1.0 / 9.0

LABEL_SMOOTHING = 0.2
MOMENTUM = 0.85
KILOSTEP = 1024 * (1 + 1 / (1 - MOMENTUM))
RATE = 11.5 / KILOSTEP  # on the loss summed over the batch
DECAY = 0.0153 * 1024 / KILOSTEP  # per step at full rate, for any group's rate
NORM_BIAS_FACTOR = 64.0
RATE_START, RATE_END, RATE_PEAK_AT = 0.2, 0.07, 0.23
LOOKAHEAD_EVERY = 5
LOOKAHEAD_BASE = 0.95**5


# ---------------------------------------------------------------- network


class ShiftNorm(nn.Module):
    """Batch norm whose scale is the constant 1. Always float32 inside."""

    def __init__(self, channels):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("one", torch.ones(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x):
        return F.batch_norm(x, self.running_mean, self.running_var, self.one, self.bias,
                            self.training, NORM_TAKES, NORM_EPS)


class Conv3x3(nn.Module):
    """3x3 'same' convolution without bias; the first filters pass their input on."""

    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels_out, channels_in, 3, 3))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        with torch.no_grad():
            for c in range(min(channels_in, channels_out)):
                self.weight[c] = 0
                self.weight[c, c, 1, 1] = 1

    def forward(self, x):
        return F.conv2d(x, self.weight.to(x.dtype), padding=1)


class Group(nn.Module):
    def __init__(self, channels_in, channels):
        super().__init__()
        self.conv1 = Conv3x3(channels_in, channels)
        self.bn1 = ShiftNorm(channels)
        self.conv2 = Conv3x3(channels, channels)
        self.bn2 = ShiftNorm(channels)

    def forward(self, x):
        x = F.max_pool2d(self.conv1(x), 2)
        x = F.gelu(self.bn1(x))
        return F.gelu(self.bn2(self.conv2(x)))


class Whiten(nn.Module):
    def __init__(self):
        super().__init__()
        shape = (WHITEN_FILTERS, 3, WHITEN_SIZE, WHITEN_SIZE)
        self.weight = nn.Parameter(torch.empty(shape).normal_(), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(WHITEN_FILTERS))

    def forward(self, x):
        return F.conv2d(x, self.weight.to(x.dtype), self.bias.to(x.dtype))


class Airbench(nn.Module):
    """(N, 3, 32, 32) -> logits (N, 10), float32."""

    def __init__(self):
        super().__init__()
        self.whiten = Whiten()
        self.group1 = Group(WHITEN_FILTERS, WIDTHS[0])
        self.group2 = Group(WIDTHS[0], WIDTHS[1])
        self.group3 = Group(WIDTHS[1], WIDTHS[2])
        self.fc = nn.Linear(WIDTHS[2], CLASSES, bias=False)

    def forward(self, x):
        x = F.gelu(self.whiten(x))
        x = self.group3(self.group2(self.group1(x)))
        x = F.max_pool2d(x, 3).flatten(1)
        return F.linear(x, self.fc.weight.to(x.dtype)).float() * LOGIT_SCALE


# ---------------------------------------------------------------- data


def read_folder(folder):
    """-> images (N, 32, 32, 3) uint8, labels (N,) int64; classes in sorted order."""
    from PIL import Image

    images, labels = [], []
    names = sorted(e.name for e in os.scandir(folder) if e.is_dir())
    if len(names) != CLASSES:
        sys.exit(f"{folder}: found {len(names)} class folders, expected {CLASSES}")
    for label, name in enumerate(names):
        for entry in sorted(e.path for e in os.scandir(os.path.join(folder, name))):
            if entry.lower().endswith((".jpg", ".jpeg")):
                with Image.open(entry) as image:
                    images.append(np.asarray(image.convert("RGB")))
                labels.append(label)
    if not images:
        sys.exit(f"{folder}: no JPEG files found")
    return torch.from_numpy(np.stack(images)), torch.tensor(labels)


def random_pixels(count, seed):
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
    return torch.from_numpy(pixels), torch.from_numpy(rng.integers(0, CLASSES, count))


def normalise(pixels, options):
    """(N, H, W, 3) uint8 -> (N, 3, H, W) in the run's dtype and layout."""
    scale = torch.tensor([1 / (255 * d) for d in CHANNEL_DEVIATION])
    shift = torch.tensor([m / d for m, d in zip(CHANNEL_MEAN, CHANNEL_DEVIATION)])
    x = (pixels.float() * scale - shift).permute(0, 3, 1, 2).to(options.torch_dtype)
    return x.contiguous(memory_format=options.memory_format)


def reflect(pixels, border):
    """(N, H, W, 3) uint8 with a reflected border (the edge itself is not repeated)."""
    def index(size):
        i = torch.arange(-border, size + border).abs()
        return torch.where(i >= size, 2 * (size - 1) - i, i)
    return pixels[:, index(pixels.shape[1])][:, :, index(pixels.shape[2])].contiguous()


class TrainingSet:
    """Shuffled batches with random windows and alternating flips."""

    def __init__(self, pixels, labels, options):
        self.padded = reflect(pixels, BORDER)  # (N, 36, 36, 3)
        self.labels = labels
        self.options = options
        self.flip_first = torch.rand(len(labels)) < 0.5

    def batches_per_epoch(self):
        return len(self.labels) // BATCH  # an incomplete batch is dropped

    def epoch(self, number):
        order = torch.randperm(len(self.labels))
        flipped = self.flip_first ^ bool(number % 2)
        span = torch.arange(32)
        for b in range(self.batches_per_epoch()):
            pick = order[b * BATCH:(b + 1) * BATCH]
            top = torch.randint(0, 2 * BORDER + 1, (BATCH, 1))
            left = torch.randint(0, 2 * BORDER + 1, (BATCH, 1))
            columns = torch.where(flipped[pick][:, None], span.flip(0), span) + left
            rows = span + top
            window = self.padded[pick[:, None, None], rows[:, :, None], columns[:, None, :]]
            yield normalise(window, self.options), self.labels[pick]


def whitening_filters(pixels):
    """Eigenvectors of the patches' second moments, summed in double (not centred)."""
    pick = torch.randperm(len(pixels))[:WHITEN_IMAGES]
    x = pixels[pick].double().numpy() / 255.0
    x = ((x - CHANNEL_MEAN) / CHANNEL_DEVIATION).transpose(0, 3, 1, 2)  # (N, 3, H, W)
    k, side = WHITEN_SIZE, x.shape[2] - WHITEN_SIZE + 1
    # Patch elements in the order (channel, row, column), a filter's memory order.
    elements = [x[:, c, r:r + side, s:s + side].ravel()
                for c in range(3) for r in range(k) for s in range(k)]
    patches = np.stack(elements)  # (12, N * side * side)
    values, vectors = np.linalg.eigh(patches @ patches.T / patches.shape[1])
    filters = (vectors / np.sqrt(values + WHITEN_EPS)).T[::-1].reshape(-1, 3, k, k)
    return torch.from_numpy(np.concatenate([filters, -filters])).float()


# ---------------------------------------------------------------- training


def rate_factor(step, total):
    peak = int(RATE_PEAK_AT * total)
    return float(np.interp(step, [0, peak, total], [RATE_START, 1.0, RATE_END]))


class Lookahead:
    """Slow copies of all weights and running statistics."""

    def __init__(self, model):
        self.fast = [t for t in model.state_dict().values() if t.is_floating_point()]
        self.slow = [t.clone() for t in self.fast]

    @torch.no_grad()
    def pull(self, keep):
        for slow, fast in zip(self.slow, self.fast):
            slow.lerp_(fast, 1.0 - keep)
            fast.copy_(slow)


class Trainer:
    def __init__(self, model, data, total_steps, options):
        self.model, self.data, self.total = model, data, total_steps
        shifts = [p for n, p in model.named_parameters() if ".bn" in n]
        others = [p for n, p in model.named_parameters() if ".bn" not in n and p.requires_grad]
        groups = [dict(params=p, lr=RATE * f, full_rate=RATE * f, weight_decay=DECAY / (RATE * f))
                  for p, f in ((others, 1.0), (shifts, NORM_BIAS_FACTOR))]
        self.optimizer = torch.optim.SGD(groups, lr=RATE, momentum=MOMENTUM, nesterov=True)
        self.lookahead = Lookahead(model)
        self.step_number = 0
        self.forward = torch.compile(self.loss) if options.compile else self.loss

    def loss(self, images, labels):
        return F.cross_entropy(self.model(images), labels, reduction="sum",
                               label_smoothing=LABEL_SMOOTHING)

    def step(self, images, labels):
        factor = rate_factor(self.step_number, self.total)
        for group in self.optimizer.param_groups:
            group["lr"] = group["full_rate"] * factor
        loss = self.forward(images, labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.step_number += 1
        if self.step_number % LOOKAHEAD_EVERY == 0:
            progress = self.step_number / self.total
            self.lookahead.pull(LOOKAHEAD_BASE * progress**3)
        return loss.item() / BATCH

    def run(self):
        """Trains to the end; seconds of each epoch's steps."""
        self.model.train()
        seconds = []
        epoch = 0
        while self.step_number < self.total:
            # The optimizer does not change a bias without gradient, nor decay it.
            self.model.whiten.bias.requires_grad = epoch < WHITEN_BIAS_EPOCHS
            start, first = time.perf_counter(), self.step_number
            for images, labels in self.data.epoch(epoch):
                loss = self.step(images, labels)
                if self.step_number == self.total:
                    break
            seconds.append(time.perf_counter() - start)
            done = self.step_number - first
            print(f"epoch {epoch + 1}: loss {loss:.4f}, {done * BATCH / seconds[-1]:.1f} images/s",
                  flush=True)
            epoch += 1
        self.lookahead.pull(1.0)
        return seconds

    def time_steps(self, warm_up, measured):
        self.model.train()
        seconds, epoch = [], 0
        while True:
            batches = self.data.epoch(epoch)
            while True:
                start = time.perf_counter()  # before the batch is cut out
                batch = next(batches, None)
                if batch is None:
                    break
                self.step(*batch)
                seconds.append(time.perf_counter() - start)
                if len(seconds) == warm_up + measured:
                    return seconds[warm_up:]
            epoch += 1


@torch.no_grad()
def accuracies(model, pixels, labels, options):
    """-> (without, with) test-time augmentation."""
    model.eval()
    plain = augmented = 0
    mirrored = lambda x: 0.5 * (model(x) + model(x.flip(3)))
    for first in range(0, len(labels), 2000):
        part, truth = pixels[first:first + 2000], labels[first:first + 2000]
        wide = reflect(part, 1)
        x = normalise(part, options)
        straight = model(x)
        centre = 0.5 * (straight + model(x.flip(3)))
        moved = 0.5 * sum(mirrored(normalise(wide[:, o:o + 32, o:o + 32], options)) for o in (0, 2))
        plain += (straight.argmax(1) == truth).sum().item()
        augmented += ((0.5 * centre + 0.5 * moved).argmax(1) == truth).sum().item()
    return plain / len(labels), augmented / len(labels)


# ---------------------------------------------------------------- program


def parse(arguments):
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data", help="folder with train/<class>/*.jpg and test/<class>/*.jpg")
    p.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    p.add_argument("--epochs", type=float, default=9.9)
    p.add_argument("--steps", type=int, help="speed only: this many measured steps")
    p.add_argument("--warm-up", type=int, default=3, help="unmeasured steps before --steps")
    p.add_argument("--layout", choices=("channels_last", "contiguous"), default="channels_last")
    p.add_argument("--compile", action="store_true", help="torch.compile (PyTorch 2 and later)")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--seed", type=int, default=1)
    options = p.parse_args(arguments)
    if options.compile and not hasattr(torch, "compile"):
        p.error(f"--compile needs PyTorch 2 or later, this is {torch.__version__}")
    if options.data is None and options.steps is None:
        p.error("--data is needed to train to an accuracy; --steps N measures speed without it")
    options.torch_dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[options.dtype]
    options.memory_format = {"channels_last": torch.channels_last,
                             "contiguous": torch.contiguous_format}[options.layout]
    return options


def main(arguments=None):
    options = parse(arguments)
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    result = dict(torch=torch.__version__, dtype=options.dtype, layout=options.layout,
                  compile=options.compile, threads=options.threads, seed=options.seed,
                  batch=BATCH, machine=cpu_name())

    if options.data:
        train = read_folder(os.path.join(options.data, "train"))
    else:
        train = random_pixels(4 * BATCH, options.seed)
    data = TrainingSet(*train, options)
    model = Airbench()
    model.whiten.weight.data = whitening_filters(train[0])
    model = model.to(memory_format=options.memory_format)

    if options.steps:
        trainer = Trainer(model, data, 476, options)
        seconds = trainer.time_steps(options.warm_up, options.steps)
        result.update(images_per_second=round(BATCH / statistics.median(seconds), 1),
                      step_seconds=[round(s, 3) for s in seconds])
    else:
        total = math.ceil(options.epochs * data.batches_per_epoch())
        trainer = Trainer(model, data, total, options)
        seconds = trainer.run()
        later = seconds[1:] or seconds  # the first epoch warms caches and compiles
        steps = total - data.batches_per_epoch() if seconds[1:] else total
        result.update(steps=total, seconds=round(sum(seconds), 2),
                      images_per_second=round(steps * BATCH / sum(later), 1))
        test = read_folder(os.path.join(options.data, "test"))
        start = time.perf_counter()
        plain, augmented = accuracies(model, *test, options)
        result.update(accuracy=plain, accuracy_tta=augmented,
                      test_seconds=round(time.perf_counter() - start, 2))
    print(json.dumps(result))


def cpu_name():
    try:
        with open("/proc/cpuinfo") as f:
            return next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


if __name__ == "__main__":
    main()
