from ultralytics import YOLO
from ultralytics.data.split import autosplit

autosplit("scenes/images")
YOLO("yolo26n-sem.yaml").train(data="masks.yaml", imgsz=96, epochs=1)
