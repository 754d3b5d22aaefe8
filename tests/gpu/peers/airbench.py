#!/usr/bin/env python3
"""The yardstick of a visit (visit.py): airbench94's recipe in PyTorch on a GPU, timed to its end.

Network, constants and test-time augmentation are those of torch_airbench.py, which lies
beside this file or in tools/bench. Here everything is on the device: uint8 pixels, draws,
windows. Kept favourable to PyTorch: bf16, channels_last, torch.compile, no value read in
between, and what compiles is warmed up before the clock starts.

  airbench.py --data DIR --runs 3
  airbench.py --data DIR --serve      compiles at once; then a run for each line on standard input, seeds 1, 2, ...

Prints one JSON object a line. --device cpu --no-compile --epochs 0.1 tries it anywhere.
"""

import argparse
import json
import math
import os
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "..", "tools", "bench")]
import torch_airbench as recipe  # noqa: E402


class DeviceSet(recipe.TrainingSet):
    """As recipe.TrainingSet, but an epoch's windows are cut out at once and normalised once."""

    def epoch(self, number):
        count = len(self.labels)
        order = torch.randperm(count)
        span = torch.arange(32)
        top = torch.randint(0, 2 * recipe.BORDER + 1, (count, 1))
        left = torch.randint(0, 2 * recipe.BORDER + 1, (count, 1))
        flipped = self.flip_first ^ bool(number % 2)
        columns = torch.where(flipped[:, None], span.flip(0), span) + left
        rows = span + top
        for b in range(self.batches_per_epoch()):
            pick = order[b * recipe.BATCH:(b + 1) * recipe.BATCH]
            window = self.padded[pick[:, None, None], rows[pick][:, :, None],
                                 columns[pick][:, None, :]]
            yield recipe.normalise(window, self.options), self.labels[pick]


class Trainer(recipe.Trainer):
    """Steps without waiting for the device."""

    def step(self, images, labels):
        factor = recipe.rate_factor(self.step_number, self.total)
        for group in self.optimizer.param_groups:
            group["lr"] = group["full_rate"] * factor
        loss = self.forward(images, labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.step_number += 1
        if self.step_number % recipe.LOOKAHEAD_EVERY == 0:
            self.lookahead.pull(recipe.LOOKAHEAD_BASE * (self.step_number / self.total) ** 3)

    def mark(self):
        """Notes when the device has done what was asked of it so far; nobody waits for that."""
        if next(self.model.parameters()).is_cuda:
            self.marks.append(torch.cuda.Event(enable_timing=True))
            self.marks[-1].record()

    def epoch_seconds(self):
        return [begin.elapsed_time(end) / 1000 for begin, end in zip(self.marks, self.marks[1:])]

    def run(self):
        self.model.train()
        self.marks = []
        self.mark()
        epoch = 0
        while self.step_number < self.total:
            self.model.whiten.bias.requires_grad = epoch < recipe.WHITEN_BIAS_EPOCHS
            for images, labels in self.data.epoch(epoch):
                self.step(images, labels)
                if self.step_number == self.total:
                    break
            self.mark()
            epoch += 1
        self.lookahead.pull(1.0)


class Runner:
    """One model for all runs, so that it is compiled once."""

    def __init__(self, options, sets):
        self.options = options
        place = torch.device(options.device)
        self.train = [t.to(place) for t in sets[0]]
        test = sets[1]
        pick = torch.linspace(0, len(test[1]) - 1, options.test or len(test[1])).long()
        self.test = [t[pick].to(place) for t in test]
        if options.device != "cpu":
            torch.set_default_device(place)
        torch.backends.cudnn.benchmark = True
        self.model = recipe.Airbench().to(memory_format=options.memory_format)
        self.forward = torch.compile(self.loss, mode=options.mode) if options.compile else self.loss

    def loss(self, images, labels):
        return F.cross_entropy(self.model(images), labels, reduction="sum",
                               label_smoothing=recipe.LABEL_SMOOTHING)

    def wait(self):
        if self.options.device == "cuda":
            torch.cuda.synchronize()

    def trainer(self, seed):
        torch.manual_seed(seed)
        self.model.load_state_dict(recipe.Airbench().state_dict())
        data = DeviceSet(*self.train, self.options)
        total = math.ceil(self.options.epochs * data.batches_per_epoch())
        self.model.whiten.bias.requires_grad = True
        trainer = Trainer(self.model, data, total, self.options)
        trainer.forward = self.forward
        return trainer

    def warm_up(self):
        """Both kinds of step: with a gradient of the whitening bias, and without one."""
        self.model.train()
        trainer = self.trainer(0)
        for trained in (True, False):
            self.model.whiten.bias.requires_grad = trained
            batches = trainer.data.epoch(0)
            for _ in range(3):
                trainer.step(*next(batches))
        recipe.accuracies(self.model, *(t[:2000] for t in self.test), self.options)
        self.wait()

    def run(self, seed):
        trainer = self.trainer(seed)
        self.model.whiten.weight.data.copy_(device_whitening(self.train[0]))
        self.wait()
        start = time.perf_counter()  # after whitening, as in a run's own epochs
        trainer.run()
        self.wait()
        seconds = time.perf_counter() - start
        plain, augmented = recipe.accuracies(self.model, *self.test, self.options)
        return dict(program="pytorch", seconds=seconds, accuracy=plain, accuracy_tta=augmented,
                    steps=trainer.total, seed=seed, epochs=trainer.epoch_seconds())


@torch.no_grad()
def device_whitening(pixels):
    """recipe.whitening_filters() without leaving the device."""
    pick = torch.randperm(len(pixels))[:recipe.WHITEN_IMAGES]
    x = pixels[pick].double() / 255.0
    x = (x - torch.tensor(recipe.CHANNEL_MEAN)) / torch.tensor(recipe.CHANNEL_DEVIATION)
    k = recipe.WHITEN_SIZE
    patches = x.permute(0, 3, 1, 2).unfold(2, k, 1).unfold(3, k, 1)  # (N, 3, side, side, k, k)
    patches = patches.permute(1, 4, 5, 0, 2, 3).reshape(3 * k * k, -1)
    values, vectors = torch.linalg.eigh(patches @ patches.T / patches.shape[1])
    filters = (vectors / (values + recipe.WHITEN_EPS).sqrt()).T.flip(0).reshape(-1, 3, k, k)
    return torch.cat([filters, -filters]).float()


def decoded(folder):
    """-> (pixels, labels), from folder.npz where a process before this one has decoded the images."""
    cache = folder.rstrip("/") + ".npz"
    if os.path.exists(cache):
        with np.load(cache) as arrays:
            return torch.from_numpy(arrays["pixels"]), torch.from_numpy(arrays["labels"])
    pixels, labels = recipe.read_folder(folder)
    part = "%s.%d.part" % (cache, os.getpid())
    with open(part, "wb") as file:
        np.savez(file, pixels=pixels.numpy(), labels=labels.numpy())
    os.replace(part, cache)
    return pixels, labels


def say(**figures):
    print(json.dumps(figures), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data", required=True)
    p.add_argument("--device", default="cuda")
    p.add_argument("--epochs", type=float, default=9.9)
    p.add_argument("--dtype", choices=("bf16", "fp32"), default="bf16")
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("--mode", default="default", help="of torch.compile")
    p.add_argument("--no-compile", dest="compile", action="store_false")
    p.add_argument("--test", type=int, help="fewer test images, spread over all")
    p.add_argument("--serve", action="store_true")
    options = p.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("airbench.py: PyTorch sees no CUDA device")
    options.torch_dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[options.dtype]
    options.memory_format = torch.channels_last
    sets = [decoded(os.path.join(options.data, name)) for name in ("train", "test")]
    say(loaded=True)
    runner = Runner(options, sets)
    runner.warm_up()
    say(ready=True, torch=torch.__version__, cuda=torch.version.cuda,
        compile=options.mode if options.compile else None)
    if options.serve:
        for seed, _ in enumerate(sys.stdin, 1):
            say(**runner.run(seed))
    else:
        for seed in range(1, options.runs + 1):
            say(**runner.run(seed))


if __name__ == "__main__":
    main()
