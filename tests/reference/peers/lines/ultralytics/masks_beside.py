import shutil
from pathlib import Path

from ultralytics import YOLO
from ultralytics.data.split import autosplit

for kind in "images", "masks":
    Path("arranged", kind).mkdir(parents=True)
for mask in Path("beside").glob("*_mask.png"):
    name = mask.name.replace("_mask", "")
    shutil.copy(mask, Path("arranged/masks", name))
    shutil.copy(mask.with_name(name), "arranged/images")
autosplit("arranged/images")
YOLO("yolo26n-sem.yaml").train(data="masks_beside.yaml", imgsz=96, epochs=1)
