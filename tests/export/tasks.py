#!/usr/bin/env python3
"""Trains a small network for each task on drawn images, exports it in every form, and compares the files with other runtimes.

usage: tasks.py BIN_FOLDER WORK_FOLDER [TASK...]     tasks: classes, multilabel, numbers, map, image

Needs numpy, Pillow, onnx, and onnxruntime; with openvino the proofs are repeated there. Exit code 1: something differs, 77: a
package is missing.
"""
import csv, json, os, shutil, subprocess, sys
try:
    import numpy as np
    import onnx
    import onnxruntime
    from PIL import Image, ImageDraw
except ImportError as error:
    print(f"tasks.py: {error}", file=sys.stderr)
    sys.exit(77)
import faults

KINDS = ("disc", "bar", "cross")
HEAD = 'extends = "{base}"\n[run]\nname = "{task}"\nepochs = {epochs}\nprecision = "fp32"\nfolder = "runs"\n'
NETWORK = '[network]\nuse = "quickstart"\nheight = 32\nwidth = 32\n'
LIST = '[data]\npath = "{folder}/list-{name}"\ncolumns = {columns}\n[image]\nside = 32\n'
NUMBERS = ["x (pixels)", "y (pixels)"]
TASKS = {
    "classes": (25, "classify_small", '[data]\npath = "{folder}/classes"\n' + NETWORK),
    "multilabel": (25, "labels", LIST.replace("{name}", "labels").replace("{columns}", json.dumps(KINDS)) + NETWORK),
    "numbers": (25, "regress", LIST.replace("{name}", "numbers").replace("{columns}", json.dumps(NUMBERS)) + NETWORK),
    "map": (25, "segment", '[data]\npath = "{folder}/scenes"\nclasses = [{{ name = "ground" }}, {{ name = "disc" }}, {{ name = "bar" }}, '
                           '{{ name = "cross" }}]\n[image]\nheight = 32\nwidth = 32\n[network]\nuse = "unet"\nup = "bilinear"\n'),
    "image": (40, "restore", '[data]\npath = "{folder}/photos"\n[image]\nheight = 32\nwidth = 32\n[network]\nuse = "dncnn"\n'
                             'depth = 3\nfilters = 8\n'),
}
KEYS = {"names", "task", "imgsz", "channels", "millrace.usage", "millrace.weights_sha256", "millrace.data", "millrace.version",
        "millrace.command"}


def draw(folder):
    random = np.random.default_rng(1)
    rows = {}
    for part, count in (("train", 240), ("val", 60)):
        for i in range(count):
            kind = i % 3
            image = Image.fromarray(random.integers(0, 90, (32, 32, 3), dtype=np.uint8))
            mask = Image.new("L", image.size, 0)
            x, y = (int(v) for v in random.integers(9, 23, 2))
            colour = tuple(int(v) for v in random.integers(120, 255, 3))
            for target, fill in ((image, colour), (mask, kind + 1)):
                pen = ImageDraw.Draw(target)
                if kind == 0:
                    pen.ellipse((x - 7, y - 7, x + 7, y + 7), fill)
                else:
                    pen.rectangle((x - 7, y - 2, x + 7, y + 2), fill)
                if kind == 2:
                    pen.rectangle((x - 2, y - 7, x + 2, y + 7), fill)
            places = (f"classes/{part}/{KINDS[kind]}", f"scenes/{part}/images", f"photos/{part}", "list-labels/images", "list-numbers/images")
            for place in places:
                os.makedirs(os.path.join(folder, place), exist_ok=True)
                image.save(os.path.join(folder, place, f"{part}{i}.png"))
            os.makedirs(os.path.join(folder, f"scenes/{part}/masks"), exist_ok=True)
            mask.save(os.path.join(folder, f"scenes/{part}/masks/{part}{i}.png"))
            rows.setdefault(f"list-labels/{part}.csv", [["file_name", *KINDS]]).append([f"images/{part}{i}.png", *(int(k == kind) for k in range(3))])
            rows.setdefault(f"list-numbers/{part}.csv", [["file_name", *NUMBERS]]).append([f"images/{part}{i}.png", x, y])
    for name, lines in rows.items():
        with open(os.path.join(folder, name), "w", newline="") as file:
            csv.writer(file).writerows(lines)
    os.makedirs(os.path.join(folder, "larger"), exist_ok=True)
    for name, shape in (("a", (44, 60, 3)), ("b", (51, 35, 3))):
        Image.fromarray(random.integers(40, 200, shape, dtype=np.uint8)).save(os.path.join(folder, "larger", name + ".png"))


class Check:
    def __init__(self, programs, folder):
        self.programs, self.folder, self.failures, self.planted = programs, folder, [], 0

    def call(self, program, *words):
        done = subprocess.run([os.path.join(self.programs, program), *words], cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            self.failures.append(f"{program} {' '.join(words)}: {done.stderr.strip()}")
        return done

    def expect(self, is_so, what):
        if not is_so:
            self.failures.append(what)

    def export(self, task, form, *options):
        """The path of the file, compared with onnxruntime by pipeline-export, and with OpenVINO by its proof."""
        name = f"{task}-{form}.onnx"
        path = os.path.join(self.folder, name)
        done = self.call("pipeline-export", f"runs/{task}/latest", "--onnx", name, "--python", sys.executable, *options)
        if done.returncode != 0:
            return None
        onnx.checker.check_model(path, full_check=True)
        metadata = {each.key: each.value for each in onnx.load(path).metadata_props}
        missing = KEYS - metadata.keys() - ({"names"} if task == "image" else set())
        self.expect(not missing, f"{name} lacks the metadata {missing}")
        print(f"{name:28} {done.stderr.strip().splitlines()[-2]}", flush=True)
        self.call("pipeline-export", "--prove", name, "--python", sys.executable)
        try:
            import openvino  # noqa: F401
        except ImportError:
            return path
        script = path[:-5] + ".proof/verify.py"
        hide = f"import sys; sys.modules['onnxruntime'] = None; sys.argv = ['verify.py', {path!r}, {os.path.dirname(script)!r}]"
        done = subprocess.run([sys.executable, "-c", f"{hide}\nexec(open({script!r}).read())"], capture_output=True, text=True)
        self.expect(done.returncode == 0, f"{name}: OpenVINO: {done.stdout}{done.stderr}")
        if done.returncode == 0:
            report = json.loads(done.stdout)
            print(f"{'':28} {report['runtime']}: {report['samples']} samples, largest difference {report['largest']:.2g}", flush=True)
        return path

    def plant(self, path, names=None):
        if path:
            passed, planted = faults.main(path, names)
            self.planted += planted
            self.failures.extend(f"{path}: not refused: {name}" for name in passed)

    def int8(self, task):
        """Layers are computed in integers by onnxruntime, and the proof refuses faults."""
        path = self.export(task, "int8", "--int8", "--max-accuracy-drop", "5", "--calibrate", "40")
        if not path:
            return
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = path + ".optimised"
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.log_severity_level = 3
        onnxruntime.InferenceSession(path, options)
        operators = [node.op_type for node in onnx.load(path + ".optimised").graph.node]
        layers = json.loads({each.key: each.value for each in onnx.load(path).metadata_props}["millrace.int8"])["layers"]
        integers = sum(operators.count(name) for name in ("QLinearConv", "QGemm"))
        self.expect(integers == len(layers) > 0, f"{integers} of {len(layers)} layers are in integers: {operators}")
        self.plant(path)

    def other_sizes(self, path):
        """A restored image of another size is the one that --predict writes."""
        self.call("pipeline-run", "--predict", "larger", "--weights", "runs/image/latest", "--out", "cleaned", "--quiet", "--set",
                  "run.precision=fp32")
        session = onnxruntime.InferenceSession(path)
        for name in ("a.png", "b.png"):
            wanted = np.asarray(Image.open(os.path.join(self.folder, "cleaned/images", name)).convert("RGB"), np.int32)
            image = np.asarray(Image.open(os.path.join(self.folder, "larger", name)).convert("RGB"))
            got = session.run(None, {"image": image[None]})[0][0].astype(np.int32)
            self.expect(got.shape == wanted.shape and np.abs(got - wanted).max() <= 1, f"{name}: not what --predict writes")

    def task(self, task):
        epochs, base, rest = TASKS[task]
        with open(os.path.join(self.folder, task + ".toml"), "w") as file:
            file.write(HEAD.format(base=base, task=task, epochs=epochs) + rest.format(folder=self.folder))
        if self.call("pipeline-run", task + ".toml", "--quiet").returncode != 0:
            return
        self.export(task, "dynamic", "--dynamic")
        self.plant(self.export(task, "pixels", "--preparation"))
        whole = self.export(task, "whole", "--preparation", "--results", "--dynamic")
        if task in ("multilabel", "image", "map"):
            self.plant(whole, faults.OF_RESULTS)
        if task == "image" and whole:
            self.other_sizes(whole)
        if task in ("classes", "map"):
            self.int8(task)
        if task == "classes":
            self.export(task, "embedding", "--output", "global_average_pool1")
        if task == "numbers" and whole:
            properties = {each.key: each.value for each in onnx.load(whole).metadata_props}
            self.expect(properties.get("units") == "{0: 'pixels', 1: 'pixels'}", f"units are {properties.get('units')}")


def main():
    folder = os.path.abspath(sys.argv[2])
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    draw(folder)
    with open(os.path.join(folder, "hashlib.py"), "w") as file:  # modules that lie next to a received file must not run
        file.write("raise SystemExit('hashlib.py of the working folder has run')\n")
    check = Check(os.path.abspath(sys.argv[1]), folder)
    for task in sys.argv[3:] or TASKS:
        check.task(task)
    for failure in check.failures:
        print("FAIL", failure)
    print(f"{check.planted} faults planted, {len(check.failures)} failures")
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) > 2 else __doc__)
