yolo semantic train model=yolo26n-sem.yaml data=masks_parts.yaml imgsz=96 epochs=1
