"""Compares the networks of the zoo with torchvision's: names, shapes and first values of all parameters.

    python3 -m venv ../venv && ../venv/bin/pip install numpy torch torchvision
    ../venv/bin/python tests/reference/zoo_names.py build/release/bin/pipeline-inspect [NETWORK...]

Prints a line for each network with what zoo_test.cpp compares: parameters without running statistics, and a hash of names and shapes.
Exit code 1 when something differs.
"""
import json
import math
import pathlib
import subprocess
import sys

import torch
import torchvision

FOLDER = pathlib.Path(__file__).parents[2] / "pipelines" / "networks"
NETWORKS = """alexnet vgg16 vgg19 vgg16_bn vgg19_bn googlenet inception_v3 squeezenet1_1 resnet18 resnet34 resnet50 resnet101 resnet152
    resnext50_32x4d resnext101_32x8d resnext101_64x4d wide_resnet50_2 densenet121 mobilenet_v2 mobilenet_v3_large mobilenet_v3_small
    efficientnet_b0 shufflenet_v2_x1_0""".split()

# Without the auxiliary classifiers, which are not there by default; batch norms that end a residual block start at zero.
OPTIONS = {"googlenet": dict(aux_logits=False), "inception_v3": dict(aux_logits=False)}
OPTIONS |= {name: dict(zero_init_residual=True) for name in NETWORKS if "resn" in name}


def theirs(name):
    torch.manual_seed(1)
    model = torchvision.models.get_model(name, weights=None, **OPTIONS.get(name, {}))
    return {key: value for key, value in model.state_dict().items() if not key.endswith("num_batches_tracked")}


def ours(name, inspect):
    command = [inspect, str(FOLDER / f"{name}.toml"), "--parameters"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return {parameter["name"]: parameter for parameter in map(json.loads, lines)}


def deviation(parameter):
    """Of the first values by the parameter's rule; a constant's is its value."""
    rule, value, shape = parameter["initialiser"], parameter["value"], parameter["shape"]
    if rule in ("constant", "normal"):
        return value
    if rule == "uniform":
        return value / math.sqrt(3)
    fan_in, fan_out = math.prod(shape[1:]), shape[0] * math.prod(shape[2:])
    squares = dict(he_normal=2 / fan_in, he_normal_fan_out=2 / fan_out, he_uniform=2 / fan_in, fan_in_uniform=1 / (3 * fan_in))
    return math.sqrt(squares[rule])


def starts_alike(parameter, values):
    wanted = deviation(parameter)
    if parameter["initialiser"] == "constant":
        return bool((values == wanted).all())
    return abs(values.std().item() - wanted) < wanted * (0.02 + 3 / math.sqrt(values.numel()))


def differences(found, wanted):
    for name in sorted(found.keys() | wanted.keys()):
        if name not in found or name not in wanted:
            yield f"{name}: only {'torchvision has it' if name in wanted else 'ours'}"
        elif found[name]["shape"] != list(wanted[name].shape):
            yield f"{name}: {found[name]['shape']}, torchvision has {list(wanted[name].shape)}"
        elif not starts_alike(found[name], wanted[name]):
            spread = f"mean {wanted[name].mean().item():.4g}, deviation {wanted[name].std().item():.4g}"
            yield f"{name}: starts at {found[name]['initialiser']} {deviation(found[name]):.4g}; torchvision: {spread}"


def hash_of(tensors):
    lines = sorted(f"{name} {'x'.join(map(str, value.shape))}\n" for name, value in tensors.items())
    value = 0xCBF29CE484222325
    for byte in "".join(lines).encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


if __name__ == "__main__":
    wrong = False
    for name in sys.argv[2:] or NETWORKS:
        wanted = theirs(name)
        found = list(differences(ours(name, sys.argv[1]), wanted))
        parameters = sum(value.numel() for key, value in wanted.items() if "running_" not in key)
        print(f"{name}: {parameters} parameters, names {hash_of(wanted):#018x}, {len(found) or 'no'} differences", flush=True)
        print("".join(f"  {line}\n" for line in found), end="")
        wrong = wrong or bool(found)
    sys.exit(wrong)
