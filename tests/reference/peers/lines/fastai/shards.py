import webdataset as wds
from fastai.vision.all import *
from torchvision.models import ResNet18_Weights


def load(shards, length, shuffle=0):
    data = wds.WebDataset(shards, shardshuffle=shuffle).shuffle(shuffle).decode("pil")
    data = data.to_tuple("png", "cls").map_tuple(ResNet18_Weights.DEFAULT.transforms(), int)
    return wds.WebLoader(data, batch_size=16).with_length(length)


dls = DataLoaders(load("shards/train/{000..001}.tar", 2, 1000), load("shards/val/000.tar", 1))
learn = Learner(dls, resnet18(num_classes=2), CrossEntropyLossFlat(), metrics=accuracy)
learn.fit_one_cycle(1)
learn.save("model")
