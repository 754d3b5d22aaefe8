from fastai.vision.all import *

dls = ImageDataLoaders.from_folder("photos", valid_pct=0.1, item_tfms=Resize(224), bs=16)
learn = vision_learner(dls, resnet18, pretrained=False, metrics=accuracy)
state = torch.load("other.pth", weights_only=False)["model"]
learn.model.load_state_dict({k: v for k, v in state.items() if k.startswith("0.")}, strict=False)
learn.fine_tune(1)
learn.save("model")
