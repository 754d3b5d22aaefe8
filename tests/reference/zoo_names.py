"""Compares the networks of the zoo with torchvision's: names, shapes and first values of all parameters.

    python3 -m venv ../venv && ../venv/bin/pip install numpy torch torchvision
    ../venv/bin/python tests/reference/zoo_names.py build/release/bin/pipeline-inspect [NETWORK...]

Prints a line for each network with what zoo_test.cpp compares: parameters without running statistics, and a hash of names and shapes.
Exit code 1 when something differs.
"""
import json
import math
import subprocess
import sys

import torch

import zoo_models

# The last batch norm of a residual block starts at zero here; segmentation backbones follow torchvision.
ZEROS = [name for name in zoo_models.PLAIN if "resn" in name]


def theirs(twin):
    torch.manual_seed(1)
    model = twin.make(**dict(zero_init_residual=True) if twin.network in ZEROS else {})
    return {key: value for key, value in model.state_dict().items() if not key.endswith("num_batches_tracked")}


def ours(twin, inspect):
    command = [inspect, str(zoo_models.FOLDER / f"{twin.network}.toml"), "--parameters"]
    command += ["--set", "auxiliary=true"] if twin.auxiliary else []
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return {parameter.get("stored_name", parameter["name"]): parameter for parameter in map(json.loads, lines)}


def stored_shape(parameter):
    """As files of weights have it, which torchvision's models take."""
    return parameter.get("stored_shape", parameter["shape"])


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
        elif stored_shape(found[name]) != list(wanted[name].shape):
            yield f"{name}: {stored_shape(found[name])}, torchvision has {list(wanted[name].shape)}"
        elif not starts_alike(found[name], wanted[name]):
            spread = f"mean {wanted[name].mean().item():.4g}, deviation {wanted[name].std().item():.4g}"
            yield f"{name}: starts at {found[name]['initialiser']} {deviation(found[name]):.4g}; torchvision: {spread}"


def hash_of(parameters):
    """Of our shapes, as zoo_test.cpp makes it."""
    lines = sorted(f"{name} {'x'.join(map(str, stored_shape(parameter)))}\n" for name, parameter in parameters.items())
    value = 0xCBF29CE484222325
    for byte in "".join(lines).encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


if __name__ == "__main__":
    wrong = False
    for twin in zoo_models.TWINS:
        if not twin.torchvisions or (sys.argv[2:] and twin.network not in sys.argv[2:]):
            continue
        wanted, here = theirs(twin), ours(twin, sys.argv[1])
        found = list(differences(here, wanted))
        parameters = sum(value.numel() for key, value in wanted.items() if "running_" not in key)
        print(f"{twin.title}: {parameters} parameters, names {hash_of(here):#018x}, {len(found) or 'no'} differences", flush=True)
        print("".join(f"  {line}\n" for line in found), end="")
        wrong = wrong or bool(found)
    sys.exit(wrong)
