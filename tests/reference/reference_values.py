"""What the scripts here share: tensors by a formula, summaries of results, and files with one case a line. README.md explains both."""
import json
import pathlib

import numpy
import torch

SAMPLES = 64


def values(shape, phase, scale, offset=0.0):
    """The formula, rounded to float32 and kept in float64."""
    x = (numpy.arange(int(numpy.prod(shape)), dtype=numpy.uint64) * 2654435769 + phase * 2246822519) % 2**32
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = ((x ^ (x >> numpy.uint64(shift))) * factor) % 2**32
    x ^= x >> numpy.uint64(16)
    made = (offset + scale * ((x + 0.5) / 2147483648.0 - 1.0)).astype(numpy.float32)
    return torch.from_numpy(made.reshape(shape)).double()


def stride_for(size):
    """The largest stride for SAMPLES values that shares no factor with the size."""
    stride = max(1, size // SAMPLES)
    while numpy.gcd(stride, size) != 1:
        stride -= 1
    return stride


def difference(single, exact):
    return ((single.double() - exact).norm() / exact.norm()).item()


def summary(exact, single):
    """Of the float64 result, and how far the float32 result is from it."""
    flat, stride = exact.detach().reshape(-1), stride_for(exact.numel())
    return dict(
        l2=float(f"{flat.norm().item():.12g}"),
        sum=float(f"{flat.sum().item():.12g}"),
        float64_difference=float(f"{difference(single.detach(), exact.detach()):.3g}"),
        stride=stride,
        samples=[float(f"{v:.9g}") for v in flat[: SAMPLES * stride : stride].tolist()],
    )


def write(name, cases, **more):
    path = pathlib.Path(__file__).with_name(name)
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    head = "".join(f'"{key}": {json.dumps(value)},\n' for key, value in {"torch": torch.__version__.split("+")[0], **more}.items())
    path.write_text(f'{{{head}"cases": [\n{lines}\n]}}\n')
    print(f"{path.name}: {len(cases)} cases, {path.stat().st_size} bytes")
