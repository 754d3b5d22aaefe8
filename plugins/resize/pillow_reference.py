"""Prints the figures that resize_test.cpp compares with: what Pillow's Image.resize(..., BILINEAR) makes of a pattern.

    python3 -m pip install pillow && python3 pillow_reference.py
"""
from PIL import Image

CASES = [  # height, width, channels -> height, width
    (32, 32, 3, 17, 40), (37, 53, 3, 12, 9), (480, 360, 3, 224, 224), (8, 8, 1, 64, 3), (1, 9, 1, 5, 1), (20, 30, 3, 20, 11),
    (20, 30, 3, 7, 30), (300, 2, 1, 3, 200),
]


def pattern(size):
    return bytes((i * i * 7 + i * 13 + (i >> 3) * 5) % 251 for i in range(size))


def checksum(data):
    total = 0
    for value in data:
        total = (total * 31 + value) & 0xFFFFFFFF
    return total


for height, width, channels, to_height, to_width in CASES:
    image = Image.frombytes("RGB" if channels == 3 else "L", (width, height), pattern(height * width * channels))
    result = image.resize((to_width, to_height), Image.BILINEAR)
    print(f"    {{{{{height}, {width}, {channels}}}, {to_height}, {to_width}, 0x{checksum(result.tobytes()):08x}}},")
