from fastai.vision.all import *

columns = ["round", "red"]
dls = ImageDataLoaders.from_csv(
    ".", "labels.csv", label_col=columns, y_block=MultiCategoryBlock(encoded=True, vocab=columns),
    valid_pct=0.1, item_tfms=Resize(224), bs=16)
learn = vision_learner(dls, resnet18, pretrained=False, metrics=accuracy_multi)
learn.fit_one_cycle(1)
learn.save("model")
