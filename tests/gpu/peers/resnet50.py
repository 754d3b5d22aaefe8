#!/usr/bin/env python3
"""The yardstick of a visit (visit.py): ResNet-50 training steps in PyTorch, on one synthetic batch.

Kept favourable to PyTorch: channels_last, bf16 autocast, torch.compile, cuDNN's own
timing of its algorithms, fused SGD, pixels that already lie on the device as bf16.

  resnet50.py --batch 256 --steps 40            rounds, then the median
  resnet50.py --batch 256 --steps 40 --serve    compiles at once; then a round for each line on standard input

Prints one JSON object a line. --device cpu --no-compile --size 64 tries it anywhere.
"""

import argparse
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, stride
EXPANSION = 4


def conv_norm(channels_in, channels, kernel, stride=1):
    conv = nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(conv, nn.BatchNorm2d(channels))


class Bottleneck(nn.Module):
    def __init__(self, channels_in, width, stride, project):
        super().__init__()
        out = width * EXPANSION
        self.first = conv_norm(channels_in, width, 1)
        self.second = conv_norm(width, width, 3, stride)  # "v1.5": the stride is here
        self.third = conv_norm(width, out, 1)
        self.shortcut = conv_norm(channels_in, out, 1, stride) if project else nn.Identity()

    def forward(self, x):
        y = F.relu(self.first(x), inplace=True)
        y = F.relu(self.second(y), inplace=True)
        return F.relu(self.third(y) + self.shortcut(x), inplace=True)


def resnet50(classes=1000):
    layers = [conv_norm(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for width, blocks, stride in STAGES:
        for block in range(blocks):
            layers.append(Bottleneck(channels, width, stride if block == 0 else 1, block == 0))
            channels = width * EXPANSION
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]
    return nn.Sequential(*layers)


class Bench:
    def __init__(self, options):
        self.options = options
        self.device = torch.device(options.device)
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.manual_seed(1)
        self.model = resnet50().to(self.device, memory_format=torch.channels_last)
        extra = {"fused": True} if options.device == "cuda" else {}
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9,
                                         weight_decay=1e-4, **extra)
        shape = (options.batch, 3, options.size, options.size)
        kind = torch.bfloat16 if options.precision == "bf16" else torch.float32
        self.images = torch.randn(shape, device=self.device).to(kind)
        self.images = self.images.contiguous(memory_format=torch.channels_last)
        self.labels = torch.randint(0, 1000, (options.batch,), device=self.device)
        self.forward = torch.compile(self.loss, mode=options.mode) if options.compile else self.loss

    def loss(self, images, labels):
        with torch.autocast(self.device.type, dtype=torch.bfloat16,
                            enabled=self.options.precision == "bf16"):
            return F.cross_entropy(self.model(images), labels)

    def step(self):
        loss = self.forward(self.images, self.labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def round(self, steps):
        self.wait()
        start = time.perf_counter()
        for _ in range(steps):
            loss = self.step()
        self.wait()
        seconds = time.perf_counter() - start
        return dict(program="pytorch", images_per_second=self.options.batch * steps / seconds,
                    seconds=seconds, steps=steps, batch=self.options.batch,
                    precision=self.options.precision, loss=loss.item())

    def about(self):
        cuda = self.device.type == "cuda"
        return dict(ready=True, torch=torch.__version__, cuda=torch.version.cuda,
                    cudnn=torch.backends.cudnn.version() if cuda else None,
                    device=torch.cuda.get_device_name() if cuda else "cpu",
                    compile=self.options.mode if self.options.compile else None)


def say(**figures):
    print(json.dumps(figures), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--device", default="cuda")
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--size", type=int, default=224)
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--warm-up", type=int, default=10)
    p.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    p.add_argument("--mode", default="default", help="of torch.compile")
    p.add_argument("--no-compile", dest="compile", action="store_false")
    p.add_argument("--serve", action="store_true")
    options = p.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("resnet50.py: PyTorch sees no CUDA device")
    say(loaded=True)
    bench = Bench(options)
    bench.round(options.warm_up)
    say(**bench.about())
    if options.serve:
        for _ in sys.stdin:
            say(**bench.round(options.steps))
        return
    rates = []
    for _ in range(options.rounds):
        figures = bench.round(options.steps)
        rates.append(figures["images_per_second"])
        say(**figures)
    say(median=statistics.median(rates))


if __name__ == "__main__":
    main()
