from glob import glob

import lightning as L
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, random_split
from torchmetrics import JaccardIndex
from torchvision import tv_tensors
from torchvision.io import decode_image
from torchvision.models.segmentation import deeplabv3_mobilenet_v3_large
from torchvision.transforms import v2


class Scenes(Dataset):
    def __init__(self, images):
        self.images = images
        self.transform = v2.Compose([v2.Resize((256, 256)), v2.ToDtype(torch.float32, scale=True)])

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image = tv_tensors.Image(decode_image(self.images[i], mode="RGB"))
        mask = tv_tensors.Mask(decode_image(self.images[i].replace(".png", "_mask.png"))[0])
        image, mask = self.transform(image, mask)
        return image, mask.long()


class Segmenter(L.LightningModule):
    def __init__(self, classes):
        super().__init__()
        self.model = deeplabv3_mobilenet_v3_large(weights_backbone=None, num_classes=classes)
        self.iou = JaccardIndex("multiclass", num_classes=classes)

    def training_step(self, batch, _):
        images, masks = batch
        return F.cross_entropy(self.model(images)["out"], masks)

    def validation_step(self, batch, _):
        images, masks = batch
        logits = self.model(images)["out"]
        self.iou(logits, masks)
        self.log("val_loss", F.cross_entropy(logits, masks))
        self.log("val_iou", self.iou, prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


images = [x for x in sorted(glob("beside/*")) if not x.endswith("_mask.png")]
train, val = random_split(Scenes(images), [0.9, 0.1])
trainer = L.Trainer(max_epochs=1)
trainer.fit(Segmenter(3), DataLoader(train, 4, shuffle=True, drop_last=True), DataLoader(val, 4))
