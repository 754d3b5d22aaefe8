"""Writes optimizers.json: what PyTorch's optimizers make of two parameters in 20 steps, for the tests of optimizers.

    python3 -m venv ../venv && ../venv/bin/pip install numpy torch && ../venv/bin/python tests/reference/make_optimizers.py

Parameter 0 is decayed, parameter 1 is not. Values and gradients are the formula of reference_values.py: phase 0 and 1 are the initial
values, phase 2 + 2 * step + parameter a step's gradient. Computed in float64, so that the file is the formula and not its rounding,
and in float32, to say how far PyTorch's own rounding takes it from that. torch.optim has no LARS, LAMB and Lion, and
its Muon computes in bf16: their updates are written down here, from the papers (arXiv 1708.03888, 1904.00962, 2302.06675) and from
kellerjordan.github.io/posts/muon, in tensor operations of PyTorch. For Muon parameter p is a matrix of ROWS[p] rows; its products are in the
type of the values. torch.optim.Adafactor gets parameter 0 as a matrix of as many rows.
"""
import torch

import reference_values as reference

SIZES = [24, 5]
ROWS = [4, 1]
STEPS = 20
RATE = 0.02
DECAY = 0.1
EPSILON = torch.finfo(torch.float32).eps  # PyTorch's default in float32, also where it computes in float64

CASES = {
    "sgd": [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}],
    "adam": [{}, {"beta1": 0.8, "beta2": 0.99, "epsilon": 1e-3}],
    "adamw": [{}, {"beta1": 0.8, "beta2": 0.99, "epsilon": 1e-3}],
    "rmsprop": [{}, {"centered": True}, {"alpha": 0.9, "momentum": 0.8, "epsilon": 1e-4, "centered": True}],
    "lars": [{}, {"momentum": 0.5, "trust": 0.02}],
    "lamb": [{}, {"beta1": 0.8, "beta2": 0.99, "epsilon": 1e-3}],
    "lion": [{}, {"beta1": 0.5, "beta2": 0.8}],
    "adafactor": [{}, {"beta2_decay": -0.5, "epsilon1": 1e-2, "epsilon2": 0.5, "clip_threshold": 1.25}],
    "muon": [{}, {"momentum": 0.0, "nesterov": False}, {"momentum": 0.6, "steps": 3, "normalise": True}],
}


class Written(torch.optim.Optimizer):
    """An optimizer that is written down here: update(w, state, group, t), with two states of zeros, m and v, and the step's number."""

    def __init__(self, params, lr, weight_decay=0.0, **options):
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, **self.defaults_of() | options))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                state = self.state[w]
                if not state:
                    state.update(m=torch.zeros_like(w), v=torch.zeros_like(w), t=0)
                state["t"] += 1
                self.update(w, state, group, state["t"])


class Lars(Written):
    @staticmethod
    def defaults_of():
        return dict(momentum=0.9, trust=0.001)

    @staticmethod
    def update(w, state, group, t):
        local = 1.0
        if group["weight_decay"] > 0:
            local = group["trust"] * w.norm() / (w.grad.norm() + group["weight_decay"] * w.norm())
        state["v"].mul_(group["momentum"]).add_(group["lr"] * local * (w.grad + group["weight_decay"] * w))
        w.sub_(state["v"])


class Lamb(Written):
    @staticmethod
    def defaults_of():
        return dict(betas=(0.9, 0.999), eps=1e-6)

    @staticmethod
    def update(w, state, group, t):
        beta1, beta2 = group["betas"]
        state["m"].mul_(beta1).add_(w.grad, alpha=1 - beta1)
        state["v"].mul_(beta2).addcmul_(w.grad, w.grad, value=1 - beta2)
        mean, square = state["m"] / (1 - beta1**t), state["v"] / (1 - beta2**t)
        r = mean / (square.sqrt() + group["eps"]) + group["weight_decay"] * w
        ratio = w.norm() / r.norm() if group["weight_decay"] > 0 else 1.0
        w.sub_(group["lr"] * ratio * r)


class Lion(Written):
    @staticmethod
    def defaults_of():
        return dict(betas=(0.9, 0.99))

    @staticmethod
    def update(w, state, group, t):
        beta1, beta2 = group["betas"]
        c = beta1 * state["m"] + (1 - beta1) * w.grad
        w.sub_(group["lr"] * (c.sign() + group["weight_decay"] * w))
        state["m"].mul_(beta2).add_(w.grad, alpha=1 - beta2)


class Muon(Written):
    @staticmethod
    def defaults_of():
        return dict(momentum=0.95, nesterov=True, steps=5, normalise=False)

    @staticmethod
    def update(w, state, group, t):
        rows = ROWS[SIZES.index(w.numel())]
        state["v"].mul_(group["momentum"]).add_(w.grad)
        u = w.grad + group["momentum"] * state["v"] if group["nesterov"] else state["v"]
        x = u.view(rows, -1)
        columns = x.shape[1]
        x = x / (x.norm() + 1e-7)
        x = x.T if rows > columns else x
        for _ in range(group["steps"]):
            a = x @ x.T
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
        x = x.T if rows > columns else x
        if group["normalise"]:
            w.mul_(rows**0.5 / w.norm())
        w.mul_(1 - group["lr"] * group["weight_decay"])
        w.sub_(group["lr"] * max(1, rows / columns)**0.5 * x.reshape(-1))


def optimizer(optimizer, groups, options):
    options = dict(options)
    if "beta1" in options:
        options["betas"] = (options.pop("beta1"), options.pop("beta2"))
    if "epsilon" in options:
        options["eps"] = options.pop("epsilon")
    if optimizer == "adafactor":
        options["eps"] = (options.pop("epsilon1", EPSILON), options.pop("epsilon2", 1e-3))
        options["d"] = options.pop("clip_threshold", 1.0)
    made = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop, "lars": Lars,
            "lamb": Lamb, "lion": Lion, "muon": Muon, "adafactor": torch.optim.Adafactor}
    return made[optimizer](groups, lr=RATE, **options)


def trained(optimizer, options, dtype):
    def values(p, phase):
        made = reference.values([SIZES[p]], phase, 1.0).to(dtype)
        return made.view(ROWS[p], -1) if optimizer == "adafactor" and ROWS[p] > 1 else made

    parameters = [values(p, p).requires_grad_() for p in range(len(SIZES))]
    groups = [{"params": [parameters[0]], "weight_decay": DECAY}, {"params": [parameters[1]], "weight_decay": 0.0}]
    optimizer_of = optimizer(optimizer, groups, options)
    for step in range(STEPS):
        for p, parameter in enumerate(parameters):
            parameter.grad = values(p, 2 + 2 * step + p)
        optimizer_of.step()
    return [parameter.detach().flatten() for parameter in parameters]


def run(optimizer, options):
    exact, single = trained(optimizer, options, torch.float64), trained(optimizer, options, torch.float32)
    differences = [float(f"{reference.difference(s, e):.3g}") for s, e in zip(single, exact)]
    values = [[float(f"{v:.10g}") for v in parameter.tolist()] for parameter in exact]
    return {"type": optimizer, "parameters": options, "values": values, "float64_difference": differences}


if __name__ == "__main__":
    cases = [run(optimizer, options) for optimizer, several in CASES.items() for options in several]
    reference.write("optimizers.json", cases, steps=STEPS, rate=RATE, decay=DECAY, sizes=SIZES, rows=ROWS)
