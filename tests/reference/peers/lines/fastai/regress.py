from fastai.vision.all import *

dls = ImageDataLoaders.from_csv(
    ".", "numbers.csv", label_col=["x", "y"], y_block=RegressionBlock(2), valid_pct=0.1,
    item_tfms=Resize(224), bs=16)
learn = vision_learner(dls, resnet18, pretrained=False, metrics=mae)
learn.fit_one_cycle(1)
learn.save("model")
