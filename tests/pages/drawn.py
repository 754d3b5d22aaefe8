"""Small data for the blocks of pages: drawn shapes in folders of classes, and drawn streets with masks."""

import shutil
import struct
import subprocess
import zlib

SIDE = 64
ROAD, CAR = 0, 1


def write_png(path, rows, channels):
    """Rows of bytes, grey (1 channel) or red, green, blue (3)."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    head = struct.pack(">IIBBBBB", len(rows[0]) // channels, len(rows), 8, 0 if channels == 1 else 2, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b""))


def street(number):
    """(image, mask): a grey road with a red car, which stands elsewhere in each."""
    left, top = 4 + number * 7 % 36, 8 + number * 5 % 30
    mask = [[CAR if left <= x < left + 18 and top <= y < top + 12 else ROAD for x in range(SIDE)] for y in range(SIDE)]
    colours = {ROAD: (90, 90, 95), CAR: (200, 30, 40)}
    grain = [[(x * 7 + y * 13 + number * 29) % 23 for x in range(SIDE)] for y in range(SIDE)]
    image = [[level + grain[y][x] for x in range(SIDE) for level in colours[mask[y][x]]] for y in range(SIDE)]
    return image, mask


def make(pipeline_data, folder):
    def shapes(name, count, validation, size):
        subprocess.run([pipeline_data, "shapes", folder / name, "--count", str(count), "--validation", str(validation),
                        "--size", str(size)], check=True, capture_output=True)
    shapes("data/shapes", 300, 100, 32)
    shapes("shapes", 240, 10, SIDE)
    (folder / "shapes/train").rename(folder / "photos")
    shutil.rmtree(folder / "shapes")
    for part in ("images", "masks"):
        (folder / "street" / part).mkdir(parents=True)
    for number in range(24):
        image, mask = street(number)
        write_png(folder / f"street/images/{number:03}.png", image, 3)
        write_png(folder / f"street/masks/{number:03}.png", mask, 1)
