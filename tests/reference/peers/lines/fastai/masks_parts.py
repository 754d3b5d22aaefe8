from fastai.vision.all import *

scenes = DataBlock(
    (ImageBlock, MaskBlock(["ground", "disc", "square"])),
    get_items=lambda path: L(Path(path).glob("*/images/*")),
    splitter=GrandparentSplitter(valid_name="val"),
    get_y=lambda x: x.parent.parent / "labels" / x.name,
    item_tfms=Resize(96))
dls = scenes.dataloaders("camvid", bs=4)
learn = unet_learner(dls, resnet18, pretrained=False, metrics=DiceMulti())
learn.fit_one_cycle(1)
learn.save("model")
