from ultralytics import YOLO
from ultralytics.data.split import autosplit

autosplit("scenes/images")
YOLO("yolo26n-sem.yaml").train(data="masks.yaml", epochs=1)
