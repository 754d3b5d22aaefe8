"""Writes grad_cam.json: gradients of scores by inner values of a network in inference, and Grad-CAM maps of numbers.

    python3 -m venv ../venv && ../venv/bin/pip install numpy torch && ../venv/bin/python tests/reference/make_grad_cam.py

Everything is PyTorch's, in float64, with how far its float32 is from that. Parameters are the formula of reference_values.py.
README.md here explains the file; grad_cam_reference_test.cpp and plugins/stages/write_images/write_grad_cam_test.cpp read it.
"""
import torch
import torch.nn.functional as F

import reference_values as reference

SAMPLES, CHANNELS, HEIGHT, WIDTH, CLASSES = 4, 3, 12, 10, 5
LABELS = [3, 0, 4, 1]
NETWORK = f"""
input = {{ channels = {CHANNELS}, height = {HEIGHT}, width = {WIDTH} }}
layers = [
  {{ name = "conv", op = "conv", out = 20, kernel = 3, padding = 1 }},
  {{ name = "relu", op = "relu" }},
  {{ name = "pool", op = "max_pool", kernel = 2, stride = 2 }},
  {{ name = "norm", op = "batch_norm" }},
  {{ name = "gelu", op = "gelu" }},
  {{ name = "inner", op = "conv", out = 20, kernel = 3, padding = 1, bias = false }},
  {{ name = "inner_norm", op = "batch_norm" }},
  {{ name = "sum", op = "add", from = ["inner_norm", "gelu"] }},
  {{ name = "sum_relu", op = "relu" }},
  {{ name = "drop", op = "dropout", probability = 0.5 }},
  {{ name = "deep", op = "conv", out = 9, kernel = 1 }},
  {{ name = "deep_norm", op = "batch_norm" }},
  {{ name = "average", op = "global_average_pool" }},
  {{ name = "flat", op = "flatten" }},
  {{ name = "hidden", op = "linear", out = 9 }},
  {{ name = "hidden_relu", op = "relu" }},
  {{ name = "fc", op = "linear", out = {CLASSES} }},
]
"""
# Name, shape, scale, offset.
PARAMETERS = [
    ("conv.weight", [20, 3, 3, 3], 0.4, 0.0), ("conv.bias", [20], 0.3, 0.0),
    ("norm.weight", [20], 0.3, 1.0), ("norm.bias", [20], 0.3, 0.0),
    ("norm.running_mean", [20], 0.3, 0.3), ("norm.running_var", [20], 0.3, 0.7),
    ("inner.weight", [20, 20, 3, 3], 0.15, 0.0),
    ("inner_norm.weight", [20], 0.3, 1.0), ("inner_norm.bias", [20], 0.3, 0.0),
    ("inner_norm.running_mean", [20], 0.3, 0.0), ("inner_norm.running_var", [20], 0.3, 0.7),
    ("deep.weight", [9, 20, 1, 1], 0.4, 0.0), ("deep.bias", [9], 0.3, 0.0),
    ("deep_norm.weight", [9], 0.3, 1.0), ("deep_norm.bias", [9], 0.3, 0.0),
    ("deep_norm.running_mean", [9], 0.3, 0.0), ("deep_norm.running_var", [9], 0.3, 0.7),
    ("hidden.weight", [9, 9], 0.6, 0.0), ("hidden.bias", [9], 0.3, 0.0),
    ("fc.weight", [CLASSES, 9], 0.6, 0.0), ("fc.bias", [CLASSES], 0.3, 0.0),
]  # fmt: skip
BY = ["relu", "gelu", "inner", "sum_relu", "deep", "flat"]
OF = {"predicted": -1, "label": -2, "class 2": 2}


def recipes():
    return {
        name: dict(shape=shape, phase=index + 1, scale=scale, offset=offset)
        for index, (name, shape, scale, offset) in enumerate(PARAMETERS)
    }


def images():
    """Bytes in the order of memory, (N, H, W, C)."""
    each = HEIGHT * WIDTH * CHANNELS
    i, n = torch.arange(each), torch.arange(SAMPLES).reshape(-1, 1)
    return ((37 * i + 101 * n + 13 * (i // 7)) % 256).reshape(SAMPLES, HEIGHT, WIDTH, CHANNELS)


def compute(dtype):
    """All values that somebody may ask for, and how near a ReLU or a maximum is to another decision."""
    p = {name: reference.values(r["shape"], r["phase"], r["scale"], r["offset"]).to(dtype) for name, r in recipes().items()}
    near, made = [], {}

    def relu(x):
        near.append(x.detach().abs().min().item())
        return F.relu(x)

    def norm(x, name):
        return F.batch_norm(x, *(p[f"{name}.{what}"] for what in ("running_mean", "running_var", "weight", "bias")), False)

    x = images().permute(0, 3, 1, 2).to(dtype) / 255
    made["relu"] = relu(F.conv2d(x, p["conv.weight"], p["conv.bias"], padding=1).requires_grad_())
    windows = F.unfold(made["relu"].detach(), 2, stride=2).reshape(SAMPLES, 20, 4, -1).sort(2).values
    gaps = windows[:, :, 3] - windows[:, :, 2]
    near.append(gaps[windows[:, :, 3] > 0].min().item())
    made["gelu"] = F.gelu(norm(F.max_pool2d(made["relu"], 2), "norm"))
    made["inner"] = F.conv2d(made["gelu"], p["inner.weight"], padding=1)
    made["sum_relu"] = relu(norm(made["inner"], "inner_norm") + made["gelu"])
    made["deep"] = F.conv2d(made["sum_relu"], p["deep.weight"], p["deep.bias"])
    made["flat"] = norm(made["deep"], "deep_norm").mean((2, 3))
    hidden = relu(F.linear(made["flat"], p["hidden.weight"], p["hidden.bias"]))
    made["fc"] = F.linear(hidden, p["fc.weight"], p["fc.bias"])
    best = made["fc"].detach().topk(2).values
    near.append((best[:, 0] - best[:, 1]).min().item())
    return made, min(near)


def gradient(made, by, of):
    scores = made["fc"]
    chosen = scores.argmax(1) if of == -1 else torch.tensor(LABELS) if of == -2 else torch.full((SAMPLES,), of)
    return torch.autograd.grad(scores.gather(1, chosen.reshape(-1, 1)).sum(), made[by], retain_graph=True)[0]


def maps():
    """Grad-CAM of features and gradients that are the formula, resized as F.interpolate does."""
    for shape, size in (([5, 4, 6], [16, 18]), ([3, 7, 7], [32, 40]), ([4, 1, 3], [5, 3])):
        features, gradients = (dict(shape=shape, phase=phase, scale=1.0, offset=0.2) for phase in (1, 2))
        a, d = (reference.values(**recipe) for recipe in (features, gradients))
        cam = F.relu((d.mean((1, 2), keepdim=True) * a).sum(0))
        large = F.interpolate(cam[None, None], size=size, mode="bilinear", align_corners=False)[0, 0]
        rounded = {name: [float(f"{v:.9g}") for v in m.reshape(-1).tolist()] for name, m in (("map", cam), ("resized", large))}
        yield dict(features=features, gradients=gradients, size=size, **rounded)


if __name__ == "__main__":
    exact, near = compute(torch.float64)
    single, _ = compute(torch.float32)
    assert near > 1e-5, f"a decision is only {near} away from another"
    cases = [
        dict(by=by, of=of, gradient=reference.summary(gradient(exact, by, of), gradient(single, by, of)))
        for by in BY
        for of in OF.values()
    ]
    reference.write(
        "grad_cam.json", cases, network=NETWORK, samples=SAMPLES, labels=LABELS, closest_tie=float(f"{near:.3g}"),
        tensors=recipes(), maps=list(maps()),
    )  # fmt: skip
