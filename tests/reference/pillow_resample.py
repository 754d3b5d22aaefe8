"""Prints the figures that framework/data/resample_test.cpp compares with: what Pillow's Image.resize makes of a pattern.

    apt-get install python3-pil && /usr/bin/python3 tests/reference/pillow_resample.py
"""
import PIL
from PIL import Image

CASES = [  # height, width, channels -> height, width; box (left, top, right, bottom) or None
    (32, 32, 3, 17, 40, None), (37, 53, 3, 12, 9, None), (480, 360, 3, 224, 224, None), (8, 8, 1, 64, 3, None),
    (1, 9, 1, 5, 1, None), (20, 30, 3, 20, 11, None), (20, 30, 3, 7, 30, None), (300, 2, 1, 3, 200, None),
    (200, 250, 3, 64, 64, (10, 20, 110, 180)), (90, 120, 3, 48, 56, (3.25, 7.5, 90.75, 80.125)),
    (33, 47, 1, 10, 70, (0, 0.5, 46.5, 33)), (5, 4, 3, 31, 29, None), (64, 64, 4, 20, 20, (1, 1, 63, 50)),
    (120, 160, 3, 120, 160, (8.5, 0, 152.5, 120)),
]
FILTERS = [("nearest", Image.NEAREST), ("bilinear", Image.BILINEAR), ("bicubic", Image.BICUBIC)]


def pattern(size):
    return bytes((i * i * 7 + i * 13 + (i >> 3) * 5) % 251 for i in range(size))


def checksum(data):
    total = 0
    for value in data:
        total = (total * 31 + value) & 0xFFFFFFFF
    return total


def main():
    print(f"// Pillow {PIL.__version__}")
    for height, width, channels, to_height, to_width, box in CASES:
        # CMYK: four channels that Pillow resamples independently
        mode = {1: "L", 3: "RGB", 4: "CMYK"}[channels]
        image = Image.frombytes(mode, (width, height), pattern(height * width * channels))
        edges = box or (0, 0, width, height)
        sums = [checksum(image.resize((to_width, to_height), kind, box).tobytes()) for _, kind in FILTERS]
        floats = ", ".join(f"{edge}F" if isinstance(edge, float) else str(edge) for edge in edges)
        print(f"    {{{{{height}, {width}, {channels}}}, {{{floats}}}, {to_height}, {to_width}, {{"
              + ", ".join(f"0x{value:08x}" for value in sums) + "}},")


main()
