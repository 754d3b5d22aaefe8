"""Counts the lines of scripts for the tasks of pipelines/reference/lines.md, and runs each for an epoch on the CPU.

    nice ../venv/bin/python tests/reference/peers/lines/count_lines.py FOLDER [--millrace PIPELINE_RUN] [--only PEER/TASK ...]

A script is what a user of PEER writes for TASK: PEER/TASK.py, .sh, .toml and .yaml. A line counts unless it is blank or a comment;
lines that import are counted apart, after a plus. None is longer than 100 characters. A script runs in FOLDER/PEER/TASK, beside drawn
data; output.txt there has what it said. It ran if it ends with 0 and leaves weights. Exit code 1 when one failed.
"""
import argparse
import importlib.metadata
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

from PIL import Image, ImageDraw

HERE = pathlib.Path(__file__).parent
TASKS = "folder parts list masks masks_parts masks_beside restore labels regress shards url weights devices".split()
PEERS = ["millrace", "ultralytics", "lightning", "fastai"]
NEED_GPUS = ["ultralytics/devices", "fastai/devices"]


def picture(i, shape, side=96):
    """An image with a disc or a square in red or blue, its mask, and where the shape is."""
    x, y, red = 20 + i * 7 % 50, 20 + i * 11 % 50, i % 2
    image, mask = Image.effect_noise((side, side), 40).convert("RGB"), Image.new("L", (side, side))
    for on, fill in (image, (220, 30, 30) if red else (30, 30, 220)), (mask, 1 if shape == "disc" else 2):
        draw = ImageDraw.Draw(on)
        (draw.ellipse if shape == "disc" else draw.rectangle)((x - 12, y - 12, x + 12, y + 12), fill=fill)
    return image, mask, (x / side, y / side), red


def add(tar, name, image, label):
    """Adds an image and its class to a tar, as WebDataset lays them out."""
    image.save(png := io.BytesIO(), "png")
    for end, content in ("png", png.getvalue()), ("cls", str(label).encode()):
        member = tarfile.TarInfo(f"{name}.{end}")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))


def draw_all(folder):
    tars = {}
    for name in "photos", "shards/train/000", "shards/train/001", "shards/val/000":
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        tars[name] = tarfile.open(folder / f"{name}.tar", "w")
    lists = {"photos": "file_name,label\n", "labels": "file_name,round,red\n", "numbers": "file_name,x,y\n"}
    for i in range(36):
        shape, part = ["disc", "square"][i // 2 % 2], "train" if i < 28 else "val"
        image, mask, (x, y), red = picture(i, shape)
        label = shape if i < 24 else "another"  # `photos` has a class that `parts` lacks
        name, file = f"photos/{label}/{i:02}", f"{i:02}.png"
        images = [f"{name}.png", f"parts/{part}/{shape}/{file}", f"scenes/images/{file}", f"camvid/{part}/images/{file}", f"beside/{file}"]
        masks = [f"scenes/masks/{file}", f"camvid/{part}/labels/{file}", f"beside/{i:02}_mask.png"]
        for path in images + masks:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (image if path in images else mask).save(folder / path)
        add(tars["photos"], name, image, ["another", "disc", "square"].index(label))
        add(tars["shards/val/000" if part == "val" else f"shards/train/{i % 2:03}"], f"{i:02}", image, int(shape == "square"))
        for key, values in ("photos", label), ("labels", f"{int(shape == 'disc')},{red}"), ("numbers", f"{x:.3f},{y:.3f}"):
            lists[key] += f"{name}.png,{values}\n"
    for tar in tars.values():
        tar.close()
    for name, text in lists.items():
        (folder / f"{name}.csv").write_text(text)


def count(files):
    lines = [line for file in files for line in file.read_text().splitlines() if line.strip() and not line.strip().startswith("#")]
    assert all(len(line) <= 100 for line in lines), files
    imports = sum(line.startswith(("import ", "from ")) for line in lines)
    return f"{len(lines) - imports} + {imports}" if imports else str(len(lines))


def run(files, folder, drawn, pipeline_run, other):
    """Runs the script in FILES, beside weights of another data set. Returns those that it left, newest last, or none if it failed."""
    shutil.copytree(drawn, folder)
    for file in files + [other] * bool(other):
        shutil.copy(file, folder / (file.name if file in files else f"other{file.suffix}"))
    script = next(file.name for file in files if file.suffix != ".yaml")
    ours = "--quiet --set run.epochs=1 --set validate.every=epoch --set train.batch.size=8 --devices".split()
    ours.append("cpu*2" if script == "devices.toml" else "cpu")
    words = {"py": [sys.executable, script], "sh": ["sh", script], "toml": [pipeline_run, script, *ours]}[script.split(".")[1]]
    variables = {"HOME": str(folder), "YOLO_CONFIG_DIR": str(folder), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
                 "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
    with open(folder / "output.txt", "w") as out:
        done = subprocess.run(words, cwd=folder, env={**os.environ, **variables}, stdout=out, stderr=out, timeout=900, check=False)
    left = [x for end in ("pt", "pth", "ckpt", "safetensors") for x in folder.rglob(f"*.{end}") if x.stem != "other"]
    return [] if done.returncode else sorted(left, key=lambda x: x.stat().st_mtime)


def main():
    parser = argparse.ArgumentParser()
    for name, more in ("folder", {"type": pathlib.Path}), ("--millrace", {"type": pathlib.Path}), ("--only", {"nargs": "+"}):
        parser.add_argument(name, **more)
    options, failed, other = parser.parse_args(), False, {}
    draw_all((top := options.folder.resolve()) / "drawn")
    server = subprocess.Popen([sys.executable, "-m", "http.server", "8765", "--directory", top / "drawn"], stderr=subprocess.DEVNULL)
    print(", ".join(f"{x} {importlib.metadata.version(x)}" for x in ("torch", "torchvision", *PEERS[1:], "webdataset")))
    for task in TASKS:
        row = [task]
        for peer in PEERS:
            files, name = sorted(HERE.glob(f"{peer}/{task}.*")), f"{peer}/{task}"
            row.append(count(files) if files else "-")
            if files and name not in NEED_GPUS and name in (options.only or [name]) and (peer != PEERS[0] or options.millrace):
                left = run(files, top / name, top / "drawn", options.millrace, other.get(peer))
                other[peer] = left[-1] if task == "parts" and left else other.get(peer)
                failed |= not left
                row[-1] += ", ran" if left else ", failed"
        print("|", " | ".join(row), "|", flush=True)
    server.terminate()
    sys.exit(failed)


if __name__ == "__main__":
    main()
