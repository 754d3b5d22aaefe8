"""Writes rules.json: what PyTorch's optimizers make of two parameters in 20 steps, for the tests of update rules.

    apt-get install python3-torch python3-numpy && /usr/bin/python3 tests/reference/make_rules.py

Parameter 0 is decayed, parameter 1 is not. Values and gradients are a formula (reference_value() here and in the tests): phase 0
and 1 are the initial values, phase 2 + 2 * step + parameter a step's gradient. Computed in float64, so that the file is the formula
and not its rounding. torch.optim has no LARS: there the update is written down here, from the paper (arXiv 1708.03888), in tensor
operations of PyTorch.
"""
import json
import pathlib

import numpy
import torch

SIZES = [24, 5]
STEPS = 20
RATE = 0.02
DECAY = 0.1

CASES = {
    "sgd": [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}],
    "adam": [{}, {"beta1": 0.8, "beta2": 0.99, "epsilon": 1e-3}],
    "adamw": [{}, {"beta1": 0.8, "beta2": 0.99, "epsilon": 1e-3}],
    "rmsprop": [{}, {"centered": True}, {"alpha": 0.9, "momentum": 0.8, "epsilon": 1e-4, "centered": True}],
    "lars": [{}, {"momentum": 0.5, "trust": 0.02}],
}


def reference_values(size, phase):
    x = (numpy.arange(size, dtype=numpy.uint64) * 2654435769 + phase * 2246822519) % 2**32
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = ((x ^ (x >> numpy.uint64(shift))) * factor) % 2**32
    x ^= x >> numpy.uint64(16)
    return torch.from_numpy(((x + 0.5) / 2147483648.0 - 1.0).astype(numpy.float32)).double()


class Lars(torch.optim.Optimizer):
    def __init__(self, params, lr, weight_decay=0.0, momentum=0.9, trust=0.001):
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, trust=trust))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                state = self.state[w]
                if not state:
                    state["v"] = torch.zeros_like(w)
                local = 1.0
                if group["weight_decay"] > 0:
                    local = group["trust"] * w.norm() / (w.grad.norm() + group["weight_decay"] * w.norm())
                state["v"].mul_(group["momentum"]).add_(group["lr"] * local * (w.grad + group["weight_decay"] * w))
                w.sub_(state["v"])


def optimizer(rule, groups, options):
    options = dict(options)
    if rule in ("adam", "adamw"):
        options["betas"] = (options.pop("beta1", 0.9), options.pop("beta2", 0.999))
    if "epsilon" in options:
        options["eps"] = options.pop("epsilon")
    made = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop, "lars": Lars}
    return made[rule](groups, lr=RATE, **options)


def run(rule, options):
    parameters = [reference_values(size, phase).requires_grad_() for phase, size in enumerate(SIZES)]
    groups = [{"params": [parameters[0]], "weight_decay": DECAY}, {"params": [parameters[1]], "weight_decay": 0.0}]
    rule_of = optimizer(rule, groups, options)
    for step in range(STEPS):
        for p, parameter in enumerate(parameters):
            parameter.grad = reference_values(SIZES[p], 2 + 2 * step + p)
        rule_of.step()
    return {"rule": rule, "parameters": options, "values": [[round(v, 9) for v in p.tolist()] for p in parameters]}


cases = [run(rule, options) for rule, several in CASES.items() for options in several]
document = {"torch": torch.__version__, "steps": STEPS, "rate": RATE, "decay": DECAY, "sizes": SIZES, "cases": cases}
path = pathlib.Path(__file__).with_name("rules.json")
path.write_text(json.dumps(document) + "\n")
