#!/usr/bin/env python3
"""Takes weights from torchvision's models, gives them back, and compares outputs on random images.

usage: torchvision_weights.py BIN_FOLDER WORK_FOLDER [NETWORK...]      (convnext_tiny, resnet18)

By hand: needs numpy, Pillow, torch, torchvision, safetensors, onnx and onnxruntime. A model with random weights is saved by PyTorch;
a run begins with them, changes nothing (its rate is all but 0), and writes its own file; torchvision loads this with strict=True.
Exit code 1: names, shapes or outputs differ.
"""
import os, subprocess, sys
import numpy as np
import onnxruntime
import safetensors.torch
import torch
import torchvision
import networks


def call(folder, *words):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.stderr}")


def main():
    programs, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    os.makedirs(folder, exist_ok=True)
    networks.draw(folder)
    bad = 0
    for name in sys.argv[3:] or ["convnext_tiny", "resnet18"]:
        torch.manual_seed(5)
        theirs = getattr(torchvision.models, name)(num_classes=3)
        for key, value in theirs.state_dict().items():
            if value.is_floating_point() and "running" not in key:
                torch.nn.init.normal_(value, mean=0 if value.dim() > 1 else 0.3, std=0.02 if value.dim() > 1 else 0.2)
        theirs.eval()
        torch.save(theirs.state_dict(), os.path.join(folder, name + ".pth"))
        pipeline = networks.pipeline(name, folder)
        sets = ["run.epochs=1", "run.folder=runs", "run.precision=fp32", "run.best=", "train.batch.size=4", "validate.batch.size=8",
                "stop.max_steps=1", "train.optimizer.learning_rate=1e-30", f"network.weights={folder}/{name}.pth", "network.new=[]",
                "run.name=" + name]
        call(folder, os.path.join(programs, "pipeline-run"), pipeline, "--quiet", *(w for s in sets for w in ("--set", s)))
        call(folder, os.path.join(programs, "pipeline-export"), f"runs/{name}/latest", "--onnx", name + ".onnx", "--python", sys.executable)
        ours = getattr(torchvision.models, name)(num_classes=3)
        ours.load_state_dict(safetensors.torch.load_file(os.path.join(folder, "runs", name, "latest", "weights.safetensors")), strict=True)
        ours.eval()
        x = torch.randn(2, 3, 224, 224)
        with torch.no_grad():
            loaded = ours(x).numpy()
        computed = onnxruntime.InferenceSession(os.path.join(folder, name + ".onnx")).run(None, {"input": x.numpy()})[0]
        difference = np.abs(computed - loaded).max()
        is_same = all(torch.allclose(a, b, rtol=0, atol=1e-25) for (key, a), b in zip(theirs.state_dict().items(), ours.state_dict().values())
                      if "running" not in key and "num_batches" not in key)
        is_equal = is_same and difference <= 1e-4 * (1 + np.abs(loaded).max())
        print(f"{name}: loads with strict=True, parameters {'equal' if is_same else 'DIFFER'}, outputs differ by {difference:.2g}", flush=True)
        bad += not is_equal
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) > 2 else __doc__)
