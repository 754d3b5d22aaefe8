from fastai.vision.all import *

class AddNoise(ItemTransform):
    order = 20

    def encodes(self, pair):
        return pair[0] + torch.randn_like(pair[0]) * 25 / 255, pair[1]


photographs = DataBlock(
    (ImageBlock, ImageBlock), get_items=get_image_files, splitter=RandomSplitter(0.1),
    item_tfms=RandomCrop(64), batch_tfms=AddNoise())
dls = photographs.dataloaders("scenes/images", bs=16)
learn = unet_learner(
    dls, resnet18, n_out=3, pretrained=False, loss_func=MSELossFlat(), metrics=rmse)
learn.fit_one_cycle(1)
learn.save("model")
