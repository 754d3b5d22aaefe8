import lightning as L
import torch
import torch.nn.functional as F
import pandas as pd
from torch.utils.data import DataLoader, Dataset, random_split
from torchvision.io import decode_image
from torchvision.models import ResNet18_Weights, resnet18


class Photographs(Dataset):
    def __init__(self, path, columns):
        self.rows, self.columns = pd.read_csv(path), columns
        self.transform = ResNet18_Weights.DEFAULT.transforms()

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows.iloc[i]
        image = decode_image(row["file_name"], mode="RGB")
        return self.transform(image), torch.tensor(row[self.columns].tolist(), dtype=torch.float32)


class Labels(L.LightningModule):
    def __init__(self, outputs):
        super().__init__()
        self.model = resnet18(num_classes=outputs)

    def training_step(self, batch, _):
        images, labels = batch
        return F.binary_cross_entropy_with_logits(self.model(images), labels)

    def validation_step(self, batch, _):
        images, labels = batch
        outputs = self.model(images)
        self.log("val_loss", F.binary_cross_entropy_with_logits(outputs, labels))
        self.log("val_accuracy", ((outputs > 0) == labels).float().mean(), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


train, val = random_split(Photographs("labels.csv", ["round", "red"]), [0.9, 0.1])
trainer = L.Trainer(max_epochs=1)
trainer.fit(Labels(2), DataLoader(train, 16, shuffle=True), DataLoader(val, 16))
