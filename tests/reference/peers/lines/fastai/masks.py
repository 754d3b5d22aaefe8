from fastai.vision.all import *

dls = SegmentationDataLoaders.from_label_func(
    "scenes", get_image_files("scenes/images"), lambda x: Path("scenes/masks", x.name),
    codes=["ground", "disc", "square"], valid_pct=0.1, item_tfms=Resize(96), bs=4)
learn = unet_learner(dls, resnet18, pretrained=False, metrics=DiceMulti())
learn.fit_one_cycle(1)
learn.save("model")
