from glob import glob

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split
from torchvision.io import decode_image
from torchvision.transforms import v2


class Photographs(Dataset):
    def __init__(self, files):
        self.files = files
        self.transform = v2.Compose([v2.RandomCrop(64), v2.ToDtype(torch.float32, scale=True)])

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        return self.transform(decode_image(self.files[i], mode="RGB"))


class Restorer(L.LightningModule):
    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(3, 64, 3, padding=1), nn.ReLU()]
        for _ in range(15):
            layers += [nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
        self.model = nn.Sequential(*layers, nn.Conv2d(64, 3, 3, padding=1))

    def training_step(self, clean, _):
        noisy = clean + torch.randn_like(clean) * 25 / 255
        return F.mse_loss(noisy - self.model(noisy), clean)

    def validation_step(self, clean, _):
        loss = self.training_step(clean, _)
        self.log("val_psnr", -10 * loss.log10(), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


train, val = random_split(Photographs(sorted(glob("scenes/images/*"))), [0.9, 0.1])
trainer = L.Trainer(max_epochs=1)
trainer.fit(Restorer(), DataLoader(train, 16, shuffle=True), DataLoader(val, 16))
