"""Writes schedules.json: the learning rates of PyTorch's schedulers over a run of 100 steps, 10 an epoch, and the momentum that
OneCycleLR cycles.

    python3 -m venv ../venv && ../venv/bin/pip install numpy torch && ../venv/bin/python tests/reference/make_schedules.py

A case has the table `learning_rate` that says the same here. Warm-up is PyTorch's SequentialLR or the product of two schedulers, as
torchvision's own training script has it.
"""
import warnings

import torch
from torch.optim import lr_scheduler as torch_lr

import reference_values as reference

STEPS, STEPS_PER_EPOCH, RATE = 100, 10, 0.3


def behind(warmup, steps, scheduler):
    return lambda optimizer: torch_lr.SequentialLR(optimizer, [warmup(optimizer), scheduler(optimizer)], [steps])


def linear(factor, steps):
    return lambda optimizer: torch_lr.LinearLR(optimizer, factor, 1.0, steps)


def constant(factor, steps):
    return lambda optimizer: torch_lr.ConstantLR(optimizer, factor, steps)


def product(*schedulers):
    return lambda optimizer: torch_lr.ChainedScheduler([scheduler(optimizer) for scheduler in schedulers])


def step(size, gamma):
    return lambda optimizer: torch_lr.StepLR(optimizer, size, gamma)


def cosine(steps, least=0.0):
    return lambda optimizer: torch_lr.CosineAnnealingLR(optimizer, steps, least)


def polynomial(steps, power):
    return lambda optimizer: torch_lr.PolynomialLR(optimizer, steps, power)


def one_cycle(**options):
    return lambda optimizer: torch_lr.OneCycleLR(optimizer, RATE, STEPS, **options)


CASES = [
    ("ConstantLR", dict(start_factor=1 / 3, warmup_epochs=2, warmup="constant"), constant(1 / 3, 20)),
    ("LinearLR", dict(start_factor=0.25, warmup_epochs=2), linear(0.25, 20)),
    ("StepLR", dict(schedule="piecewise", drop_factor=0.5, drop_epochs=3), step(30, 0.5)),
    ("StepLR of 7 steps", dict(schedule="piecewise", drop_factor=0.9, drop_epochs=0.7), step(7, 0.9)),
    ("MultiStepLR", dict(schedule="piecewise", drop_factor=0.1, drop_epochs=4.5),
     lambda optimizer: torch_lr.MultiStepLR(optimizer, [45, 90], 0.1)),
    ("MultiStepLR of unequal milestones", dict(schedule="piecewise", drop_factor=0.2, drops=[3, 6, 8]),
     lambda optimizer: torch_lr.MultiStepLR(optimizer, [30, 60, 80], 0.2)),
    ("StepLR in steps", dict(schedule="piecewise", drop_factor=0.7, drop_steps=13), step(13, 0.7)),
    ("MultiStepLR times LinearLR in steps", dict(schedule="piecewise", drop_factor=0.1, drops=[4.5, 9], start_factor=0.2, warmup_steps=15),
     product(linear(0.2, 15), lambda optimizer: torch_lr.MultiStepLR(optimizer, [45, 90], 0.1))),
    ("ExponentialLR in steps", dict(schedule="exponential", drop_factor=0.97, drop_steps=1), lambda optimizer: torch_lr.ExponentialLR(optimizer, 0.97)),
    ("CosineAnnealingLR after LinearLR in steps", dict(schedule="cosine", start_factor=0.1, warmup_steps=7), behind(linear(0.1, 7), 7, cosine(93))),
    ("ExponentialLR", dict(schedule="exponential", drop_factor=0.97, drop_epochs=0.1), lambda optimizer: torch_lr.ExponentialLR(optimizer, 0.97)),
    ("CosineAnnealingLR", dict(schedule="cosine"), cosine(STEPS)),
    ("CosineAnnealingLR with eta_min", dict(schedule="cosine", final_factor=0.1), cosine(STEPS, 0.1 * RATE)),
    ("PolynomialLR", dict(schedule="polynomial"), polynomial(STEPS, 1.0)),
    ("PolynomialLR of degree 0.9", dict(schedule="polynomial", power=0.9), polynomial(STEPS, 0.9)),
    ("PolynomialLR of degree 2", dict(schedule="polynomial", power=2), polynomial(STEPS, 2.0)),
    ("OneCycleLR", dict(schedule="one_cycle", start_factor=0.04, final_factor=4e-6, peak=0.3), one_cycle()),
    ("OneCycleLR with its options", dict(schedule="one_cycle", start_factor=0.1, final_factor=1e-3, peak=0.5),
     one_cycle(pct_start=0.5, div_factor=10, final_div_factor=100)),
    ("OneCycleLR with momentum", dict(schedule="one_cycle", start_factor=0.04, final_factor=4e-6, peak=0.3, cycle_momentum=True), one_cycle()),
    ("OneCycleLR with momentum and its options",
     dict(schedule="one_cycle", start_factor=0.04, final_factor=4e-6, peak=0.25, cycle_momentum=True, base_momentum=0.5, max_momentum=0.9),
     one_cycle(pct_start=0.25, base_momentum=0.5, max_momentum=0.9)),
    ("CosineAnnealingLR after LinearLR", dict(schedule="cosine", start_factor=0.25, warmup_epochs=2), behind(linear(0.25, 20), 20, cosine(80))),
    ("CosineAnnealingLR after ConstantLR", dict(schedule="cosine", start_factor=0.25, warmup_epochs=2, warmup="constant"),
     behind(constant(0.25, 20), 20, cosine(80))),
    ("PolynomialLR after LinearLR", dict(schedule="polynomial", power=2, start_factor=0.01, warmup_epochs=1),
     behind(linear(0.01, 10), 10, polynomial(90, 2.0))),
    ("StepLR times LinearLR", dict(schedule="piecewise", drop_factor=0.1, drop_epochs=3, start_factor=0.125, warmup_epochs=2),
     product(linear(0.125, 20), step(30, 0.1))),
]


def rates(scheduler, of="lr"):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=RATE, momentum=0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SequentialLR steps its own parts in a way that PyTorch deprecates
        made = scheduler(optimizer)
        found = []
        for _ in range(STEPS):
            found.append(float(f"{optimizer.param_groups[0][of]:.10g}"))
            optimizer.step()
            made.step()
    return found


if __name__ == "__main__":
    cases = []
    for name, table, make in CASES:
        cases.append(dict(scheduler=name, learning_rate=dict(initial=RATE, **table), rates=rates(make)))
        if table.get("cycle_momentum"):
            cases[-1]["momenta"] = rates(make, "momentum")
    reference.write("schedules.json", cases, steps=STEPS, steps_per_epoch=STEPS_PER_EPOCH)
