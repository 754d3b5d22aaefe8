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


class Regression(L.LightningModule):
    def __init__(self, outputs):
        super().__init__()
        self.model = resnet18(num_classes=outputs)

    def training_step(self, batch, _):
        images, numbers = batch
        return F.mse_loss(self.model(images), numbers)

    def validation_step(self, batch, _):
        images, numbers = batch
        outputs = self.model(images)
        self.log("val_loss", F.mse_loss(outputs, numbers))
        self.log("val_error", F.l1_loss(outputs, numbers), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


train, val = random_split(Photographs("numbers.csv", ["x", "y"]), [0.9, 0.1])
trainer = L.Trainer(max_epochs=1)
trainer.fit(Regression(2), DataLoader(train, 16, shuffle=True), DataLoader(val, 16))
