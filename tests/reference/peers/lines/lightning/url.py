import lightning as L
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, random_split
from torchvision.datasets import ImageFolder
from torchvision.datasets.utils import download_and_extract_archive
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


download_and_extract_archive("http://localhost:8765/photos.tar", "fetched")
data = ImageFolder("fetched/photos", ResNet18_Weights.DEFAULT.transforms())
train, val = random_split(data, [0.9, 0.1])
trainer = L.Trainer(max_epochs=1)
trainer.fit(Classifier(len(data.classes)), DataLoader(train, 16, shuffle=True), DataLoader(val, 16))
