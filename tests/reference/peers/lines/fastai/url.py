from fastai.vision.all import *

path = untar_data("http://localhost:8765/photos.tar")
dls = ImageDataLoaders.from_folder(path, valid_pct=0.1, item_tfms=Resize(224), bs=16)
learn = vision_learner(dls, resnet18, pretrained=False, metrics=accuracy)
learn.fit_one_cycle(1)
learn.save("model")
