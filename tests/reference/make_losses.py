"""Writes losses.json: the value and gradient of every loss in float64, and how far PyTorch's float32 is from that.

    python3 -m venv ../venv && ../venv/bin/pip install numpy torch && ../venv/bin/python tests/reference/make_losses.py

Outputs are the formula of reference_values.py; labels and targets are listed in the file. README.md here explains it;
tests/reference/loss_reference_test.cpp reads it.
"""
import json

import torch
import torch.nn.functional as F

import reference_values as reference

IGNORED = 255

# (loss, its table, shape of the output, what else is special)
CASES = [
    ("cross_entropy", dict(), [10], {}),
    ("cross_entropy", dict(label_smoothing=0.1), [23], {}),
    ("cross_entropy", dict(), [10], dict(mixed=True)),
    ("cross_entropy", dict(label_smoothing=0.2), [100], dict(mixed=True)),
    ("mean_squared_error", dict(), [5], {}),
    ("mean_squared_error", dict(), [3, 6, 7], {}),
    ("pixel_cross_entropy", dict(), [4, 6, 5], {}),
    ("pixel_cross_entropy", dict(class_weights=[0.5, 2, 1]), [3, 7, 7], dict(ignored=True)),
    ("pixel_cross_entropy", dict(class_weights=[0.5, 2, 1, 0.25, 3, 1, 1, 1.5, 0.75, 1]), [10, 8, 8], dict(ignored=True)),
]


def integers(size, phase, end):
    """`size` integers from 0 to end - 1."""
    return ((reference.values([size], phase, 0.5, 0.5) * end).long().clamp(0, end - 1)).tolist()


def data(loss, shape, special, first):
    """What the output is compared with, as the file holds it."""
    batch = 12 if len(shape) == 1 else 3
    made = dict(weights=[0.0 if n == batch - 2 else 1.0 for n in range(batch)])
    if loss == "cross_entropy":
        made["labels"] = integers(batch, first + 1, shape[0])
        if special.get("mixed"):
            made["second_labels"] = integers(batch, first + 2, shape[0])
            made["shares"] = [eighths / 8 for eighths in integers(batch, first + 3, 9)]
    elif len(shape) == 1:
        made["numbers"] = dict(shape=[batch, *shape], phase=first + 4, scale=2.0, offset=0.0)
    elif loss == "mean_squared_error":  # bytes, (N, H, W, C)
        made["targets"] = integers(batch * shape[0] * shape[1] * shape[2], first + 5, 256)
    else:  # classes, (N, H, W)
        classes = integers(batch * shape[1] * shape[2], first + 6, shape[0])
        made["targets"] = [IGNORED if special.get("ignored") and i % 7 == 3 else of for i, of in enumerate(classes)]
    return made


def cross_entropy(y, of, t):
    def per_image(labels):
        return F.cross_entropy(y, torch.tensor(labels), reduction="none", label_smoothing=t.get("label_smoothing", 0.0))

    if "shares" not in of:
        return per_image(of["labels"]), torch.ones(len(y))
    share = torch.tensor(of["shares"], dtype=y.dtype)
    return share * per_image(of["labels"]) + (1 - share) * per_image(of["second_labels"]), torch.ones(len(y))


def mean_squared_error(y, of, t):
    if "numbers" in of:
        target = reference.values(**of["numbers"]).to(y.dtype)
    else:
        n, c, h, w = y.shape
        target = (torch.tensor(of["targets"], dtype=y.dtype) / 255).reshape(n, h, w, c).permute(0, 3, 1, 2)
    each = F.mse_loss(y, target, reduction="none").mean(1)
    return each, torch.ones(each.shape)


def pixel_cross_entropy(y, of, t):
    target = torch.tensor(of["targets"]).reshape(y.shape[0], *y.shape[2:])
    weight = torch.tensor(t.get("class_weights", [1.0] * y.shape[1]), dtype=y.dtype)
    each = F.cross_entropy(y, target, weight=weight, ignore_index=IGNORED, reduction="none")
    return each, torch.where(target == IGNORED, 0.0, weight[target.clamp(max=len(weight) - 1)])


def compute(loss, t, output, of, dtype):
    """-> value, gradient and what the sum is divided by"""
    y = reference.values(**output).to(dtype).requires_grad_()
    each, places = dict(cross_entropy=cross_entropy, mean_squared_error=mean_squared_error,
                        pixel_cross_entropy=pixel_cross_entropy)[loss](y, of, t)
    weights = torch.tensor(of["weights"], dtype=dtype).reshape(-1, *[1] * (each.dim() - 1))
    divisor = (places * weights).sum()
    value = (each * weights).sum() / divisor.to(dtype)
    value.backward()
    return value.detach(), y.grad, divisor.item()


def case(number, loss, t, shape, special):
    first = 100 * number + 50000
    of = data(loss, shape, special, first)
    output = dict(shape=[len(of["weights"]), *shape], phase=first, scale=4.0, offset=0.3)
    value, gradient, divisor = compute(loss, t, output, of, torch.float64)
    value32, gradient32, _ = compute(loss, t, output, of, torch.float32)
    table = "\n".join(f"{key} = {json.dumps(value)}" for key, value in t.items())
    summaries = dict(value=reference.summary(value, value32), gradient=reference.summary(gradient, gradient32))
    return dict(loss=loss, table=table, output=output | summaries, divisor=divisor, **of)


if __name__ == "__main__":
    reference.write("losses.json", [case(number, *of) for number, of in enumerate(CASES, 1)])
