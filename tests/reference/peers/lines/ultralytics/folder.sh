yolo classify train model=yolo26n-cls.yaml data=photos epochs=1
