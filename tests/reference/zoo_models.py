"""The networks of pipelines/networks as PyTorch has them: torchvision's, and definitions of those that torchvision lacks.

A Twin pairs one of ours with its model. Names of parameters are the same in both.
"""
import dataclasses
import functools
import pathlib
import tomllib
from collections import OrderedDict

import torch
import torchvision
from torch import nn

FOLDER = pathlib.Path(__file__).parents[2] / "pipelines" / "networks"
CLASSES = 4  # in comparisons that train


@dataclasses.dataclass
class Twin:
    network: str                                    # in pipelines/networks
    make: object                                    # function of the number of classes: the model
    side: int = 224                                 # side of the images whose logits are compared
    step_side: int = 96                             # side of the images in a training step; `side` for fixed-size networks
    task: str = "classify"                          # or "segment", "restore": what its targets are
    scale: int = 1                                  # scale of a target's height and width
    variables: dict = dataclasses.field(default_factory=dict)
    auxiliary: dict = dataclasses.field(default_factory=dict)  # our output's name -> torchvision's name of it, weight of its loss
    bias_rate: float = 1                            # what biases learn at, by the rate
    torchvisions: bool = True

    def __post_init__(self):
        document = read(self.network)
        self.input, self.defaults = document["input"], document["defaults"]
        if "height" not in self.defaults:
            self.step_side = self.side

    @property
    def channels(self):
        channels = self.input["channels"]
        return self.variables["channels"] if isinstance(channels, str) else channels

    @property
    def title(self):
        return ", ".join([self.network, *(f"{key} {value}" for key, value in self.variables.items()), *["auxiliary"] * bool(self.auxiliary)])

    def settings(self, size):
        """The network's variables in a pipeline, with nothing drawn by chance. `size`: height and width of its input."""
        settings = dict(self.variables) | (dict(zip(("height", "width"), size)) if "height" in self.defaults else {})
        if self.task != "restore":
            settings["classes"] = CLASSES
        for name in self.defaults:
            if name.startswith("dropout") or name == "stochastic_depth":
                settings[name] = 0
        if self.auxiliary:
            settings["auxiliary"] = True
        return settings


def read(network):
    """A network's file, over those that it extends. Both ways of writing `defaults` are one table."""
    document = tomllib.loads((FOLDER / f"{network}.toml").read_text())
    if "extends" in document:
        base = read(document["extends"].removesuffix(".toml"))
        document["defaults"] = base["defaults"] | document.get("defaults", {})
        document = base | document
    return document


def without_chance(model):
    for module in model.modules():
        if isinstance(module, (nn.Dropout, torchvision.ops.StochasticDepth)):
            module.p = 0.0
    return model


def published(name, classes=1000, **options):
    return torchvision.models.get_model(name, weights=None, num_classes=classes, **options)


def segmenting(name, classes=21, aux=False):
    return torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=classes, aux_loss=aux)


def inception(name, aux, classes=1000):
    return published(name, classes, aux_logits=aux, transform_input=False, init_weights=True)


def named(**modules):
    return nn.Sequential(OrderedDict((name.strip("_"), module) for name, module in modules.items()))


class UNet(nn.Module):
    def __init__(self, classes, up, filters=32, levels=3):
        super().__init__()
        self.levels = levels
        for level in range(1, levels + 1):
            narrow = 2 ** (level - 1) * filters
            setattr(self, f"down{level}", self.pair(narrow // 2 if level > 1 else 3, narrow))
        self.bottom = self.pair(2 ** (levels - 1) * filters, 2**levels * filters)
        for level in range(1, levels + 1):
            wide, narrow = 2**level * filters, 2 ** (level - 1) * filters
            setattr(self, f"grow{level}", self.grow(wide, narrow, up))
            setattr(self, f"up{level}", self.pair(wide, narrow))
        self.classifier = nn.Conv2d(filters, classes, 1)

    @staticmethod
    def pair(width, out):
        return named(conv1=nn.Conv2d(width, out, 3, padding=1, bias=False), bn1=nn.BatchNorm2d(out), relu1=nn.ReLU(),
                     conv2=nn.Conv2d(out, out, 3, padding=1, bias=False), bn2=nn.BatchNorm2d(out), relu2=nn.ReLU())

    @staticmethod
    def grow(width, out, up):
        if up == "transposed":
            return named(conv=nn.ConvTranspose2d(width, out, 2, stride=2))
        return named(conv=nn.Conv2d(width, out, 1), larger=nn.Upsample(scale_factor=2, mode=up))

    def forward(self, x):
        down = []
        for level in range(1, self.levels + 1):
            down.append(getattr(self, f"down{level}")(x))
            x = nn.functional.max_pool2d(down[-1], kernel_size=2)
        x = self.bottom(x)
        for level in range(self.levels, 0, -1):
            x = getattr(self, f"up{level}")(torch.cat([down[level - 1], getattr(self, f"grow{level}")(x)], 1))
        return self.classifier(x)


def pool_and_places(x):
    return nn.functional.max_pool2d(x, 2, return_indices=True)


class SegNet(nn.Module):
    """The encoder is torchvision's vgg16_bn."""

    def __init__(self, classes):
        super().__init__()
        self.features = torchvision.models.vgg16_bn(weights=None).features
        widths = {5: [512, 512, 512, 512], 4: [512, 512, 512, 256], 3: [256, 256, 256, 128], 2: [128, 128, 64], 1: [64, 64]}
        for level, chain in widths.items():
            stages = [self.decode(*pair) for pair in zip(chain, chain[1:])]
            if level == 1:
                stages.append(named(conv=nn.Conv2d(64, classes, 3, padding=1)))
            setattr(self, f"decoder{level}", nn.Sequential(*stages))

    @staticmethod
    def decode(width, out):
        return named(conv=nn.Conv2d(width, out, 3, padding=1), bn=nn.BatchNorm2d(out), relu=nn.ReLU())

    def forward(self, x):
        places = []
        for layer in self.features:
            if isinstance(layer, nn.MaxPool2d):
                x, place = pool_and_places(x)
                places.append(place)
            else:
                x = layer(x)
        for level in (5, 4, 3, 2, 1):
            x = getattr(self, f"decoder{level}")(nn.functional.max_unpool2d(x, places.pop(), 2))
        return x


class SegNetBasic(nn.Module):
    def __init__(self, classes, filters=64):
        super().__init__()
        for level in (1, 2, 3, 4):
            setattr(self, f"encoder{level}", self.convolve(3 if level == 1 else filters, filters))
            setattr(self, f"decoder{level}", self.convolve(filters, filters))
        self.classifier = nn.Conv2d(filters, classes, 1)

    @staticmethod
    def convolve(width, out):
        return named(conv=nn.Conv2d(width, out, 7, padding=3, bias=False), bn=nn.BatchNorm2d(out))

    def forward(self, x):
        places = []
        for level in (1, 2, 3, 4):
            x, place = pool_and_places(nn.functional.relu(getattr(self, f"encoder{level}")(x)))
            places.append(place)
        for level in (4, 3, 2, 1):
            x = getattr(self, f"decoder{level}")(nn.functional.max_unpool2d(x, places.pop(), 2))
        return self.classifier(x)


class DnCnn(nn.Module):
    def __init__(self, channels, depth, filters=64):
        super().__init__()
        self.first = nn.Conv2d(channels, filters, 3, padding=1)
        self.middle = nn.Sequential(*(named(conv=nn.Conv2d(filters, filters, 3, padding=1, bias=False), bn=nn.BatchNorm2d(filters),
                                            relu=nn.ReLU()) for _ in range(depth - 2)))
        self.last = nn.Conv2d(filters, channels, 3, padding=1)

    def forward(self, x):
        return x - self.last(self.middle(nn.functional.relu(self.first(x))))


def espcn(channels, factor):
    return named(conv1=nn.Conv2d(channels, 64, 5, padding=2), tanh1=nn.Tanh(), conv2=nn.Conv2d(64, 32, 3, padding=1), tanh2=nn.Tanh(),
                 conv3=nn.Conv2d(32, channels * factor**2, 3, padding=1), shuffle=nn.PixelShuffle(factor))


def resnet18_small(classes):
    """As for CIFAR-10: a stem of 3x3, and no pooling after it."""
    model = published("resnet18", classes)
    model.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model


def lenet5(classes):
    return named(conv1=nn.Conv2d(1, 6, 5, padding=2), tanh1=nn.Tanh(), pool1=nn.AvgPool2d(2), conv2=nn.Conv2d(6, 16, 5), tanh2=nn.Tanh(),
                 pool2=nn.AvgPool2d(2), conv3=nn.Conv2d(16, 120, 5), tanh3=nn.Tanh(), flat=nn.Flatten(), fc1=nn.Linear(120, 84),
                 tanh4=nn.Tanh(), fc2=nn.Linear(84, classes))


def alexnet_caffe(classes):
    return named(conv1=nn.Conv2d(3, 96, 11, stride=4), relu1=nn.ReLU(), norm1=nn.LocalResponseNorm(5), pool1=nn.MaxPool2d(3, 2),
                 conv2=nn.Conv2d(96, 256, 5, padding=2, groups=2), relu2=nn.ReLU(), norm2=nn.LocalResponseNorm(5), pool2=nn.MaxPool2d(3, 2),
                 conv3=nn.Conv2d(256, 384, 3, padding=1), relu3=nn.ReLU(), conv4=nn.Conv2d(384, 384, 3, padding=1, groups=2), relu4=nn.ReLU(),
                 conv5=nn.Conv2d(384, 256, 3, padding=1, groups=2), relu5=nn.ReLU(), pool5=nn.MaxPool2d(3, 2), flat=nn.Flatten(),
                 fc6=nn.Linear(9216, 4096), relu6=nn.ReLU(), fc7=nn.Linear(4096, 4096), relu7=nn.ReLU(), fc8=nn.Linear(4096, classes))


PLAIN = """alexnet vgg16 vgg16_bn vgg19 vgg19_bn squeezenet1_1 resnet18 resnet34 resnet50 resnet101 resnet152 resnext50_32x4d
    resnext101_32x8d resnext101_64x4d wide_resnet50_2 densenet121 mobilenet_v2 mobilenet_v3_large mobilenet_v3_small efficientnet_b0
    shufflenet_v2_x1_0 convnext_tiny""".split()
SEGMENTING = ["fcn_resnet50", "deeplabv3_resnet50"]
GOOGLENET_HEADS = {"aux1.fc2": ("aux_logits1", 0.3), "aux2.fc2": ("aux_logits2", 0.3)}


def own(network, make, **more):
    more = dict(side=64, step_side=64, torchvisions=False) | more
    return Twin(network, make, **more)


TWINS = [
    *(Twin(name, functools.partial(published, name)) for name in PLAIN),
    Twin("googlenet", functools.partial(inception, "googlenet", False)),
    Twin("googlenet", functools.partial(inception, "googlenet", True), auxiliary=GOOGLENET_HEADS),
    Twin("inception_v3", functools.partial(inception, "inception_v3", False), side=299, step_side=139),
    Twin("inception_v3", functools.partial(inception, "inception_v3", True), side=299, step_side=299,
         auxiliary={"AuxLogits.fc": ("aux_logits", 0.4)}),
    *(Twin(name, functools.partial(segmenting, name), side=96, step_side=96, task="segment") for name in SEGMENTING),
    *(Twin(name, functools.partial(segmenting, name, aux=True), side=96, step_side=96, task="segment", auxiliary={"aux": ("aux", 0.5)})
      for name in SEGMENTING),
    own("resnet18", resnet18_small, side=32, step_side=32, variables=dict(stem="small")),
    own("lenet5", lenet5, side=28),
    own("alexnet_caffe", alexnet_caffe, side=227, bias_rate=2),
    own("unet", functools.partial(UNet, up="nearest"), task="segment"),
    own("unet", functools.partial(UNet, up="bilinear"), task="segment", variables=dict(up="bilinear")),
    own("unet", functools.partial(UNet, up="nearest", levels=4), task="segment", variables=dict(levels=4)),
    own("unet", functools.partial(UNet, up="transposed"), task="segment", variables=dict(up="transposed")),
    own("segnet", SegNet, task="segment"),
    own("segnet_basic", SegNetBasic, task="segment"),
    own("dncnn", lambda _: DnCnn(3, 20), side=40, step_side=40, task="restore", variables=dict(channels=3, depth=20)),
    own("espcn", lambda _: espcn(3, 3), side=32, step_side=32, task="restore", scale=3, variables=dict(channels=3)),
]
