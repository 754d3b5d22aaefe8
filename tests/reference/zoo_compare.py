"""Compares what the networks of the zoo compute with what PyTorch's do, from the same weights: logits, and a training step.

    python3 -m venv ../venv && ../venv/bin/pip install numpy torch torchvision
    ../venv/bin/python tests/reference/zoo_compare.py build/release/bin/pipeline-run [NETWORK...] [--write | --updates N] [--side HxW]

PyTorch initialises each network; its batch norms and running statistics become those of some random images, and are not all alike.
The weights go through a .pth file. Four images later there are two figures, each of ours in float32, of PyTorch's in float32, and of
their ratio; the truth is PyTorch's in float64, and a difference is a norm relative to the truth's:

- the logits, from running statistics;
- the update: all parameters and running statistics after one step of SGD, less those before it. The rate is so high that the
  rounding of the weights themselves counts for nothing. Nothing is drawn by chance: no dropout, no stochastic depth.

A ReLU's input may round to the other side of 0, and the largest value of a window to a neighbour: that moves gradients a thousand times
as far as rounding does, by chance in ours, in PyTorch's or in both. So the step is compared for three sets of images, and all figures of
it are medians over these.

Prints a row of zoo.csv for each network and the name of its worst tensor; --write puts the row there. Exit code 1 when the
ratio of the logits, of the update or of its median tensor is above 3. --updates N compares what N steps add up to, over the same images
with momentum and a rate of 0.01: from the second step on, each begins where the one before it led. --side 384x480, or 96, is the size of
all images; no row of the table is of another size.
"""
import argparse
import copy
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
from typing import NamedTuple

import numpy
import torch
import torchvision

import zoo_models
from zoo_models import CLASSES

BATCH, SETS = 4, 3
TABLE = pathlib.Path(__file__).with_name("zoo.csv")

PIPELINE = """
[run]
name = "zoo"
epochs = {epochs}
folder = "{folder}/runs"
precision = "fp32"
devices = "cpu"
threads = 1
[network]
use = "{network}"
weights = "{folder}/weights.pth"
{settings}
[graph]
flow = ["read", "decode_image", "batch", {flow}]
[graph.read]
{read}
[graph.decode_image]
size = {size}
channels = {channels}
[graph.batch]
size = 4
{rest}
"""
LOGITS = '''[graph.write_features]
layer = "{last}"
file = "{folder}/logits.npy"
'''
STEP = '''[graph.forward_backward]
loss = "{loss}"
auxiliary = [{auxiliary}]
[graph.optimizer]
type = "sgd"
momentum = {momentum}
learning_rate = {rate}
'''


class Steps(NamedTuple):
    """Of SGD, all over one batch."""
    count: int
    rate: float
    momentum: float


ONE = Steps(1, 1000.0, 0.0)
LOSSES = dict(classify=("cross_entropy", torch.nn.functional.cross_entropy),
              segment=("pixel_cross_entropy", torch.nn.functional.cross_entropy),
              restore=("mean_squared_error", torch.nn.functional.mse_loss))


def settle(model, channels, size):
    """Batch norms as after some training, their factors and shifts not all alike; nor those of layer scales."""
    generator = torch.Generator().manual_seed(2)
    norms = {module: module.momentum for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)}
    for module in model.modules():
        if module in norms:
            torch.nn.init.uniform_(module.weight, 0.5, 1.5, generator=generator)
            torch.nn.init.normal_(module.bias, 0, 0.2, generator=generator)
            module.momentum = None  # the mean of what comes
        elif hasattr(module, "layer_scale"):
            torch.nn.init.uniform_(module.layer_scale, 0.5, 1.5, generator=generator)
    with torch.no_grad():
        model.train()(torch.randn(8, channels, *size, generator=generator))
    for module, momentum in norms.items():
        module.momentum = momentum
    return model.eval()


class Data:
    """Four random images with their targets, as files and as tensors."""

    def __init__(self, twin, size, folder, seed):
        generator = torch.Generator().manual_seed(seed)
        numbers = lambda *shape, most=256: torch.randint(0, most, shape, dtype=torch.uint8, generator=generator)
        channels = twin.channels
        pixels = numbers(BATCH, channels, *size)
        mean, deviation = (torch.tensor(twin.input.get(key, [otherwise] * channels), dtype=torch.float64).view(channels, 1, 1)
                           for key, otherwise in (("mean", 0.0), ("deviation", 1.0)))
        self.inputs = (pixels.double() / 255 - mean) / deviation
        folder.mkdir()
        if twin.task == "classify":
            self.targets = torch.arange(BATCH)
            self.read = f'stage = "read_folder"\npath = "{folder}"'
            write_pngs(pixels, [folder / str(i) for i in range(BATCH)])
            return
        if twin.task == "segment":
            labels = numbers(BATCH, 1, *size, most=CLASSES)
            self.targets = labels[:, 0].long()
            more = "classes = [" + ", ".join(f'{{ name = "{i}" }}' for i in range(CLASSES)) + "]"
        else:
            labels = numbers(BATCH, 3, *(twin.scale * side for side in size))
            self.targets = labels.double() / 255
            more = f'target = "image"\ntarget_scale = {twin.scale}'
        self.read = f'stage = "read_pairs"\nimages = "{folder}/images"\nlabels = "{folder}/labels"\n{more}'
        write_pngs(pixels, [folder / "images"] * BATCH)
        write_pngs(labels, [folder / "labels"] * BATCH)


def write_pngs(pictures, folders):
    for number, (picture, folder) in enumerate(zip(pictures, folders)):
        folder.mkdir(exist_ok=True)
        torchvision.io.write_png(picture, str(folder / f"{number}.png"))


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


def run(program, twin, size, folder, epochs=1, **graph):
    variables = "\n".join(f"{key} = {json.dumps(value)}" for key, value in twin.settings(size).items())
    file = folder / "zoo.toml"
    file.write_text(PIPELINE.format(folder=folder, network=twin.network, settings=variables, size=list(size), epochs=epochs,
                                    channels=twin.channels, **graph))
    output_of([program, str(file), "--quiet"])


def result_of(model, inputs):
    """The output, and auxiliary ones by torchvision's names."""
    out = model(inputs)
    if isinstance(out, torch.Tensor):
        return out, {}
    named = dict(out) if isinstance(out, dict) else out._asdict()
    return named["out" if "out" in named else "logits"], named


def last_layer(program, twin, size):
    command = [str(pathlib.Path(program).parent / "pipeline-inspect"), twin.network]
    for key, value in twin.settings(size).items():
        command += ["--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
    rows = [line.split() for line in output_of(command).splitlines()]
    return [row[1] for row in rows if row and row[0].isdigit() and not row[1].startswith("layers")][-1]


def distance(values, truth):
    return float((values - truth).norm() / truth.norm())


def compare_logits(program, twin, model, folder, size):
    data = Data(twin, size, folder / "logits", 3)
    rest = LOGITS.format(last=last_layer(program, twin, size), folder=folder)
    run(program, twin, size, folder, read=data.read, flow='"forward", "write_features"', rest=rest)
    ours = torch.from_numpy(numpy.load(folder / "logits.npy").astype(numpy.float64))
    with torch.no_grad():
        theirs = result_of(model, data.inputs.float())[0].double()
        truth = result_of(copy.deepcopy(model).double(), data.inputs)[0]
    return distance(ours.reshape(truth.shape), truth), distance(theirs, truth)


def values_of(model):
    return {key: value.detach().double() for key, value in model.state_dict().items() if value.is_floating_point()}


def updates_of_pytorch(twin, model, data, steps, dtype):
    """By name."""
    before = values_of(model)
    model = copy.deepcopy(model).to(dtype).train()
    loss_of = LOSSES[twin.task][1]
    targets = data.targets.to(dtype) if data.targets.is_floating_point() else data.targets
    groups = [{"params": [value], "lr": steps.rate * (twin.bias_rate if key.endswith("bias") else 1)} for key, value in model.named_parameters()]
    optimizer = torch.optim.SGD(groups, momentum=steps.momentum)
    for _ in range(steps.count):
        optimizer.zero_grad()
        out, named = result_of(model, data.inputs.to(dtype))
        loss = loss_of(out, targets)
        for name, weight in twin.auxiliary.values():
            loss = loss + weight * loss_of(named[name], targets)
        loss.backward()
        optimizer.step()
    return {key: value - before[key] for key, value in values_of(model).items()}


def read_safetensors(path):
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            tensors[name] = torch.from_numpy(numpy.frombuffer(data[begin:end], dtype="<f4").astype(numpy.float64))
    return tensors


def compare_updates(program, twin, model, folder, size, steps, seed):
    data = Data(twin, size, folder / f"step{seed}", seed)
    auxiliary = ", ".join(f'{{ output = "{name}", weight = {weight} }}' for name, (_, weight) in twin.auxiliary.items())
    rest = STEP.format(loss=LOSSES[twin.task][0], rate=steps.rate, momentum=steps.momentum, auxiliary=auxiliary)
    if not auxiliary:
        rest = rest.replace("auxiliary = []\n", "")
    flow = '"forward_backward", "allreduce", "optimizer"'
    run(program, twin, size, folder, steps.count, read=data.read, flow=flow, rest=rest)
    after = read_safetensors(max(folder.glob("runs/zoo/*/weights.safetensors"), key=lambda file: file.stat().st_mtime_ns))
    truth, theirs = (updates_of_pytorch(twin, model, data, steps, dtype) for dtype in (torch.float64, torch.float32))
    before = values_of(model)
    ours = {key: after[key if key in after else f"{key}.weight"].reshape(value.shape) - value for key, value in before.items()}
    return updates_apart(ours, theirs, truth)


def updates_apart(ours, theirs, truth):
    """How far ours and PyTorch's are from the truth, over all values, and the ratio of these in each tensor."""
    def far(updates):
        return sum(float((updates[key] - truth[key]).square().sum()) for key in truth) ** 0.5

    norm = sum(float(value.square().sum()) for value in truth.values()) ** 0.5
    ratios = [float((ours[key] - truth[key]).norm() / (theirs[key] - truth[key]).norm().clamp(min=1e-30)) for key in truth]
    return [far(ours) / norm, far(theirs) / norm, far(ours) / far(theirs)], ratios


def compare_sets(program, twin, model, folder, size, steps):
    """Medians over the sets of images: the three figures, then the ratio in the median tensor and in the worst one; its name."""
    figures, ratios = zip(*(compare_updates(program, twin, model, folder, size, steps, seed) for seed in range(3, 3 + SETS)))
    by_tensor = numpy.median(ratios, axis=0)
    name = list(values_of(model))[int(by_tensor.argmax())]
    return [*numpy.median(figures, axis=0), float(numpy.median(by_tensor)), float(by_tensor.max())], name


def compare(program, twin, steps, size=None):
    """`size`: of all images; otherwise those of the twin."""
    side, step_side = (size or (both, both) for both in (twin.side, twin.step_side))
    torch.manual_seed(1)
    model = zoo_models.without_chance(twin.make(classes=CLASSES) if twin.task != "restore" else twin.make(0))
    model = settle(model, twin.channels, step_side)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        torch.save(model.state_dict(), folder / "weights.pth")
        logits = compare_logits(program, twin, model, folder, side)
        return logits, *compare_sets(program, twin, model, folder, step_side, steps)


def row(twin, logits, step):
    figures = [f"{value:.1e}" for value in logits] + [f"{logits[0] / logits[1]:.2f}"]
    figures += [f"{value:.1e}" for value in step[:2]] + [f"{value:.2f}" for value in step[2:]]
    return f'"{twin.title}",' + ",".join(figures)


def write(rows):
    """Replaces the rows of these networks in the table, and adds those of new ones, in the order of TWINS."""
    head, *body = TABLE.read_text().splitlines()
    known = {line.split('"')[1]: line for line in body} | rows
    lines = [head] + [known[twin.title] for twin in zoo_models.TWINS if twin.title in known]
    TABLE.write_text("".join(f"{line}\n" for line in lines))


def size_of(text):
    """Of "384x480" or "96": height and width."""
    sides = [int(side) for side in text.split("x")]
    if len(sides) > 2 or min(sides) < 1:
        raise ValueError(text)
    return sides[0], sides[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("networks", nargs="*")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--write", action="store_true")
    how.add_argument("--updates", type=int)
    parser.add_argument("--side", type=size_of, metavar="HxW")
    options = parser.parse_args()
    if options.write and options.side:
        parser.error("--write is for the sizes of the table: leave out --side")
    steps = Steps(options.updates, 0.01, 0.9) if options.updates else ONE
    good = True
    for twin in zoo_models.TWINS:
        if options.networks and twin.network not in options.networks and twin.title not in options.networks:
            continue
        try:
            logits, step, worst = compare(options.program, twin, steps, options.side)
        except RuntimeError as error:
            print(f"{twin.title}: {error}", flush=True)
            good = False
            continue
        line = row(twin, logits, step)
        near = logits[0] <= 3 * logits[1] and step[2] <= 3 and step[3] <= 3
        print(line + f" {worst}" + ("" if near else "  TOO FAR"), flush=True)
        good = good and near
        if options.write:
            write({twin.title: line})
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
