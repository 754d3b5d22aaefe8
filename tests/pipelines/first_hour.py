#!/usr/bin/env python3
"""Mistakes of a first hour, made in files that are right, and what pipeline-run says of each: silent, warned or refused.

usage: first_hour.py BIN [WORD]      BIN: the folder of the programs; WORD: only mistakes with this word in them

Prints a table, and exits with 1 where something is not said that was said before. Takes a minute. Most mistakes are looked at with
--check; those that show in a run are run.
"""
import pathlib, random, shutil, struct, subprocess, sys, tempfile, zlib

CLASSIFY = """[run]
name = "t"
epochs = 1
folder = ""
devices = "cpu"

[network]
use = "quickstart"
classes = 3

[train]
flow = ["read", "decode_image", "augment", "batch", "forward_backward", "allreduce", "optimizer", "metrics"]

[train.read]
stage = "read_folder"
path = "ROOT/train"
shuffle = "every-epoch"

[train.decode_image]
size = [32, 32]

[train.augment]
flip_x = 0.5

[train.batch]
size = 10

[train.optimizer]
learning_rate = 0.05

[validate]
every = "epoch"
flow = ["read", "decode_image", "batch", "forward", "metrics"]

[validate.read]
stage = "read_folder"
path = "ROOT/val"

[validate.decode_image]
size = [32, 32]

[validate.batch]
size = 10
last = "keep"
"""

SEGMENT = """[run]
name = "s"
epochs = 1
folder = ""
devices = "cpu"

[network]
use = "unet"
filters = 4
classes = 2
height = 32
width = 32

[train]
flow = ["read", "decode_image", "batch", "forward_backward", "optimizer", "metrics"]

[train.read]
stage = "read_pairs"
images = "ROOT/images"
labels = "ROOT/masks"
classes = [{ name = "ground" }, { name = "object" }]
shuffle = "every-epoch"

[train.decode_image]
size = [32, 32]

[train.batch]
size = 4

[train.forward_backward]
loss = "pixel_cross_entropy"

[train.optimizer]
learning_rate = 0.01
"""

draw = random.Random(1)


def png(path, channels, pixel, side=32):
    """Writes an image whose pixel (y, x) is what `pixel` says, a tuple of as many numbers as there are channels."""
    rows = b"".join(b"\0" + bytes(v for x in range(side) for v in pixel(y, x)) for y in range(side))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", side, side, 8, {1: 0, 3: 2}[channels], 0, 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def photo(path, number, side=32):
    """Noise around a colour that tells the class."""
    colour = [(200, 60, 60), (60, 200, 60), (60, 60, 200), (180, 180, 40)][number % 4]
    png(path, 3, lambda y, x: tuple(min(255, c + draw.randrange(56)) for c in colour), side)


def folders(root, side=32):
    for part, count in (("train", 20), ("val", 6)):
        for number, name in enumerate(("apple", "birch", "cloud")):
            for i in range(count): photo(root / part / name / f"{part}{i}.png", number, side)


def pairs(root, low=0, high=1):
    for i in range(8):
        edge = draw.randrange(8, 24)
        png(root / "images" / f"{i}.png", 3, lambda y, x: (220 if x < edge else 30, draw.randrange(40), 90))
        png(root / "masks" / f"{i}.png", 1, lambda y, x: (high if x < edge else low,))


def table(root, rows, header="file_name,label", separator=","):
    files = sorted((root / "train").rglob("*.png"))
    lines = [separator.join(str(v) for v in rows(i, f.relative_to(root), f.parent.name)) for i, f in enumerate(files)]
    (root / "list.csv").write_text("\n".join(([header] if header else []) + lines) + "\n")


LIST = ('stage = "read_folder"\npath = "ROOT/train"', 'stage = "read_list"\npath = "ROOT/list.csv"')
NUMBERS = {"apple": 0, "birch": 1, "cloud": 2}
V_READ = '[validate.read]\nstage = "read_folder"\npath = "ROOT/val"'


def copy(root, source, to):
    (root / to).parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(root / source, root / to, dirs_exist_ok=True)


def each(root, pattern, work):
    for file in sorted(root.glob(pattern)): work(file)


def flat(root):
    for file in sorted(root.rglob("*.png")):
        part = file.relative_to(root).parts[0]
        file.rename(root / part / f"{file.parent.name}-{file.name}")
    for folder in list(root.glob("*/*/")): folder.rmdir()


def same_images(root):
    first = root / "train/apple/train0.png"
    each(root, "*/*/*.png", lambda f: f != first and shutil.copy(first, f))


# What is said, what was done, the file with its changes, what is done to its data, options: "run" where --check is not enough, and
# "no-file" to name a file that is not there.
C, S = CLASSIFY, SEGMENT
MISTAKES = [
    ("silent", "nothing: the file is right", C, [], None, []),
    ("silent", "nothing: the file of masks is right", S, [], None, []),
    ("refused", "path: the folder above train and val", C,
     [("ROOT/train", "ROOT"),
      (V_READ, V_READ.replace("ROOT/val", "ROOT"))],
     None, ["--set", "network.classes=2"]),
    ("refused", "path: above train and val, images in these themselves", C,
     [("ROOT/train", "ROOT"),
      ("ROOT/val", "ROOT")],
     flat, ["--set", "network.classes=2"]),
    ("refused", "path: a class's folder", C, [("ROOT/train", "ROOT/train/apple")], None, []),
    ("refused", "path: misspelt", C, [("ROOT/train", "ROOT/trian")], None, []),
    ("refused", "path: an empty folder", C, [("ROOT/train", "ROOT/empty")], lambda r: (r / "empty").mkdir(), []),
    ("refused", "path: a file", C, [("ROOT/train", "ROOT/train/apple/train0.png")], None, []),
    ("warned", "validation reads the training images", C, [("ROOT/val", "ROOT/train")], None, []),
    ("warned", "validation reads a copy of the training images", C, [("ROOT/val", "ROOT/val2")], lambda r: copy(r, "train", "val2"), []),
    ("warned", "a few training images were copied into validation", C,
     [],
     lambda r: [shutil.copy(r / f"train/apple/train{i}.png", r / f"val/apple/x{i}.png") for i in range(3)], []),
    ("warned", "validation lies in the training folder", C,
     [("ROOT/val", "ROOT/train"),
      ("last = \"keep\"", "last = \"keep\"\n")],
     None, ["--set", "validate.read.limit=9"]),
    ("warned", "parts overlap", C, [("ROOT/val\"", "ROOT/train\"\npart = [0.8, 1]"), ("shuffle", "part = [0, 0.9]\nshuffle")], None, []),
    ("warned", "parts of two part_seeds", C,
     [("ROOT/val\"", "ROOT/train\"\npart = [0.8, 1]\npart_seed = 7"),
      ("shuffle", "part = [0, 0.8]\nshuffle")],
     None, []),
    ("warned", "parts swapped: trained on a tenth", C,
     [("ROOT/val\"", "ROOT/train\"\npart = [0, 0.9]"),
      ("shuffle", "part = [0.9, 1]\nshuffle")],
     None, ["--set", "train.batch.size=2"]),
    ("refused", "images end in .webp", C, [], lambda r: each(r, "*/*/*.png", lambda f: f.rename(f.with_suffix(".webp"))), []),
    ("warned", "an empty class folder", C, [], lambda r: (r / "train/zebra").mkdir(), ["--set", "network.classes=4"]),
    ("refused", "one class alone", C,
     [],
     lambda r: [shutil.rmtree(r / p / n) for p in ("train", "val") for n in ("birch", "cloud")], ["--set", "network.classes=1"]),
    ("refused", "one class alone, three outputs", C,
     [],
     lambda r: [shutil.rmtree(r / p / n) for p in ("train", "val") for n in ("birch", "cloud")], []),
    ("warned", "a class of one image", C, [], lambda r: [f.unlink() for f in list((r / "train/birch").iterdir())[1:]], []),
    ("warned", "validation lacks a class", C, [], lambda r: shutil.rmtree(r / "val/cloud"), []),
    ("refused", "validation has one class more", C, [], lambda r: photo(r / "val/zebra/0.png", 3), []),
    ("warned", "validation has one class more, and an output for it", C,
     [],
     lambda r: photo(r / "val/zebra/0.png", 3), ["--set", "network.classes=4"]),
    ("refused", "a class is called otherwise in validation", C, [], lambda r: (r / "val/birch").rename(r / "val/Birch"), []),
    ("refused", "training leaves a class out that validation has", C,
     [("shuffle", "only = [\"apple\", \"birch\"]\nshuffle")],
     None, ["--set", "network.classes=2"]),
    ("warned", "limit is left from a trial, and reaches no sample of a class", C,
     [("shuffle", "limit = 2\nshuffle")],
     None, ["--set", "train.batch.size=2"]),
    ("warned", "all images are one", C, [], same_images, []),
    ("refused", "all images are broken", C, [], lambda r: each(r, "train/*/*.png", lambda f: f.write_bytes(b"no image")), ["run"]),
    ("refused", "half of the images are broken", C,
     [],
     lambda r: each(r, "train/*/*[02468].png", lambda f: f.write_bytes(b"no image")), ["run"]),
    ("warned", "samples are not shuffled", C, [("shuffle = \"every-epoch\"\n", "")], None, []),
    ("warned", "classes = 1000 is left in the network", C, [("classes = 3", "classes = 1000")], None, []),
    ("refused", "one output too few", C, [("classes = 3", "classes = 2")], None, []),
    ("refused", "the network is misspelt", C, [("\"quickstart\"", "\"qickstart\"")], None, []),
    ("refused", "images are smaller than the network takes", C, [("classes = 3", "classes = 3\nheight = 64\nwidth = 64")], None, []),
    ("warned", "images are larger than the network takes", C,
     [("[train.decode_image]\nsize = [32, 32]", "[train.decode_image]\nsize = [96, 96]\nfit = \"exact\""),
      ("[validate.decode_image]\nsize = [32, 32]", "[validate.decode_image]\nsize = [96, 96]\nfit = \"exact\"")],
     None, []),
    ("warned", "another size in validation", C,
     [("[validate.decode_image]\nsize = [32, 32]", "[validate.decode_image]\nsize = [64, 64]\nfit = \"exact\"")],
     None, []),
    ("warned", "another short side in validation", C,
     [("[train.decode_image]\nsize = [32, 32]", "[train.decode_image]\nsize = [32, 32]\nshort_side = 36\ncrop = \"centre\""),
      ("[validate.decode_image]\nsize = [32, 32]", "[validate.decode_image]\nsize = [32, 32]\nshort_side = 128\ncrop = \"centre\"")],
     None, []),
    ("refused", "no size, and files vary", C,
     [("[train.decode_image]\nsize = [32, 32]\n", "")],
     lambda r: photo(r / "train/apple/x.png", 0, 40), []),
    ("refused", "size is not that of the files", C,
     [("[train.decode_image]\nsize = [32, 32]", "[train.decode_image]\nsize = [48, 48]")],
     None, ["run"]),
    ("refused", "one channel is decoded, the network takes three", C,
     [("[train.decode_image]\n", "[train.decode_image]\nchannels = 1\n")],
     None, []),
    ("refused", "decode_image is left out of flow", C,
     [("flow = [\"read\", \"decode_image\", \"augment\"", "flow = [\"read\", \"augment\"")],
     None, []),
    ("refused", "augment after batch", C, [("\"augment\", \"batch\"", "\"batch\", \"augment\"")], None, []),
    ("refused", "optimizer is left out of flow", C, [("\"optimizer\", ", "")], None, []),
    ("refused", "validation trains too", C, [("\"forward\", \"metrics\"", "\"forward_backward\", \"metrics\"")], None, []),
    ("refused", "allreduce is left out, with two replicas", C,
     [("\"allreduce\", ", ""),
      ("devices = \"cpu\"", "devices = \"cpu*2\"")],
     None, []),
    ("warned", "validation augments at random", C,
     [("flow = [\"read\", \"decode_image\", \"batch\"", "flow = [\"read\", \"decode_image\", \"augment\", \"batch\""),
      ("[validate.batch]", "[validate.augment]\nrotate = [-90, 90]\nflip_y = 0.5\n\n[validate.batch]")],
     None, []),
    ("refused", "flip_x in percent", C, [("flip_x = 0.5", "flip_x = 50")], None, []),
    ("warned", "learning rate 100 of sgd", C, [("learning_rate = 0.05", "learning_rate = 100")], None, []),
    ("warned", "learning rate 1e-12", C, [("learning_rate = 0.05", "learning_rate = 1e-12")], None, []),
    ("warned", "learning rate 0.5 of adam", C, [("learning_rate = 0.05", "type = \"adam\"\nlearning_rate = 0.5")], None, []),
    ("warned", "learning rate 0", C, [("learning_rate = 0.05", "learning_rate = 0")], None, []),
    ("refused", "learning rate below 0", C, [("learning_rate = 0.05", "learning_rate = -0.05")], None, []),
    ("refused", "momentum = 9", C, [("learning_rate = 0.05", "learning_rate = 0.05\nmomentum = 9")], None, []),
    ("warned", "weight_decay = 5", C, [("learning_rate = 0.05", "learning_rate = 0.05\nweight_decay = 5")], None, []),
    ("refused", "momentum of adam", C, [("learning_rate = 0.05", "type = \"adam\"\nlearning_rate = 1e-3\nmomentum = 0.9")], None, []),
    ("refused", "a schedule that warms up for longer than the run", C,
     [("learning_rate = 0.05", "learning_rate = { initial = 0.05, schedule = \"cosine\", warmup = 5 }")],
     None, []),
    ("refused", "the batch is larger than the data", C, [("[train.batch]\nsize = 10", "[train.batch]\nsize = 100")], None, []),
    ("refused", "batch = 0", C, [("[train.batch]\nsize = 10", "[train.batch]\nsize = 0")], None, []),
    ("warned", "epochs = 0", C, [("epochs = 1", "epochs = 0")], None, []),
    ("refused", "epochs as a text", C, [("epochs = 1", "epochs = \"1\"")], None, []),
    ("refused", "epochs in [train]", C, [("[train]\n", "[train]\nepochs = 5\n")], None, []),
    ("refused", "label_smoothing = 10", C,
     [("[train.optimizer]", "[train.forward_backward]\nloss = { type = \"cross_entropy\", label_smoothing = 10 }\n\n[train.optimizer]")],
     None, []),
    ("refused", "mean squared error of classes", C,
     [("[train.optimizer]", "[train.forward_backward]\nloss = \"mean_squared_error\"\n\n[train.optimizer]")],
     None, []),
    ("refused", "devices = gpu", C, [("devices = \"cpu\"", "devices = \"gpu\"")], None, []),
    ("refused", "devices = cuda", C, [("devices = \"cpu\"", "devices = \"cuda\"")], None, []),
    ("refused", "devices = 0,1", C, [("devices = \"cpu\"", "devices = \"0,1\"")], None, []),
    ("refused", "--device cpu", C, [], None, ["--device", "cpu"]),
    ("refused", "--resume of nothing", C, [], None, ["--resume"]),
    ("refused", "--weights of nothing", C, [], None, ["--weights", "best.pth"]),
    ("refused", "a file of pipelines that is not there", C, [], None, ["no-file"]),
    ("warned", "list: labels begin with 1", C,
     [LIST],
     lambda r: table(r, lambda i, f, n: (f, NUMBERS[n] + 1)), ["--set", "network.classes=4", "--set", "validate.every=never"]),
    ("refused", "list: labels begin with 1, three outputs", C,
     [LIST],
     lambda r: table(r, lambda i, f, n: (f, NUMBERS[n] + 1)), ["--set", "validate.every=never"]),
    ("silent", "list: separated by |", C, [LIST], lambda r: table(r, lambda i, f, n: (f, n), "file_name|label", "|"), []),
    ("refused", "list: the column is called filename", C, [LIST], lambda r: table(r, lambda i, f, n: (f, n), "filename,label"), []),
    ("refused", "list: no first row of names", C, [LIST], lambda r: table(r, lambda i, f, n: (f, n), ""), []),
    ("refused", "list: backslashes", C, [LIST], lambda r: table(r, lambda i, f, n: (str(f).replace("/", "\\"), n)), []),
    ("refused", "list: paths of another folder", C, [LIST], lambda r: table(r, lambda i, f, n: (f.name, n)), []),
    ("warned", "list: every image is a class of its own", C,
     [LIST],
     lambda r: table(r, lambda i, f, n: (f, f"img{i}")), ["--set", "network.classes=60", "--set", "validate.every=never"]),
    ("refused", "list: the label is the split", C,
     [LIST],
     lambda r: table(r, lambda i, f, n: (f, ("train", "val")[i % 4 == 0])),
     ["--set", "network.classes=2", "--set", "validate.every=never"]),
    ("warned", "masks of 0 and 255", S, [], lambda r: pairs(r, 0, 255), []),
    ("refused", "masks whose values no class has", S, [], lambda r: pairs(r, 90, 255), []),
    ("refused", "masks that are ignored all over", S, [("shuffle", "ignored = [254, 255]\nshuffle")], lambda r: pairs(r, 254, 255), []),
    ("warned", "masks that begin with 1", S, [], lambda r: pairs(r, 1, 2), []),
    ("warned", "masks of one class", S, [], lambda r: pairs(r, 0, 0), []),
    ("warned", "masks in colours", S, [], lambda r: [png(f, 3, lambda y, x: (128, 0, 64)) for f in sorted((r / "masks").iterdir())], []),
    ("warned", "images and masks swapped", S,
     [("ROOT/images", "ROOT/X"),
      ("ROOT/masks", "ROOT/images"),
      ("ROOT/X", "ROOT/masks")],
     None, []),
    ("refused", "masks of another size", S,
     [],
     lambda r: [png(f, 1, lambda y, x: (x % 2,), 16) for f in sorted((r / "masks").iterdir())], ["run"]),
    ("refused", "masks in another folder under other names", S,
     [],
     lambda r: [f.rename(r / "masks" / f"m{9 - i}x{i}.png") for i, f in enumerate(sorted((r / "masks").iterdir()))], []),
    ("refused", "fewer outputs than classes of masks", S,
     [("{ name = \"object\" }", "{ name = \"object\" }, { name = \"sky\" }")],
     None, []),
    ("warned", "more outputs than classes of masks", S, [("classes = 2", "classes = 21")], None, []),
    ("refused", "loss of whole images for masks", S, [("pixel_cross_entropy", "cross_entropy")], None, []),
]


def verdict(binary, mistake, folder):
    _, what, text, changes, data, options = mistake
    (pairs if text is S else folders)(folder)
    if data: data(folder)
    for old, new in changes:
        assert old in text, (what, old)
        text = text.replace(old, new, 1)
    file = folder / "t.toml"
    file.write_text(text.replace("ROOT", str(folder)))
    options = list(options)
    runs = "run" in options
    if runs: options.remove("run")
    if "no-file" in options: options, file = [], folder / "tt.toml"
    command = [binary / "pipeline-run", file, *options, *(["--quiet"] if runs else ["--check"])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    said = done.stderr.replace(str(folder), "")
    warned = [line for line in said.splitlines() if "warning" in line]
    return ("refused" if done.returncode else "warned" if warned else "silent"), said.strip()


def main():
    binary = pathlib.Path(sys.argv[1]).resolve()
    word = sys.argv[2] if len(sys.argv) > 2 else ""
    counts, others = {}, 0
    for mistake in [each for each in MISTAKES if word in each[1]]:
        with tempfile.TemporaryDirectory() as folder:
            found, said = verdict(binary, mistake, pathlib.Path(folder))
        counts[found] = counts.get(found, 0) + 1
        others += found != mistake[0]
        print(f"{found:8} {mistake[1]}" + ("" if found == mistake[0] else f"    EXPECTED: {mistake[0]}"))
        for line in said.splitlines()[:4]:
            print(f"           | {line[:250]}")
    print(", ".join(f"{count} {found}" for found, count in sorted(counts.items())))
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
