"""Compares the figures that runs write with scikit-learn's and NumPy's, made of predictions that the same runs have stored.

    ../venv/bin/pip install numpy scikit-learn pillow
    ../venv/bin/python tests/reference/figures_compare.py build/release/bin/pipeline-run [classes] [maps] [pictures] [lists]

Each case draws images, trains a small network on them for a moment, and validates it once. The pass writes the network's outputs
(write_features), masks or pictures beside its figures. What is right is known from the label files alone:

- classes: metrics.jsonl, and figures, classes.csv, confusion.csv, calibration.csv of write_evaluation
- maps: metrics.jsonl, classes.csv and confusion.csv of the observer `results`, the masks, boundary F1 of write_boundaries
- pictures: PSNR and SSIM of write_quality from the PNG files of write_images and the targets, with and without noise, enlarged ones too
- lists: figures and labels.csv of write_label_scores, figures.csv of write_regression

Bounds: 1e-9 for counts and shares, 1e-6 for boundary F1, PSNR and SSIM. Prints the worst difference of each file, and exits with 1
when one is above its bound.
"""
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
from PIL import Image
from sklearn import metrics

import figure_formulas as formulas

EXACT, NEAR = 1e-9, 1e-6
SOURCES = pathlib.Path(__file__).parents[2]


class Comparison:
    """Differences by file; what is missing is infinitely far off."""

    def __init__(self):
        self.rows = []  # (difference / bound, difference, place, ours, theirs)
        self.files = {}

    def check(self, file, name, ours, theirs, bound):
        try:
            difference = abs(float(ours) - float(theirs))
        except (TypeError, ValueError):
            difference = float("inf")
        if not difference <= float("inf"):  # no number
            difference = float("inf")
        row = (difference / bound, difference, f"{file}: {name}", ours, theirs)
        self.rows.append(row)
        self.files.setdefault(file, []).append((row, bound))

    def report(self):
        for file, checks in self.files.items():
            worst, bound = max(checks, key=lambda check: check[0][0])
            print(f"{file}: {len(checks)} values, at most {worst[1]:.1e} apart (allowed: {bound:.0e})", flush=True)
        worst = max(self.rows, key=lambda row: row[0])
        if worst[0] <= 1:
            return 0
        print(f"worst: {worst[2]} is {worst[3]}, and should be {worst[4]}: {worst[1]:.1e} apart")
        return 1


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def figures_of(path):
    return {row["figure"]: row["value"] for row in rows_of(path)}


def train(program, folder, text):
    """-> the run's folder, and the figures of its last validation."""
    (folder / "run.toml").write_text(text)
    run(program, folder / "run.toml", "--quiet")
    made = next((folder / "runs").glob("*/latest/metrics.jsonl")).parent
    events = [json.loads(line) for line in (made / "metrics.jsonl").read_text().splitlines()]
    return made, [event for event in events if event["event"] == "validate"][-1]


HEAD = """
[run]
name = "figures"
epochs = {epochs}
seed = 3
folder = "{folder}/runs"
precision = "fp32"
devices = "cpu"
threads = 2
[observe]
results = true
"""


# ---------------------------------------------------------------- classes of images

CLASSES = """
extends = "{pipeline}"
[data]
root = "{folder}/shapes"
[validate]
every = "end"
flow = ["read", "decode_image", "batch", "forward", "metrics", "write_features", "write_evaluation"]
[validate.write_features]
layer = "fc"
file = "outputs.npy"
"""


def check_matrix(comparison, prefix, confusion, classes, truth, predicted, names):
    """Rows of confusion.csv and classes.csv."""
    numbers = list(range(len(names)))
    matrix = metrics.confusion_matrix(truth, predicted, labels=numbers)
    shares = metrics.confusion_matrix(truth, predicted, labels=numbers, normalize="true")
    found = {(row["class"], row["predicted"]): row for row in confusion}
    for i in numbers:
        for j in numbers:
            row = found.get((names[i], names[j]), {})
            comparison.check(f"{prefix}confusion.csv", f"count of {names[i]}, {names[j]}", row.get("count"), matrix[i, j], EXACT)
            comparison.check(f"{prefix}confusion.csv", f"share of {names[i]}, {names[j]}", row.get("share") or 0, shares[i, j], EXACT)
    precision, recall, f1, support = metrics.precision_recall_fscore_support(truth, predicted, labels=numbers, zero_division=0)
    iou = metrics.jaccard_score(truth, predicted, labels=numbers, average=None, zero_division=0)
    for i, row in zip(numbers, classes, strict=True):
        for key, theirs in dict(count=support, accuracy=recall, precision=precision, f1=f1, iou=iou).items():
            comparison.check(f"{prefix}classes.csv", f"{key} of {names[i]}", row[key] or 0 if row["class"] == names[i] else None,
                             theirs[i], EXACT)


def compare_classes(program, folder, comparison):
    run(program.parent / "pipeline-data", "shapes", folder / "shapes", "--count", 400, "--validation", 130)
    names = sorted(path.name for path in (folder / "shapes/test").iterdir())
    made, event = train(program, folder, CLASSES.format(pipeline=SOURCES / "pipelines/quickstart.toml", folder=folder) +
                        HEAD.format(folder=folder, epochs=2))
    outputs = numpy.load(made / "outputs.npy").astype(numpy.float64).reshape(-1, len(names))
    truth = numpy.array([names.index(pathlib.Path(row["path"]).parent.name) for row in rows_of(made / "outputs.csv")])
    predicted, scores = outputs.argmax(1), formulas.softmax(outputs)
    numbers = range(len(names))
    means = dict(
        accuracy=metrics.accuracy_score(truth, predicted),
        mean_accuracy=metrics.balanced_accuracy_score(truth, predicted),
        mean_precision=metrics.precision_score(truth, predicted, average="macro", zero_division=0),
        mean_f1=metrics.f1_score(truth, predicted, average="macro", zero_division=0),
        calibration_error=formulas.calibration_error(scores.max(1), predicted == truth),
    )
    for name in ("accuracy", "mean_accuracy", "mean_precision", "mean_f1"):
        comparison.check("metrics.jsonl", name, event.get(name), means[name], EXACT)
    comparison.check("metrics.jsonl", "top5", event.get("top5"),
                     metrics.top_k_accuracy_score(truth, outputs, k=5, labels=numbers), EXACT)
    figures = figures_of(made / "evaluation/figures.csv")
    comparison.check("evaluation/figures.csv", "images", figures.get("images"), len(truth), EXACT)
    for name, theirs in means.items():
        comparison.check("evaluation/figures.csv", name, figures.get(name), theirs, EXACT)
    check_matrix(comparison, "evaluation/", rows_of(made / "evaluation/confusion.csv"),
                 rows_of(made / "evaluation/classes.csv"), truth, predicted, names)
    bins = zip(*formulas.calibration_bins(scores.max(1), predicted == truth))
    for row, (count, confidence, right) in zip(rows_of(made / "evaluation/calibration.csv"), bins, strict=True):
        theirs = dict(count=count, confidence=confidence / max(count, 1), accuracy=right / max(count, 1))
        for key, value in theirs.items():
            comparison.check("evaluation/calibration.csv", f"{key} up to {row['up_to']}", row[key], value, EXACT)


# ---------------------------------------------------------------- classes of pixels

HEIGHT, WIDTH, IGNORED, TOLERANCE = 40, 56, 9, 0.02
MAP_CLASSES = {"sky": [0], "road": [1], "tree": [2, 7], "car": [3], "nowhere": [4]}
MAPS = """
[network]
use = "unet"
up = "transposed"
filters = 8
classes = {count}
height = {height}
width = {width}
[train]
flow = ["read", "decode_image", "batch", "forward_backward", "allreduce", "optimizer", "metrics"]
[train.read]
{read}
images = "{folder}/train/images"
labels = "{folder}/train/labels"
shuffle = "every-epoch"
[train.decode_image]
size = [{height}, {width}]
[train.batch]
size = 8
[train.forward_backward]
loss = {{ type = "pixel_cross_entropy", class_weights = "median-frequency" }}
[train.optimizer]
type = "adamw"
learning_rate = 1e-2
[validate]
every = "end"
flow = ["read", "decode_image", "batch", "forward", "metrics", "write_features", "write_boundaries", "write_masks"]
[validate.read]
{read}
images = "{folder}/val/images"
labels = "{folder}/val/labels"
[validate.decode_image]
size = [{height}, {width}]
[validate.batch]
size = 4
last = "keep"
[validate.forward]
loss = "pixel_cross_entropy"
[validate.write_features]
layer = "classifier"
file = "outputs.npy"
[validate.write_boundaries]
tolerance = {tolerance}
"""


def draw_pairs(folder, count, random):
    """Bands of classes with a noisy colour each; a corner is ignored. The last class is drawn in training only."""
    for part in ("images", "labels"):
        (folder / part).mkdir(parents=True)
    colours = numpy.array([[120, 170, 240], [90, 90, 95], [40, 140, 50], [190, 40, 60], [230, 220, 60]])
    y, x = numpy.mgrid[:HEIGHT, :WIDTH]
    for number in range(count):
        slope, lift = random.uniform(-0.3, 0.3), random.uniform(8, 16)
        kind = (y > lift + slope * x).astype(int) + (y > lift + 14 - slope * x)
        kind[random.integers(20, 28):, random.integers(8, 16):random.integers(24, 48)] = 3
        if folder.name == "train" and number % 5 == 0:
            kind[:6, 40:] = 4
        values = numpy.where((kind == 2) & (x % 2 == 0), 7, kind)
        values[y + x < 12] = IGNORED
        pixels = colours[kind] + random.normal(0, 30, (HEIGHT, WIDTH, 3))
        Image.fromarray(numpy.clip(pixels, 0, 255).astype(numpy.uint8)).save(folder / f"images/{number:02}.png")
        Image.fromarray(values.astype(numpy.uint8)).save(folder / f"labels/{number:02}.png")


def mean(values):
    return float(numpy.mean(values)) if len(values) else 0.0


def compare_boundaries(folder, truth, predicted, comparison):
    by_image = [formulas.boundary_f1(t, p, t >= 0, len(MAP_CLASSES), TOLERANCE) for t, p in zip(truth, predicted)]
    of_images = [mean([figure for figure in figures if figure is not None]) for figures in by_image]
    figures = figures_of(folder / "figures.csv")
    comparison.check("boundaries/figures.csv", "images", figures.get("images"), len(truth), EXACT)
    comparison.check("boundaries/figures.csv", "mean_boundary_f1", figures.get("mean_boundary_f1"), mean(of_images), NEAR)
    for c, row in zip(range(len(MAP_CLASSES)), rows_of(folder / "classes.csv"), strict=True):
        there = [figures[c] for figures in by_image if figures[c] is not None]
        comparison.check("boundaries/classes.csv", f"images of {row['class']}", row["images"], len(there), EXACT)
        comparison.check("boundaries/classes.csv", f"boundary_f1 of {row['class']}", row["boundary_f1"], mean(there), NEAR)


def compare_maps(program, folder, comparison):
    random = numpy.random.default_rng(5)
    for part, count in (("train", 40), ("val", 10)):
        draw_pairs(folder / part, count, random)
    classes = ", ".join(f'{{ name = "{name}", ids = {ids} }}' for name, ids in MAP_CLASSES.items())
    read = f'stage = "read_pairs"\nclasses = [{classes}]\nignored = [{IGNORED}]'
    made, event = train(program, folder, HEAD.format(folder=folder, epochs=4) + MAPS.format(
        folder=folder, read=read, count=len(MAP_CLASSES), height=HEIGHT, width=WIDTH, tolerance=TOLERANCE))
    predicted = numpy.load(made / "outputs.npy").argmax(1)
    class_of = numpy.full(256, -1)
    for number, ids in enumerate(MAP_CLASSES.values()):
        class_of[ids] = number
    stems = [pathlib.Path(row["path"]).stem for row in rows_of(made / "outputs.csv")]
    truth = numpy.stack([class_of[numpy.asarray(Image.open(folder / f"val/labels/{stem}.png"))] for stem in stems])
    for stem, classes in zip(stems, predicted):
        comparison.check("masks", f"{stem}.png, pixels that differ",
                         (numpy.asarray(Image.open(made / f"masks/{stem}.png")) != classes).sum(), 0, EXACT)
    true, found = truth[truth >= 0], predicted[truth >= 0]
    occurring = sorted(set(true))
    theirs = dict(
        accuracy=metrics.accuracy_score(true, found),
        mean_accuracy=metrics.recall_score(true, found, labels=occurring, average="macro", zero_division=0),
        mean_precision=metrics.precision_score(true, found, average="macro", zero_division=0),
        mean_f1=metrics.f1_score(true, found, average="macro", zero_division=0),
        mean_iou=metrics.jaccard_score(true, found, average="macro", zero_division=0),
        weighted_iou=metrics.jaccard_score(true, found, labels=occurring, average="weighted", zero_division=0),
    )
    for name, value in theirs.items():
        comparison.check("metrics.jsonl of maps", name, event.get(name), value, EXACT)
    tables = [[row for row in rows_of(made / name) if row["graph"] == "validate"] for name in ("confusion.csv", "classes.csv")]
    check_matrix(comparison, "", *tables, true, found, list(MAP_CLASSES))
    compare_boundaries(made / "boundaries", truth, predicted, comparison)


# ---------------------------------------------------------------- pictures

PICTURES = """
[network]
{network}
[train]
flow = ["read", "decode_image", {noise} "batch", "forward_backward", "allreduce", "optimizer", "metrics"]
[train.read]
stage = "read_pairs"
images = "{folder}/pictures"
target_scale = {factor}
[train.decode_image]
{decode}
[train.batch]
size = 4
[train.forward_backward]
loss = "mean_squared_error"
[train.optimizer]
type = "adam"
learning_rate = 1e-3
[validate]
every = "end"
flow = ["read", "decode_image", {noise} "batch", "forward", "metrics", "write_images", "write_quality"]
[validate.read]
stage = "read_pairs"
images = "{folder}/pictures"
target_scale = {factor}
[validate.decode_image]
{decode}
[validate.batch]
size = 4
last = "keep"
[validate.forward]
loss = "mean_squared_error"
[validate.write_quality]
luminance = {luminance}
border = {border}
{noises}
"""
DENOISE = dict(network='use = "dncnn"\nchannels = 3\ndepth = 4\nfilters = 8\nheight = 48\nwidth = 64', factor=1,
               noise='"noise",', decode="size = [48, 64]", luminance="false", border=0,
               noises="[train.noise]\ndeviation = 25\n[validate.noise]\ndeviation = 25\nevery_epoch = false")
ENLARGE = dict(network='use = "espcn"\nchannels = 3\nfactor = 2\nheight = 24\nwidth = 32', factor=2, noise="",
               decode='size = [24, 32]\nshrink = "bicubic"', luminance="true", border=2, noises="")


def draw_pictures(folder, count, random):
    folder.mkdir()
    for number in range(count):
        small = Image.fromarray(random.integers(0, 256, (8, 10, 3), dtype=numpy.uint8))
        pixels = numpy.asarray(small.resize((64, 48), Image.BICUBIC)) + random.normal(0, 4, (48, 64, 3))
        Image.fromarray(numpy.clip(pixels, 0, 255).astype(numpy.uint8)).save(folder / f"{number:02}.png")


def planes(path, luminance, border):
    pixels = numpy.asarray(Image.open(path)).astype(float)
    pixels = pixels[border:len(pixels) - border, border:pixels.shape[1] - border]
    return formulas.luminance_of(pixels) if luminance == "true" else pixels


def compare_pictures(program, folder, comparison, name, case):
    folder.mkdir()
    draw_pictures(folder / "pictures", 10, numpy.random.default_rng(7))
    made, _ = train(program, folder, HEAD.format(folder=folder, epochs=3) + PICTURES.format(folder=folder, **case))
    rows, found = rows_of(made / "quality/images.csv"), []
    for row in rows:
        stem = pathlib.Path(row["path"]).stem
        ours, target = (planes(path / f"{stem}.png", case["luminance"], case["border"])
                        for path in (made / "images", folder / "pictures"))
        found.append(dict(psnr=formulas.signal_to_noise_ratio(ours, target), ssim=formulas.similarity(ours, target)))
        for key, value in found[-1].items():
            comparison.check(f"quality/images.csv, {name}", f"{key} of {stem}", row[key], value, NEAR)
    figures = figures_of(made / "quality/figures.csv")
    comparison.check(f"quality/figures.csv, {name}", "images", figures.get("images"), len(list((folder / "pictures").iterdir())), EXACT)
    for key in ("psnr", "ssim"):
        comparison.check(f"quality/figures.csv, {name}", key, figures.get(key), mean([image[key] for image in found]), NEAR)


# ---------------------------------------------------------------- labels and numbers of lists

LISTS = """
extends = "{base}"
[data]
train = "{folder}/list.csv"
validate = "{folder}/list.csv"
columns = {columns}
[image]
side = 32
short = 32
[network]
use = "quickstart"
[validate]
flow = ["read", "decode_image", "batch", "forward", "metrics", "write_features", "{stage}"]
[validate.write_features]
file = "outputs.npy"
"""


def compare_lists(program, folder, comparison):
    run(program.parent / "pipeline-data", "shapes", folder / "shapes", "--count", 100, "--validation", 10)
    random = numpy.random.default_rng(11)
    images = sorted((folder / "shapes/train").rglob("*.*"))
    columns = ["light", "odd", "rare", "size"]
    truth = numpy.column_stack([random.integers(0, 2, (len(images), 2)), random.random(len(images)) < 0.1,
                                random.normal(3, 2, len(images)).astype(numpy.float32)])
    with open(folder / "list.csv", "w", newline="") as file:
        csv.writer(file).writerows([["file_name", *columns]] + [[image, *row] for image, row in zip(images, truth)])
    for base, stage, first, last in (("labels", "write_label_scores", 0, 3), ("regress", "write_regression", 2, 4)):
        (folder / base).mkdir()
        text = LISTS.format(base=base, stage=stage, folder=folder, columns=json.dumps(columns[first:last]))
        made, _ = train(program, folder / base, text + HEAD.replace("[observe]\nresults = true\n", "").format(
            folder=folder / base, epochs=2))
        outputs = numpy.load(made / "outputs.npy").astype(numpy.float64).reshape(len(images), -1)
        check = compare_labels if base == "labels" else compare_numbers
        check(comparison, made / "evaluation", columns[first:last], truth[:, first:last], outputs)


def compare_labels(comparison, folder, names, truth, outputs):
    truth, predicted = truth > 0.5, outputs > 0
    average = metrics.average_precision_score(truth, outputs, average=None)
    precision, recall, f1, having = metrics.precision_recall_fscore_support(truth, predicted, zero_division=numpy.nan)
    for k, row in zip(range(len(names)), rows_of(folder / "labels.csv"), strict=True):
        theirs = dict(images=len(truth), having=having[k], predicted=predicted[:, k].sum(), precision=precision[k], recall=recall[k],
                      f1=f1[k], average_precision=average[k])
        for key, value in theirs.items():
            if numpy.isnan(value):
                comparison.check("labels.csv", f"{key} of {names[k]} is empty", len(row[key]), 0, EXACT)
            else:
                comparison.check("labels.csv", f"{key} of {names[k]}", row[key], value, EXACT)
    means = dict(images=len(truth), accuracy=(truth == predicted).mean(), exact_match=metrics.accuracy_score(truth, predicted),
                 mean_f1=metrics.f1_score(truth, predicted, average="macro", zero_division=0), mean_average_precision=average.mean())
    for name, value in means.items():
        comparison.check("figures.csv of labels", name, figures_of(folder / "figures.csv").get(name), value, EXACT)


def compare_numbers(comparison, folder, names, truth, outputs):
    truth = truth.astype(numpy.float32).astype(numpy.float64)
    for k, row in zip(range(len(names)), rows_of(folder / "figures.csv"), strict=True):
        theirs = dict(count=len(truth), rmse=metrics.mean_squared_error(truth[:, k], outputs[:, k]) ** 0.5,
                      mae=metrics.mean_absolute_error(truth[:, k], outputs[:, k]), r2=metrics.r2_score(truth[:, k], outputs[:, k]))
        for key, value in theirs.items():
            comparison.check("figures.csv of numbers", f"{key} of {names[k]}", row[key], value, EXACT * max(1, abs(value)))


def main():
    cases = sys.argv[2:] or ["classes", "maps", "pictures", "lists"]
    if len(sys.argv) < 2 or set(cases) - {"classes", "maps", "pictures", "lists"}:
        sys.exit(__doc__)
    program, comparison = pathlib.Path(sys.argv[1]).absolute(), Comparison()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for case in cases:
            (folder / case).mkdir()
        if "classes" in cases:
            compare_classes(program, folder / "classes", comparison)
        if "maps" in cases:
            compare_maps(program, folder / "maps", comparison)
        if "pictures" in cases:
            compare_pictures(program, folder / "pictures/denoise", comparison, "noise", DENOISE)
            compare_pictures(program, folder / "pictures/enlarge", comparison, "enlarged", ENLARGE)
        if "lists" in cases:
            compare_lists(program, folder / "lists", comparison)
    return comparison.report()


if __name__ == "__main__":
    sys.exit(main())
