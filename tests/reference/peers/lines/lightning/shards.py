import lightning as L
import torch
import torch.nn.functional as F
import webdataset as wds
from torchvision.models import ResNet18_Weights, resnet18


class Classifier(L.LightningModule):
    def __init__(self, classes):
        super().__init__()
        self.model = resnet18(num_classes=classes)

    def training_step(self, batch, _):
        images, labels = batch
        return F.cross_entropy(self.model(images), labels)

    def validation_step(self, batch, _):
        images, labels = batch
        logits = self.model(images)
        self.log("val_loss", F.cross_entropy(logits, labels))
        self.log("val_accuracy", (logits.argmax(1) == labels).float().mean(), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def load(shards, shuffle=0):
    data = wds.WebDataset(shards, shardshuffle=shuffle).shuffle(shuffle).decode("pil")
    data = data.to_tuple("png", "cls").map_tuple(ResNet18_Weights.DEFAULT.transforms(), int)
    return wds.WebLoader(data, batch_size=16)


trainer = L.Trainer(max_epochs=1)
trainer.fit(Classifier(2), load("shards/train/{000..001}.tar", 1000), load("shards/val/000.tar"))
