yolo classify train model=yolo26n-cls.yaml data=http://localhost:8765/photos.tar epochs=1
