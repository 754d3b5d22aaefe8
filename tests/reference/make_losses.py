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

# (loss, its table, shape of the output, other special settings)
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
    ("cross_entropy", dict(class_weights=[0.5, 2, 1, 0.25, 3]), [5], {}),
    ("cross_entropy", dict(label_smoothing=0.1, class_weights=[0.5, 2, 1, 0.25, 3]), [5], dict(mixed=True)),
    ("focal", dict(), [10], {}),
    ("focal", dict(gamma=0.5, class_weights=[0.5, 2, 1, 0.25, 3]), [5], dict(mixed=True)),
    ("binary_cross_entropy", dict(), [7], {}),
    ("binary_cross_entropy", dict(positive_weight=[0.5, 2, 1]), [3], {}),
    ("l1", dict(), [5], {}),
    ("l1", dict(), [3, 6, 7], {}),
    ("huber", dict(), [5], {}),
    ("huber", dict(delta=0.25), [3, 6, 7], {}),
    ("dice", dict(), [4, 6, 5], {}),
    ("dice", dict(smooth=0.25), [10, 8, 8], dict(ignored=True)),
    ("dice", dict(over="present"), [23, 4, 5], dict(ignored=True)),
    ("pixel_focal", dict(), [4, 6, 5], {}),
    ("pixel_focal", dict(gamma=0.5, class_weights=[0.5, 2, 1]), [3, 7, 7], dict(ignored=True)),
    ("pixel_binary_cross_entropy", dict(), [4, 6, 5], {}),
    ("pixel_binary_cross_entropy", dict(positive_weight=[0.5, 2, 1]), [3, 7, 7], dict(ignored=True)),
]


def integers(size, phase, end):
    """`size` integers from 0 to end - 1."""
    return ((reference.values([size], phase, 0.5, 0.5) * end).long().clamp(0, end - 1)).tolist()


def data(loss, shape, special, first):
    """What the output is compared with, as the file holds it."""
    batch = 12 if len(shape) == 1 else 3
    made = dict(weights=[0.0 if n == batch - 2 else 1.0 for n in range(batch)])
    if loss in ("cross_entropy", "focal"):
        made["labels"] = integers(batch, first + 1, shape[0])
        if special.get("mixed"):
            made["second_labels"] = integers(batch, first + 2, shape[0])
            made["shares"] = [eighths / 8 for eighths in integers(batch, first + 3, 9)]
    elif len(shape) == 1:
        spread = dict(scale=0.5, offset=0.5) if loss == "binary_cross_entropy" else dict(scale=2.0, offset=0.0)
        made["numbers"] = dict(shape=[batch, *shape], phase=first + 4, **spread)
    elif not loss.startswith("pixel_") and loss != "dice":  # bytes, (N, H, W, C)
        made["targets"] = integers(batch * shape[0] * shape[1] * shape[2], first + 5, 256)
    else:  # classes, (N, H, W)
        classes = integers(batch * shape[1] * shape[2], first + 6, shape[0])
        made["targets"] = [IGNORED if special.get("ignored") and i % 7 == 3 else of for i, of in enumerate(classes)]
    return made


def labelled(per_image):
    """A loss of images with a class, or two where they are mixed. per_image(y, labels, weights of classes, t) -> of each image"""

    def loss(y, of, t):
        weight = torch.tensor(t.get("class_weights", [1.0] * y.shape[1]), dtype=y.dtype)
        labels, second = torch.tensor(of["labels"]), torch.tensor(of.get("second_labels", of["labels"]))
        share = torch.tensor(of.get("shares", [1.0] * len(y)), dtype=y.dtype)
        each = share * per_image(y, labels, weight, t)
        if "shares" in of:
            each = each + (1 - share) * per_image(y, second, weight, t)
        return each, share * weight[labels] + (1 - share) * weight[second]

    return loss


def cross_entropy(y, labels, weight, t):
    return F.cross_entropy(y, labels, weight=weight, reduction="none", label_smoothing=t.get("label_smoothing", 0.0))


def focal(y, labels, weight, t):
    log_p = F.log_softmax(y, 1).gather(1, labels[:, None])[:, 0]
    return -weight[labels] * (1 - log_p.exp()) ** t.get("gamma", 2.0) * log_p


def of_values(per_value):
    """The mean over the channels. per_value(y, target, t) -> of each number"""

    def loss(y, of, t):
        if "numbers" in of:
            target = reference.values(**of["numbers"]).to(y.dtype)
        else:
            n, c, h, w = y.shape
            target = (torch.tensor(of["targets"], dtype=y.dtype) / 255).reshape(n, h, w, c).permute(0, 3, 1, 2)
        each = per_value(y, target, t).mean(1)
        return each, torch.ones(each.shape)

    return loss


def binary_cross_entropy(y, target, t):
    weight = torch.tensor(t["positive_weight"], dtype=y.dtype) if "positive_weight" in t else None
    return F.binary_cross_entropy_with_logits(y, target, pos_weight=weight, reduction="none")


def pixel_cross_entropy(y, of, t):
    target = torch.tensor(of["targets"]).reshape(y.shape[0], *y.shape[2:])
    weight = torch.tensor(t.get("class_weights", [1.0] * y.shape[1]), dtype=y.dtype)
    each = F.cross_entropy(y, target, weight=weight, ignore_index=IGNORED, reduction="none")
    return each, torch.where(target == IGNORED, 0.0, weight[target.clamp(max=len(weight) - 1)])


def pixel_focal(y, of, t):
    target = torch.tensor(of["targets"]).reshape(y.shape[0], *y.shape[2:])
    weight = torch.tensor(t.get("class_weights", [1.0] * y.shape[1]), dtype=y.dtype)
    log_p = -F.cross_entropy(y, target, ignore_index=IGNORED, reduction="none")
    of_place = torch.where(target == IGNORED, 0.0, weight[target.clamp(max=len(weight) - 1)])
    return -of_place * (1 - log_p.exp()) ** t.get("gamma", 2.0) * log_p, of_place


def pixel_binary_cross_entropy(y, of, t):
    target = torch.tensor(of["targets"]).reshape(y.shape[0], *y.shape[2:])
    counts = (target != IGNORED).to(y.dtype)
    truth = F.one_hot(target.clamp(max=y.shape[1] - 1), y.shape[1]).permute(0, 3, 1, 2).to(y.dtype)
    weight = torch.tensor(t.get("positive_weight", [1.0] * y.shape[1]), dtype=y.dtype).reshape(-1, 1, 1)
    each = F.binary_cross_entropy_with_logits(y, truth, pos_weight=weight, reduction="none").mean(1)
    return each * counts, counts


def dice(y, of, t):
    """Of each image, over the pixels that count; Milletari et al. 2016 with p and t in the divisor."""
    target = torch.tensor(of["targets"]).reshape(y.shape[0], *y.shape[2:])
    counts = (target != IGNORED)[:, None].to(y.dtype)
    p = F.softmax(y, 1) * counts
    truth = F.one_hot(target.clamp(max=y.shape[1] - 1), y.shape[1]).permute(0, 3, 1, 2).to(y.dtype) * counts
    smooth, pixels = t.get("smooth", 1.0), (2, 3)
    overlap = (2 * (p * truth).sum(pixels) + smooth) / (p.sum(pixels) + truth.sum(pixels) + smooth)
    counted = torch.ones_like(overlap) if t.get("over", "all") == "all" else (truth.sum(pixels) > 0).to(y.dtype)
    each = 1 - (overlap * counted).sum(1) / counted.sum(1)
    return each, torch.ones(each.shape)


LOSSES = dict(
    cross_entropy=labelled(cross_entropy),
    focal=labelled(focal),
    binary_cross_entropy=of_values(binary_cross_entropy),
    mean_squared_error=of_values(lambda y, target, t: F.mse_loss(y, target, reduction="none")),
    l1=of_values(lambda y, target, t: F.l1_loss(y, target, reduction="none")),
    huber=of_values(lambda y, target, t: F.huber_loss(y, target, reduction="none", delta=t.get("delta", 1.0))),
    pixel_cross_entropy=pixel_cross_entropy,
    pixel_focal=pixel_focal,
    pixel_binary_cross_entropy=pixel_binary_cross_entropy,
    dice=dice,
)


def compute(loss, t, output, of, dtype):
    """-> value, gradient and what the sum is divided by"""
    y = reference.values(**output).to(dtype).requires_grad_()
    each, places = LOSSES[loss](y, of, t)
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
