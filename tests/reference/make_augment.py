"""Writes augment.json: what Pillow and torchvision make of a small picture, for the tests of affine maps and of `augment`.

    apt-get install python3-pil python3-torchvision && /usr/bin/python3 tests/reference/make_augment.py

The picture is a formula (pattern() here and in the tests). Affine maps: Pillow's Image.transform(AFFINE), which fills what lies
outside; mirrored and repeated borders are Pillow's as well, of a picture that NumPy has padded. Bicubic is the exception: Pillow's
kernel there has a = -1, ours the a = -1/2 of Keys' paper and of `resize`; it is computed here in float64. Colours: torchvision's
functional ops on Pillow images, which cut fractions off where we round; hue and blur on uint8 tensors, since Pillow's hue has 8 bits
and its blur is made of boxes.
"""
import json
import math
import pathlib

import numpy
import PIL
import torch
import torchvision
from PIL import Image
from torchvision.transforms import functional

HEIGHT, WIDTH = 9, 12
CROWDED = 32
FILL = (10, 200, 90)


def pattern(size):
    return [(i * i * 7 + i * 13 + (i >> 3) * 5) % 251 for i in range(size)]


def picture(channels=3):
    return numpy.array(pattern(HEIGHT * WIDTH * channels), dtype=numpy.uint8).reshape(HEIGHT, WIDTH, channels)


def about_centre(linear, shift):
    """The map from output to source in whole-number pixel centres: linear about the centre, then a shift."""
    centre = numpy.array([(WIDTH - 1) / 2, (HEIGHT - 1) / 2])
    linear = numpy.array(linear, dtype=float)
    return linear, centre + numpy.array(shift) - linear @ centre


def pillow(pixels, linear, offset, method):
    # In Pillow's coordinates the corner of the first pixel is 0
    half = numpy.array([0.5, 0.5])
    moved = offset - linear @ half + half
    data = (linear[0][0], linear[0][1], moved[0], linear[1][0], linear[1][1], moved[1])
    return numpy.asarray(Image.fromarray(pixels).transform((WIDTH, HEIGHT), Image.AFFINE, data, method, fillcolor=FILL))


def padded(pixels, linear, offset, method, border):
    pad = 40
    large = numpy.pad(pixels, ((pad, pad), (pad, pad), (0, 0)), mode="reflect" if border == "reflect" else "edge")
    return pillow(large, linear, offset + pad, method)


def keys(t):
    t = abs(t)
    if t < 1:
        return (1.5 * t - 2.5) * t * t + 1
    return ((-0.5 * t + 2.5) * t - 4) * t + 2 if t < 2 else 0.0


def bicubic(pixels, linear, offset):
    out = numpy.zeros_like(pixels)
    for row in range(HEIGHT):
        for column in range(WIDTH):
            x, y = linear @ numpy.array([column, row]) + offset
            if not (-0.5 <= x < WIDTH - 0.5 and -0.5 <= y < HEIGHT - 0.5):
                out[row, column] = FILL
                continue
            total = numpy.zeros(3)
            for j in range(math.floor(y) - 1, math.floor(y) + 3):
                for i in range(math.floor(x) - 1, math.floor(x) + 3):
                    tap = pixels[min(max(j, 0), HEIGHT - 1), min(max(i, 0), WIDTH - 1)]
                    total += keys(x - i) * keys(y - j) * tap
            out[row, column] = numpy.clip(numpy.floor(total + 0.5), 0, 255)
    return out


def affine_cases():
    angle = math.radians(23)
    turn = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
    lean = [[0.83, 0.31], [-0.12, 1.21]]
    for name, linear, shift in [("turn", turn, (0, 0)), ("lean", lean, (1.3719, -0.7123)), ("shift", [[1, 0], [0, 1]], (2.25, -1.5))]:
        matrix, offset = about_centre(linear, shift)
        entry = {"map": [*matrix[0], offset[0], *matrix[1], offset[1]], "fill": FILL}
        for method, kind in [("nearest", Image.NEAREST), ("bilinear", Image.BILINEAR)]:
            if method == "nearest" and name == "shift":
                continue  # halves, which are a matter of rounding
            for border in ["constant", "reflect", "edge"]:
                pixels = pillow(picture(), matrix, offset, kind) if border == "constant" else padded(
                    picture(), matrix, offset, kind, border)
                yield {"name": name, "interpolation": method, "border": border, **entry, "pixels": pixels.flatten().tolist()}
        pixels = bicubic(picture(), matrix, offset)
        yield {"name": name, "interpolation": "bicubic", "border": "constant", **entry, "pixels": pixels.flatten().tolist()}


def colour_cases():
    image = Image.fromarray(picture())
    tensor = torch.from_numpy(picture()).permute(2, 0, 1).contiguous()
    cases = {
        "greyscale": functional.to_grayscale(image, 3), "invert": functional.invert(image),
        "equalise": functional.equalize(image), "autocontrast": functional.autocontrast(image.point(lambda v: v // 2 + 30)),
        "solarise 100": functional.solarize(image, 100), "posterise 3": functional.posterize(image, 3),
        "blur 0.8": functional.gaussian_blur(tensor, 7, 0.8),
    }
    for factor in [0.0, 0.4, 1.7]:
        cases[f"brightness {factor}"] = functional.adjust_brightness(image, factor)
        cases[f"contrast {factor}"] = functional.adjust_contrast(image, factor)
        cases[f"saturation {factor}"] = functional.adjust_saturation(image, factor)
        cases[f"sharpness {factor}"] = functional.adjust_sharpness(image, factor)
    for turns in [-0.5, -0.13, 0.3]:
        cases[f"hue {turns}"] = functional.adjust_hue(tensor, turns)
    # Many grey levels, most of them rare: suits equalisation
    places = numpy.arange(CROWDED * CROWDED * 3)
    crowded = (places ** 2 % 97 + places % 31).astype(numpy.uint8).reshape(CROWDED, CROWDED, 3)
    cases["equalise crowded"] = functional.equalize(Image.fromarray(crowded))

    def values(out):
        return (out.permute(1, 2, 0).numpy() if isinstance(out, torch.Tensor) else numpy.asarray(out)).flatten().tolist()
    return {name: values(out) for name, out in cases.items()}


def main():
    made = {"pillow": PIL.__version__, "torchvision": torchvision.__version__, "height": HEIGHT, "width": WIDTH,
            "affine": list(affine_cases()), "colour": colour_cases()}
    path = pathlib.Path(__file__).with_name("augment.json")
    lines = json.dumps(made, separators=(",", ":")).replace('{"name"', '\n{"name"').replace('],"', '],\n"')
    path.write_text(lines + "\n")
    print(path, len(lines))


main()
