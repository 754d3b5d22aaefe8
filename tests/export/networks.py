#!/usr/bin/env python3
"""Exports every network of pipelines/networks and compares it with onnxruntime or OpenVINO.

usage: networks.py BIN_FOLDER WORK_FOLDER [NETWORK...]

Each network is trained for two steps on drawn images, so that weights and statistics are not those it begins with. Then
pipeline-export compares the exported file on the validation images, and onnx.checker reads it. The Python that runs this needs
numpy, Pillow, onnx, and onnxruntime or openvino. Exit code 1: a network was not reproduced.
"""
import os, re, subprocess, sys
import numpy as np
from PIL import Image, ImageDraw

NETWORKS = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../pipelines/networks"))
MAPS = {"deeplabv3_resnet50", "fcn_resnet50", "segnet", "segnet_basic", "unet"}
RESTORE = {"dncnn"}
SIDES = {"airbench94": 32, "cifar10_conv": 32, "lenet5": 28, "quickstart": 32, "alexnet_caffe": 227, "inception_v3": 299,
         "segnet": 64, "segnet_basic": 64, "unet": 64, "deeplabv3_resnet50": 64, "fcn_resnet50": 64, "dncnn": 40}
PARTS = {"residual_block"}  # parts of other networks
TRAIN = ["run.epochs=1", "run.folder=runs", "run.precision=fp32", "train.batch.size=4", "validate.batch.size=8", "stop.max_steps=2",
         "train.optimizer.learning_rate=0.001", "run.best="]


def draw(folder):
    """12 images of each of three classes, with a mask beside each in scenes/."""
    random = np.random.default_rng(1)
    for part, count in (("train", 12), ("val", 8)):
        for kind, name in enumerate(("disc", "bar", "cross")):
            for i in range(count):
                size = int(random.integers(80, 120))
                image = Image.fromarray(random.integers(0, 120, (size, size, 3), dtype=np.uint8))
                mask = Image.new("L", (size, size), 0)
                x, y, r = (int(v) for v in random.integers(25, size - 25, 3) * [1, 1, 0] + [0, 0, 18])
                colour = tuple(int(v) for v in random.integers(130, 255, 3))
                for target, fill in ((image, colour), (mask, kind + 1)):
                    pen = ImageDraw.Draw(target)
                    if kind == 0:
                        pen.ellipse((x - r, y - r, x + r, y + r), fill)
                    if kind > 0:
                        pen.rectangle((x - r, y - 5, x + r, y + 5), fill)
                    if kind > 1:
                        pen.rectangle((x - 5, y - r, x + 5, y + r), fill)
                for place in (f"classes/{part}/{name}", f"scenes/{part}/images", f"scenes/{part}/masks", f"photos/{part}"):
                    os.makedirs(os.path.join(folder, place), exist_ok=True)
                image.save(os.path.join(folder, f"classes/{part}/{name}/{i}.png"))
                image.save(os.path.join(folder, f"scenes/{part}/images/{name}{i}.png"))
                mask.save(os.path.join(folder, f"scenes/{part}/masks/{name}{i}.png"))
                image.save(os.path.join(folder, f"photos/{part}/{name}{i}.png"))


def pipeline(name, folder):
    side = SIDES.get(name, 224)
    base, data, more = "classify", "classes", ""
    if name in MAPS:
        base, data = "segment", "scenes"
        more = 'classes = [{ name = "ground" }, { name = "disc" }, { name = "bar" }, { name = "cross" }]\n'
    if name in RESTORE:
        base, data = "restore", "photos"
    path = os.path.join(folder, name + ".toml")
    if name == "espcn":
        with open(path, "w") as file:
            file.write(f'extends = "{os.path.join(NETWORKS, "..", "super_resolution.toml")}"\n[run]\nname = "espcn"\n[data]\n'
                       f'train = "{folder}/photos/train"\nvalidate = "{folder}/photos/val"\n')
        return path
    with open(path, "w") as file:
        file.write(f'extends = "{base}"\n[run]\nname = "{name}"\n[data]\npath = "{os.path.join(folder, data)}"\n{more}'
                   f'[image]\nheight = {side}\nwidth = {side}\n[network]\nuse = "{name}"\n')
        if name == "lenet5":
            file.write("[train.decode_image]\nchannels = 1\n[validate.decode_image]\nchannels = 1\n")
    return path


def main():
    programs, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    os.makedirs(folder, exist_ok=True)
    draw(folder)
    names = sys.argv[3:] or sorted(n[:-5] for n in os.listdir(NETWORKS) if n.endswith(".toml") and n[:-5] not in PARTS)
    failed = []
    for name in names:
        words = [os.path.join(programs, "pipeline-run"), pipeline(name, folder), "--quiet"]
        for each in TRAIN:
            words += ["--set", each]
        run = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        model = os.path.join(folder, name + ".onnx")
        export = None
        if run.returncode == 0:
            export = subprocess.run([os.path.join(programs, "pipeline-export"), os.path.join(folder, "runs", name, "latest"),
                                     "--onnx", model, "--python", sys.executable], cwd=folder, capture_output=True, text=True)
        done = export if export is not None else run
        text = done.stderr.strip().splitlines()
        if done.returncode == 0:
            import onnx
            try:
                onnx.checker.check_model(model, full_check=True)
            except Exception as error:  # whatever the checker throws
                text, done.returncode = [str(error)], 1
        print(f"{name:22} {'ok  ' if done.returncode == 0 else 'FAIL'} {' '.join(text[-2:-1] if done.returncode == 0 else text)}",
              flush=True)
        if done.returncode != 0:
            failed.append(name)
    print(f"{len(names) - len(failed)} of {len(names)} networks are reproduced")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) > 2 else __doc__)
