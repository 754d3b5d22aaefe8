import csv
import shutil
from pathlib import Path

from ultralytics import YOLO

for row in csv.DictReader(open("photos.csv")):
    folder = Path("sorted", row["label"])
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(row["file_name"], folder)
YOLO("yolo26n-cls.yaml").train(data="sorted", epochs=1)
