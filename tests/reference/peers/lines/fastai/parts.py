from fastai.vision.all import *

dls = ImageDataLoaders.from_folder("parts", valid="val", item_tfms=Resize(224), bs=16)
learn = vision_learner(dls, resnet18, pretrained=False, metrics=accuracy)
learn.fit_one_cycle(1)
learn.save("model")
