"""Compares what the networks of the zoo compute with torchvision's, from weights that torchvision saved.

    python3 -m venv ../venv && ../venv/bin/pip install numpy torch torchvision
    ../venv/bin/python tests/reference/zoo_logits.py build/release/bin/pipeline-run [NETWORK...]

torchvision initialises each network, and its running statistics become those of some random images. Its state dict is read from a
.pth file here. The logits of four other images in float32 may be at most three times as far from PyTorch's in float64 as PyTorch's
in float32 are. Prints a line for each network; exit code 1 when one is further away.
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
import torchvision

import zoo_names

# Of pixels in [0, 1]. torchvision's published weights of the Inceptions expect -1 ... 1; torchvision makes that of what it makes of
# all others (transform_input), the networks here at once.
IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
INCEPTION = ([0.5, 0.5, 0.5], [0.5, 0.5, 0.5])

PIPELINE = """
[run]
name = "logits"
folder = "{folder}/runs"
precision = "fp32"
[network]
use = "{name}"
weights = "{folder}/{name}.pth"
[predict]
flow = ["read", "decode_image", "batch", "forward", "write_features"]
[predict.read]
stage = "read_folder"
path = "{folder}/images"
labels = "none"
[predict.decode_image]
size = [{side}, {side}]
[predict.batch]
size = 4
[predict.write_features]
layer = "{last}"
file = "{folder}/{name}.npy"
"""


def with_statistics(model, side):
    """Batch norms as after some training; their factors and shifts not all alike."""
    generator = torch.Generator().manual_seed(2)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5, generator=generator)
            torch.nn.init.normal_(module.bias, 0, 0.2, generator=generator)
            module.momentum = None
    model.train()
    with torch.no_grad():
        model(torch.randn(8, 3, side, side, generator=generator))
    return model.eval()


def compare(name, program, folder):
    torch.manual_seed(1)
    side = 299 if name == "inception_v3" else 224
    is_inception = "aux_logits" in zoo_names.OPTIONS.get(name, {})
    options = dict(aux_logits=False, transform_input=False, init_weights=True) if is_inception else {}
    model = with_statistics(torchvision.models.get_model(name, weights=None, **options), side)
    torch.save(model.state_dict(), folder / f"{name}.pth")
    images = folder / "images"
    images.mkdir(exist_ok=True)
    generator = torch.Generator().manual_seed(3)
    pixels = torch.randint(0, 256, (4, 3, side, side), dtype=torch.uint8, generator=generator)
    for number, image in enumerate(pixels):
        torchvision.io.write_png(image, str(images / f"{number}.png"))
    network = subprocess.run([str(pathlib.Path(program).parent / "pipeline-inspect"), name], check=True, capture_output=True,
                             text=True).stdout.splitlines()
    last = network[-2].split()[1]
    file = folder / "logits.toml"
    file.write_text(PIPELINE.format(name=name, folder=folder, side=side, last=last))
    done = subprocess.run([program, str(file), "--quiet"], capture_output=True, text=True)
    if done.returncode != 0:
        return f"{name}: {done.stderr.strip()}", False
    found = numpy.load(folder / f"{name}.npy").astype(numpy.float64).reshape(4, -1)
    mean, deviation = (torch.tensor(values, dtype=torch.float64).view(3, 1, 1) for values in (INCEPTION if is_inception else IMAGENET))
    inputs = (pixels.double() / 255 - mean) / deviation
    with torch.no_grad():
        theirs = model(inputs.float()).double().numpy()
        truth = model.double()(inputs).numpy()
    norm = numpy.linalg.norm(truth)
    ours_off, theirs_off = numpy.linalg.norm(found - truth) / norm, numpy.linalg.norm(theirs - truth) / norm
    good = bool(ours_off <= 3 * theirs_off)
    return f"{name:20} ours {ours_off:.2e}  PyTorch {theirs_off:.2e}  ratio {ours_off / theirs_off:.2f}{'' if good else '  TOO FAR'}", good


def main(program, *names):
    all_good = True
    with tempfile.TemporaryDirectory() as folder:
        for name in names or zoo_names.NETWORKS:
            line, good = compare(name, program, pathlib.Path(folder))
            print(line, flush=True)
            all_good = all_good and good
    return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
