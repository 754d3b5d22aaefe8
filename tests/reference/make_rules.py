"""Writes rules.json: what PyTorch's optimizers make of two parameters in 20 steps, for the tests of update rules.

    python3 -m venv ../venv && ../venv/bin/pip install numpy torch && ../venv/bin/python tests/reference/make_rules.py

Parameter 0 is decayed, parameter 1 is not. Values and gradients are the formula of reference_values.py: phase 0 and 1 are the initial
values, phase 2 + 2 * step + parameter a step's gradient. Computed in float64, so that the file is the formula and not its rounding,
and in float32, to say how far PyTorch's own rounding takes it from that. torch.optim has no LARS: there the update is written down here, from the paper (arXiv 1708.03888), in tensor
operations of PyTorch.
"""
import torch

import reference_values as reference

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


def trained(rule, options, dtype):
    def values(p, phase):
        return reference.values([SIZES[p]], phase, 1.0).to(dtype)

    parameters = [values(p, p).requires_grad_() for p in range(len(SIZES))]
    groups = [{"params": [parameters[0]], "weight_decay": DECAY}, {"params": [parameters[1]], "weight_decay": 0.0}]
    rule_of = optimizer(rule, groups, options)
    for step in range(STEPS):
        for p, parameter in enumerate(parameters):
            parameter.grad = values(p, 2 + 2 * step + p)
        rule_of.step()
    return [parameter.detach() for parameter in parameters]


def run(rule, options):
    exact, single = trained(rule, options, torch.float64), trained(rule, options, torch.float32)
    differences = [float(f"{reference.difference(s, e):.3g}") for s, e in zip(single, exact)]
    values = [[float(f"{v:.10g}") for v in parameter.tolist()] for parameter in exact]
    return {"rule": rule, "parameters": options, "values": values, "float64_difference": differences}


if __name__ == "__main__":
    cases = [run(rule, options) for rule, several in CASES.items() for options in several]
    reference.write("rules.json", cases, steps=STEPS, rate=RATE, decay=DECAY, sizes=SIZES)
