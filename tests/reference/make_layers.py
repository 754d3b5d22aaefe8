"""Writes layers.json: every layer alone, forward and backward, in float64, and how far PyTorch's float32 is from that.

    python3 -m venv ../venv && ../venv/bin/pip install numpy torch && ../venv/bin/python tests/reference/make_layers.py

Inputs, parameters and the gradient of the output are the formula of reference_values.py. README.md here explains the file;
tests/reference/layer_reference_test.cpp reads it. `dropout` and `stochastic_depth` are random and
left out.
"""
import json

import torch
import torch.nn.functional as F

import reference_values as reference

# (layer, its table, shapes of its inputs[, its only backend])
CASES = [
    ("conv", dict(out=9, kernel=3, padding=1), [[8, 5, 7]]),
    ("conv", dict(out=8, kernel=[3, 2], stride=2, bias=False), [[20, 6, 5]]),
    ("conv", dict(out=16, kernel=3, groups=4, dilation=2, padding=2), [[8, 6, 6]]),
    ("conv", dict(out=32, kernel=3, padding=1), [[32, 8, 8]]),
    ("conv", dict(out=40, kernel=1, stride=2, bias=False), [[20, 7, 5]]),
    ("conv", dict(out=16, kernel=3, dilation=2, padding=2), [[20, 6, 5]]),
    ("conv", dict(out=20, kernel=3, groups=20, padding=1), [[20, 6, 5]]),
    ("conv", dict(out=24, kernel=5, stride=2, padding=2), [[3, 9, 8]]),
    # Large enough for the CPU backend to choose Winograd's algorithm; plain loops would be slow.
    ("conv", dict(out=544, kernel=3, padding=1, bias=False), [[544, 16, 16]], "cpu"),
    ("linear", dict(out=7), [[20]]),
    ("linear", dict(out=9, bias=False), [[5, 3, 4]]),
    ("linear", dict(out=33), [[128]]),
    ("batch_norm", dict(), [[8, 5, 7]]),
    ("batch_norm", dict(scale=False), [[20, 4, 4]]),
    ("batch_norm", dict(shift=False, epsilon=1e-3, momentum=0.4), [[32, 6, 5]]),
    ("batch_norm", dict(), [[9]]),
    ("lrn", dict(alpha=0.1), [[20, 4, 5]]),
    ("lrn", dict(size=3, alpha=0.5, beta=0.5, k=2), [[7, 3, 3]]),
    ("max_pool", dict(kernel=2), [[8, 6, 7]]),
    ("max_pool", dict(kernel=3, stride=2, padding=1, ceil_mode=True), [[20, 6, 7]]),
    ("average_pool", dict(kernel=2), [[8, 6, 7]]),
    ("average_pool", dict(kernel=3, stride=1, padding=1, count_padding=True), [[9, 5, 5]]),
    ("average_pool", dict(kernel=3, stride=2, padding=1), [[20, 6, 5]]),
    ("global_average_pool", dict(), [[9, 5, 7]]),
    ("global_average_pool", dict(), [[32, 8, 8]]),
    ("relu", dict(), [[8, 5, 7]]),
    ("relu", dict(), [[9]]),
    ("gelu", dict(), [[8, 5, 7]]),
    ("gelu", dict(), [[32, 8, 8]]),
    ("softmax", dict(), [[8, 5, 7]]),
    ("softmax", dict(), [[100]]),
    ("scale", dict(factor=0.3), [[8, 5, 7]]),
    ("scale", dict(factor=-2.0), [[9]]),
    ("flatten", dict(), [[9, 3, 4]]),
    ("add", dict(), [[9, 3, 4], [9, 3, 4]]),
    ("add", dict(), [[9], [9], [9]]),
    ("concat", dict(), [[9, 3, 4], [16, 3, 4]]),
    ("concat", dict(), [[9], [5], [16]]),
    ("leaky_relu", dict(), [[8, 5, 7]]),
    ("leaky_relu", dict(slope=0.2), [[10]]),
    ("sigmoid", dict(), [[8, 5, 7]]),
    ("silu", dict(), [[8, 5, 7]]),
    ("multiply", dict(), [[8, 5, 7], [8, 5, 7]]),
    ("multiply", dict(), [[8, 5, 7], [8]]),
    ("multiply", dict(), [[10], [10]]),
    ("layer_norm", dict(), [[8, 5, 7]]),
    ("layer_norm", dict(epsilon=1e-5), [[20]]),
    ("layer_norm", dict(), [[64, 4, 4]]),
    ("tanh", dict(), [[8, 5, 7]]),
    ("clipped_relu", dict(), [[8, 5, 7]]),
    ("clipped_relu", dict(ceiling=1.5), [[10]]),
    ("hard_sigmoid", dict(), [[8, 5, 7]]),
    ("hard_swish", dict(), [[8, 5, 7]]),
    ("hard_swish", dict(), [[10]]),
    ("elu", dict(), [[8, 5, 7]]),
    ("elu", dict(alpha=0.5), [[10]]),
    ("parametric_relu", dict(), [[8, 5, 7]]),
    ("parametric_relu", dict(), [[10]]),
    ("layer_scale", dict(), [[8, 5, 7]]),
    ("layer_scale", dict(), [[10]]),
    ("channel_shuffle", dict(groups=2), [[8, 5, 7]]),
    ("channel_shuffle", dict(groups=4), [[24, 3, 4]]),
    ("pixel_shuffle", dict(factor=2), [[8, 5, 7]]),
    ("pixel_shuffle", dict(factor=3), [[36, 3, 4]]),
    ("upsample", dict(factor=2), [[8, 5, 7]]),
    ("upsample", dict(factor=[1, 3]), [[20, 3, 4]]),
    ("upsample", dict(size=[7, 3]), [[9, 3, 4]]),
    ("upsample", dict(factor=2, mode="bilinear"), [[20, 5, 7]]),
    ("upsample", dict(factor=[3, 2], mode="bilinear"), [[8, 3, 4]]),
    ("upsample", dict(size=[7, 3], mode="bilinear"), [[9, 3, 4]]),
    ("crop_like", dict(), [[8, 6, 7], [3, 4, 4]]),
    ("zero_pad", dict(padding=[1, 2, 0, 3]), [[8, 5, 7]]),
    ("transposed_conv", dict(out=9, kernel=2, stride=2), [[8, 5, 7]]),
    ("transposed_conv", dict(out=8, kernel=[3, 4], stride=[2, 3], padding=1, output_padding=[1, 2], bias=False), [[20, 4, 3]]),
    ("transposed_conv", dict(out=16, kernel=3, groups=4, dilation=2, padding=2), [[8, 6, 6]]),
    ("transposed_conv", dict(out=20, kernel=3, stride=2, groups=20, padding=1, output_padding=1), [[20, 4, 5]]),
    ("transposed_conv", dict(out=32, kernel=4, stride=2, padding=1), [[32, 5, 4]]),
    ("max_unpool", dict(), [[20, 3, 3], [20, 6, 7]]),
    ("max_unpool", dict(kernel=[3, 2]), [[8, 2, 3], [8, 7, 6]]),
    ("adaptive_average_pool", dict(size=[3, 2]), [[20, 7, 6]]),
    ("adaptive_average_pool", dict(size=4), [[8, 3, 6]]),
    ("adaptive_max_pool", dict(size=[3, 2]), [[20, 7, 6]]),
    ("adaptive_max_pool", dict(size=4), [[8, 3, 6]]),
    ("global_max_pool", dict(), [[20, 5, 7]]),
]

# Wider inputs for functions that differ away from their centre.
SCALES = dict(gelu=5.0, sigmoid=6.0, silu=6.0, softmax=4.0, tanh=3.0, clipped_relu=9.0, hard_sigmoid=5.0, hard_swish=5.0, elu=4.0)


def pair(value):
    return value if isinstance(value, list) else [value, value]


def conv(x, p, t):
    return F.conv2d(x[0], p["weight"], p.get("bias"), t.get("stride", 1), t.get("padding", 0), t.get("dilation", 1), t.get("groups", 1))


def transposed_conv(x, p, t):
    stride, padding, more = t.get("stride", 1), t.get("padding", 0), t.get("output_padding", 0)
    return F.conv_transpose2d(x[0], p["weight"], p.get("bias"), stride, padding, more, t.get("groups", 1), t.get("dilation", 1))


def batch_norm(x, p, t, training=True):
    momentum, epsilon = t.get("momentum", 0.1), t.get("epsilon", 1e-5)
    return F.batch_norm(x[0], p["running_mean"], p["running_var"], p.get("weight"), p.get("bias"), training, momentum, epsilon)


def pool(t):
    return dict(kernel_size=t["kernel"], stride=t.get("stride"), padding=t.get("padding", 0), ceil_mode=t.get("ceil_mode", False))


def layer_norm(x, p, t):
    last = x[0].movedim(1, -1)
    return F.layer_norm(last, last.shape[-1:], p["weight"], p["bias"], t.get("epsilon", 1e-6)).movedim(-1, 1)


def multiply(x, p, t):
    return x[0] * x[1].reshape(x[1].shape + (1,) * (x[0].dim() - x[1].dim()))


def channel_shuffle(x, p, t):
    return x[0].unflatten(1, (t["groups"], -1)).transpose(1, 2).flatten(1, 2)


def upsample(x, p, t):
    factor = [float(value) for value in pair(t["factor"])] if "factor" in t else None
    mode = t.get("mode", "nearest")
    return F.interpolate(x[0], t.get("size"), factor, mode, False if mode == "bilinear" else None)


def crop_like(x, p, t):
    (height, width), (rows, columns) = x[0].shape[2:], x[1].shape[2:]
    top, left = (height - rows) // 2, (width - columns) // 2
    return x[0][:, :, top:top + rows, left:left + columns]


def max_unpool(x, p, t):
    kernel = t.get("kernel", 2)
    places = F.max_pool2d(x[1].detach(), kernel, return_indices=True)[1]
    return F.max_unpool2d(x[0], places, kernel, output_size=x[1].shape[2:])


# Each layer in PyTorch, as a function of its inputs, its parameters by name, and its table.
LAYERS = dict(
    conv=conv,
    transposed_conv=transposed_conv,
    linear=lambda x, p, t: F.linear(x[0].flatten(1), p["weight"], p.get("bias")),
    batch_norm=batch_norm,
    lrn=lambda x, p, t: F.local_response_norm(x[0], t.get("size", 5), t["alpha"], t.get("beta", 0.75), t.get("k", 1.0)),
    max_pool=lambda x, p, t: F.max_pool2d(x[0], **pool(t)),
    average_pool=lambda x, p, t: F.avg_pool2d(x[0], **pool(t), count_include_pad=t.get("count_padding", False)),
    global_average_pool=lambda x, p, t: x[0].mean((2, 3)),
    relu=lambda x, p, t: F.relu(x[0]),
    gelu=lambda x, p, t: F.gelu(x[0]),
    softmax=lambda x, p, t: F.softmax(x[0], 1),
    scale=lambda x, p, t: x[0] * t["factor"],
    flatten=lambda x, p, t: x[0].flatten(1),
    add=lambda x, p, t: sum(x[1:], x[0]),
    concat=lambda x, p, t: torch.cat(x, 1),
    leaky_relu=lambda x, p, t: F.leaky_relu(x[0], t.get("slope", 0.01)),
    sigmoid=lambda x, p, t: torch.sigmoid(x[0]),
    silu=lambda x, p, t: F.silu(x[0]),
    multiply=multiply,
    layer_norm=layer_norm,
    tanh=lambda x, p, t: torch.tanh(x[0]),
    clipped_relu=lambda x, p, t: F.hardtanh(x[0], 0.0, t.get("ceiling", 6.0)),
    hard_sigmoid=lambda x, p, t: F.hardsigmoid(x[0]),
    hard_swish=lambda x, p, t: F.hardswish(x[0]),
    elu=lambda x, p, t: F.elu(x[0], t.get("alpha", 1.0)),
    parametric_relu=lambda x, p, t: F.prelu(x[0], p["weight"]),
    layer_scale=lambda x, p, t: multiply([x[0], p["weight"].expand(len(x[0]), -1)], p, t),
    channel_shuffle=channel_shuffle,
    pixel_shuffle=lambda x, p, t: F.pixel_shuffle(x[0], t["factor"]),
    upsample=upsample,
    crop_like=crop_like,
    max_unpool=max_unpool,
    adaptive_average_pool=lambda x, p, t: F.adaptive_avg_pool2d(x[0], t["size"]),
    adaptive_max_pool=lambda x, p, t: F.adaptive_max_pool2d(x[0], t["size"]),
    global_max_pool=lambda x, p, t: F.adaptive_max_pool2d(x[0], 1).flatten(1),
    zero_pad=lambda x, p, t: F.pad(x[0], [t["padding"][i] for i in (1, 3, 0, 2)]),
)


def weight_shape(layer, t, shape):
    if layer == "linear":
        return [t["out"], int(torch.tensor(shape).prod())]
    first, second = (shape[0], t["out"]) if layer == "transposed_conv" else (t["out"], shape[0])
    return [first, second // t.get("groups", 1), *pair(t["kernel"])]


def parameters(layer, t, shape):
    """name -> (shape, scale, offset)"""
    if layer in ("conv", "transposed_conv", "linear"):
        extents = weight_shape(layer, t, shape)
        made = dict(weight=(extents, round((3.0 / int(torch.tensor(extents[1:]).prod())) ** 0.5, 3), 0.0))
        return made if not t.get("bias", True) else made | dict(bias=([t["out"]], 0.5, 0.0))
    if layer in ("parametric_relu", "layer_scale"):
        return dict(weight=(shape[:1], 0.5, 0.25))
    if layer not in ("batch_norm", "layer_norm"):
        return {}
    made = dict(weight=(shape[:1], 0.5, 1.0), bias=(shape[:1], 0.5, 0.0))
    if layer == "batch_norm":
        made |= dict(running_mean=(shape[:1], 0.5, 0.0), running_var=(shape[:1], 0.5, 1.0))
    return {name: recipe for name, recipe in made.items() if t.get(dict(weight="scale", bias="shift").get(name), True)}


def compute(layer, t, recipes, output_phase, dtype):
    """-> inputs, parameters and output after backward; the output of inference where that differs."""
    made = {name: reference.values(**recipe).to(dtype) for name, recipe in recipes.items()}
    for name, value in made.items():
        value.requires_grad_(not name.startswith("running"))
    x = [value for name, value in made.items() if name.startswith("input")]
    inference = batch_norm(x, made, t, False).detach() if layer == "batch_norm" else None
    y = LAYERS[layer](x, made, t)
    y.backward(reference.values(y.shape, output_phase, 1.0).to(dtype))
    return made, y.detach(), inference


def case(number, layer, t, inputs, only=None):
    batch = 3 if any(len(shape) == 3 for shape in inputs) else 12
    first = 100 * number
    recipes = {f"input{i}": dict(shape=[batch, *shape], phase=first + i, scale=SCALES.get(layer, 1.5), offset=0.1)
               for i, shape in enumerate(inputs)}
    for i, (name, (shape, scale, offset)) in enumerate(parameters(layer, t, inputs[0]).items()):
        recipes[name] = dict(shape=list(shape), phase=first + 50 + i, scale=scale, offset=offset)
    exact, y, inference = compute(layer, t, recipes, first + 99, torch.float64)
    single, y32, inference32 = compute(layer, t, recipes, first + 99, torch.float32)
    for name, recipe in recipes.items():
        trained = exact[name].requires_grad
        if trained and exact[name].grad is None:  # its values do not matter
            continue
        of = (exact[name].grad, single[name].grad) if trained else (exact[name], single[name])
        recipe["gradient" if trained else "after"] = reference.summary(*of)
    output = dict(phase=first + 99, scale=1.0, offset=0.0, values=reference.summary(y, y32))
    if inference is not None:
        output["inference"] = reference.summary(inference, inference32)
    table = ", ".join(f"{key} = {json.dumps(value)}" for key, value in t.items())
    return dict(layer=layer, table=table, tensors=recipes, output=output) | (dict(only=only) if only else {})


if __name__ == "__main__":
    reference.write("layers.json", [case(number, *of) for number, of in enumerate(CASES, 1)])
