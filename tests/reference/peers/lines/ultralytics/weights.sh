yolo classify train model=other.pt data=photos epochs=1
