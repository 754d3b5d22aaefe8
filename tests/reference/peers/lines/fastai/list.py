from fastai.vision.all import *

dls = ImageDataLoaders.from_csv(".", "photos.csv", valid_pct=0.1, item_tfms=Resize(224), bs=16)
learn = vision_learner(dls, resnet18, pretrained=False, metrics=accuracy)
learn.fit_one_cycle(1)
learn.save("model")
