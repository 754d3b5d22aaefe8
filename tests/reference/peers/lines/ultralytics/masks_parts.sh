yolo semantic train model=yolo26n-sem.yaml data=masks_parts.yaml epochs=1
