yolo classify train model=yolo26n-cls.yaml data=parts epochs=1 device=0,1
