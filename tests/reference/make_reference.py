#!/usr/bin/env python3
"""Makes the reference values that the CPU backend is compared with.

    /usr/bin/python3 tests/reference/make_reference.py

writes airbench.json and residual.json beside this file. PyTorch computes them in
float32; the same step in float64 says how far float32 itself is off, and is written
beside each tensor as `float64_difference`; the same step under bf16 autocast says how far
PyTorch's own bf16 gradients are off (`bf16_difference`), and how far they are when the winners
of max pooling and the signs in ReLU are taken from the float32 step (`bf16_same_winners`).
README.md here explains the files.

No tensor is stored. Inputs and parameters come from a closed form in integers, so
every language and machine makes the same bits. For element i (row-major flat index:
NCHW for activations, OIHW for convolution weights, [out, in] for linear weights) of a
tensor with the integer `phase`, and `scale`, `offset`:

    x = i * 2654435769 + phase * 2246822519      all in uint32, wrapping
    x = (x ^ (x >> 16)) * 2146121005             0x7FEB352D
    x = (x ^ (x >> 15)) * 2221713035             0x846CA68B
    x =  x ^ (x >> 16)
    value = float32(offset + scale * ((x + 0.5) / 2147483648 - 1))   in double up to the cast

which is uniform in (offset - scale, offset + scale). (A sine of i would do for the eye,
but a weight matrix filled with sin(a i + b) has rank 2, and a wrong channel order could
pass unnoticed.)

Each network makes one training step's forward and backward pass: batch norm takes its
statistics from the batch and updates the running ones (which start at mean 0,
variance 1); nothing is optimised.
"""

import argparse
import json
import os

import numpy as np
import torch
import torch.nn.functional as F

BATCH = 4
CLASSES = 10
SAMPLES = 64


def closed_form(shape, phase, scale, offset=0.0):
    """-> float32 tensor; the formula of this file's header."""
    x = np.arange(int(np.prod(shape)), dtype=np.uint64) * 2654435769 + phase * 2246822519
    x &= 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    x ^= x >> 16
    values = offset + scale * ((x.astype(np.float64) + 0.5) / 2147483648.0 - 1.0)
    return torch.from_numpy(values.astype(np.float32).reshape(shape))


class Tensors:
    """Tensors by name, each from its own phase, in one dtype."""

    def __init__(self, dtype, first_phase):
        self.dtype, self.first_phase = dtype, first_phase
        self.values, self.recipes = {}, {}
        self.running = {}
        self.closest_tie = float("inf")
        self.winners = []    # by max pooling and ReLU, in order
        self.replay = None   # another step's winners to use instead of one's own

    def make(self, name, shape, scale, offset=0.0, trained=True):
        phase = self.first_phase + len(self.recipes)
        scale = float(np.float32(scale))
        self.recipes[name] = dict(shape=list(shape), phase=phase, scale=scale, offset=offset,
                                  trained=trained)
        value = closed_form(shape, phase, scale, offset).to(self.dtype)
        self.values[name] = value.requires_grad_(trained)
        return value

    # Bounds that keep activations near unit variance, so that every layer matters.
    def conv(self, name, out, inputs, size, **more):
        return self.make(name, (out, inputs, size, size), (6 / (inputs * size * size)) ** 0.5,
                         **more)

    def norm(self, name, x, momentum, eps, scale=None):
        channels = x.shape[1]
        mean = torch.zeros(channels, dtype=self.dtype)
        variance = torch.ones(channels, dtype=self.dtype)
        weight = (torch.ones(channels, dtype=self.dtype) if scale is None else
                  self.make(name + ".weight", (channels,), scale, offset=1.0))
        bias = self.make(name + ".bias", (channels,), 0.5)
        y = F.batch_norm(x, mean, variance, weight, bias, True, momentum, eps)
        self.running[name + ".running_mean"] = mean
        self.running[name + ".running_var"] = variance
        return y

    def max_pool(self, x, size):
        """Notes how near the closest window is to a tie, where rounding would decide."""
        with torch.no_grad():
            windows = x.unfold(2, size, size).unfold(3, size, size)
            best = windows.reshape(*windows.shape[:4], -1).topk(2).values
            self.closest_tie = min(self.closest_tie, (best[..., 0] - best[..., 1]).min().item())
        values, index = F.max_pool2d(x, size, return_indices=True)
        self.winners.append(index)
        if self.replay is None:
            return values
        index = self.replay[len(self.winners) - 1]
        return x.flatten(2).gather(2, index.flatten(2)).view(index.shape)

    def relu(self, x):
        self.closest_tie = min(self.closest_tie, x.detach().abs().min().item())
        self.winners.append(x.detach() > 0)
        return F.relu(x) if self.replay is None else x * self.replay[len(self.winners) - 1].to(x.dtype)


def airbench(t):
    x = t.make("input", (BATCH, 3, 32, 32), 2.0, trained=False)
    whiten = t.conv("whiten.weight", 24, 3, 2, trained=False)
    x = F.gelu(F.conv2d(x, whiten, t.make("whiten.bias", (24,), 0.2)))
    inputs = 24
    for group, width in enumerate((64, 256, 256), 1):
        for part in (1, 2):
            name = f"group{group}."
            x = F.conv2d(x, t.conv(f"{name}conv{part}.weight", width, inputs, 3), padding=1)
            if part == 1:
                x = t.max_pool(x, 2)
            x = F.gelu(t.norm(f"{name}bn{part}", x, momentum=0.4, eps=1e-12))
            inputs = width
    x = t.max_pool(x, 3).flatten(1)
    logits = F.linear(x, t.make("fc.weight", (CLASSES, 256), 0.5)) * (1.0 / 9.0)
    return logits, dict(label_smoothing=0.2, reduction="sum")


def residual(t):
    x = t.make("input", (BATCH, 16, 8, 8), 2.0, trained=False)
    norm = dict(momentum=0.1, eps=1e-5, scale=0.5)
    y = F.conv2d(x, t.conv("layer1.0.conv1.weight", 16, 16, 3), padding=1)
    y = t.relu(t.norm("layer1.0.bn1", y, **norm))
    y = F.conv2d(y, t.conv("layer1.0.conv2.weight", 16, 16, 3), padding=1)
    y = t.norm("layer1.0.bn2", y, **norm)
    y = t.relu(x + y).mean((2, 3))
    logits = F.linear(y, t.make("fc.weight", (CLASSES, 16), 1.0),
                      t.make("fc.bias", (CLASSES,), 0.5))
    return logits, dict(label_smoothing=0.0, reduction="mean")


NETWORKS = {
    "airbench": (airbench, dict(gelu="erf", batch_norm=dict(eps=1e-12, takes=0.4, scale="fixed 1"),
                                logit_scale="1/9")),
    "residual": (residual, dict(batch_norm=dict(eps=1e-5, takes=0.1, scale="trained"))),
}


def step(network, dtype, first_phase, replay=None):
    t = Tensors(dtype, first_phase)
    t.replay = replay
    logits, loss_options = network(t)
    labels = torch.tensor([(3 * n + 1) % CLASSES for n in range(BATCH)])
    loss = F.cross_entropy(logits, labels, **loss_options)
    logits.retain_grad()
    loss.backward()
    return t, logits, labels, loss, loss_options


def stride_for(size):
    """The largest stride giving SAMPLES values that shares no factor with the size, so
    that the samples visit every channel and kernel position alike."""
    stride = max(1, size // SAMPLES)
    while np.gcd(stride, size) != 1:
        stride -= 1
    return stride


def summary(value, exact):
    """L2 norm, sum and samples of a float32 tensor, and its distance from float64's."""
    flat = value.detach().reshape(-1).numpy()
    exact = exact.detach().reshape(-1).numpy()
    wide = flat.astype(np.float64)
    stride = stride_for(flat.size)
    count = min(SAMPLES, flat.size)
    return dict(l2=float(np.linalg.norm(wide)), sum=float(wide.sum()),
                float64_difference=float("%.2g" % (np.linalg.norm(wide - exact)
                                                   / np.linalg.norm(exact))),
                stride=stride,
                samples=[float("%.9g" % v) for v in flat[:count * stride:stride]])


def reference(name, first_phase):
    network, constants = NETWORKS[name]
    single, logits, labels, loss, loss_options = step(network, torch.float32, first_phase)
    double, exact_logits, _, exact_loss, _ = step(network, torch.float64, first_phase)
    with torch.autocast("cpu", torch.bfloat16):
        bf16 = step(network, torch.float32, first_phase)[0]
        same_winners = step(network, torch.float32, first_phase, single.winners)[0]
    tensors = {}
    for key, recipe in single.recipes.items():
        tensors[key] = dict(recipe)
        # The tensor's own first values, to check the formula before the network.
        first = single.values[key].detach().reshape(-1)[:3]
        tensors[key]["first"] = [float("%.9g" % v) for v in first]
        if recipe["trained"]:
            gradient = single.values[key].grad
            tensors[key]["gradient"] = summary(gradient, double.values[key].grad)
            for field, other in (("bf16_difference", bf16), ("bf16_same_winners", same_winners)):
                off = (other.values[key].grad.double() - gradient.double()).norm() / gradient.double().norm()
                tensors[key]["gradient"][field] = float("%.2g" % off.item())
    return dict(
        made_by="tests/reference/make_reference.py", torch=torch.__version__, network=name,
        constants=constants, labels=labels.tolist(), loss_options=loss_options,
        loss=float("%.9g" % loss.item()), loss_float64=exact_loss.item(),
        closest_tie=float("%.3g" % double.closest_tie),
        logits=dict(shape=list(logits.shape), values=summary(logits, exact_logits),
                    gradient=summary(logits.grad, exact_logits.grad)),
        tensors=tensors,
        running={k: dict(shape=list(v.shape), values=summary(v, double.running[k]))
                 for k, v in single.running.items()})


def to_json(value, depth=0):
    """One tensor's entry per line: readable differences, small files."""
    if isinstance(value, dict) and depth < 2:
        inner = ",\n".join("  " * (depth + 1) + json.dumps(k) + ": " + to_json(v, depth + 1)
                           for k, v in value.items())
        return "{\n" + inner + "\n" + "  " * depth + "}"
    return json.dumps(value)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--out", default=os.path.dirname(os.path.abspath(__file__)))
    p.add_argument("--first-phase", type=int, default=2001,
                   help="phase of each network's first tensor; the others count on from it "
                   "(2001 keeps every pooling window and ReLU far from a tie)")
    options = p.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for name in NETWORKS:
        made = reference(name, options.first_phase)
        path = os.path.join(options.out, name + ".json")
        with open(path, "w") as f:
            f.write(to_json(made) + "\n")
        worst = max(v["gradient"]["float64_difference"] for v in made["tensors"].values()
                    if "gradient" in v)
        print(f"{path}: {os.path.getsize(path)} bytes, loss {made['loss']}, "
              f"closest tie {made['closest_tie']}, float32 off by at most {worst}")


if __name__ == "__main__":
    main()
