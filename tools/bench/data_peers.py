#!/usr/bin/env python3
"""Images per second of other loaders over one folder of JPEG files, for data_table.sh.

    data_peers.py {dataloader|dali} FOLDER {flip|crop224} THREADS SECONDS

FOLDER holds class folders. `flip`: decode whole images (all of one size), flip half of them, make
uint8 batches of 64. `crop224`: random resized crop to 224 (area 8 to 100 %, aspect 3/4 to 4/3,
bilinear with antialiasing as each library has it), flip, batches of 64. Runs one epoch or SECONDS to
warm up, then counts for SECONDS; prints one number. `dataloader` wants torch, torchvision and Pillow,
`dali` nvidia-dali.
"""

import pathlib
import sys
import time

BATCH = 64


def files_of(folder):
    files, labels = [], []
    for label, name in enumerate(sorted(p for p in pathlib.Path(folder).iterdir() if p.is_dir())):
        for file in sorted(name.rglob("*.jpg")):
            files.append(str(file))
            labels.append(label)
    return files, labels


class Files:
    """A map-style dataset, as most training scripts have one."""

    def __init__(self, folder, mode):
        import torchvision.transforms as t
        self.files, self.labels = files_of(folder)
        steps = [t.RandomResizedCrop(224)] if mode == "crop224" else []
        self.transform = t.Compose(steps + [t.RandomHorizontalFlip(), t.PILToTensor()])

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        from PIL import Image
        with Image.open(self.files[index]) as image:
            return self.transform(image.convert("RGB")), self.labels[index]


def dataloader(folder, mode, threads):
    import torch
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(Files(folder, mode), BATCH, shuffle=True, num_workers=threads, drop_last=True,
                                         persistent_workers=True, prefetch_factor=4)
    while True:
        for images, _ in loader:
            yield images.shape[0]


def dali(folder, mode, threads):
    from nvidia.dali import fn, pipeline_def, types
    files, labels = files_of(folder)

    @pipeline_def(batch_size=BATCH, num_threads=threads, device_id=None, prefetch_queue_depth=3)
    def pipeline():
        encoded, label = fn.readers.file(files=files, labels=labels, random_shuffle=True, initial_fill=1024)
        if mode == "crop224":
            images = fn.decoders.image_random_crop(encoded, random_area=[0.08, 1.0], random_aspect_ratio=[0.75, 1.3333])
            images = fn.resize(images, size=[224, 224], interp_type=types.INTERP_LINEAR, antialias=True)
        else:
            images = fn.decoders.image(encoded)
        return fn.flip(images, horizontal=fn.random.coin_flip()), label

    pipe = pipeline()
    pipe.build()
    while True:
        images, _ = pipe.run()
        yield len(images)


def main():
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    peer, folder, mode, threads, seconds = sys.argv[1:]
    run = {"dataloader": dataloader, "dali": dali}[peer](folder, mode, int(threads))
    total = len(files_of(folder)[0])
    start, done = time.monotonic(), 0
    while done < total and time.monotonic() - start < float(seconds):
        done += next(run)
    start, done = time.monotonic(), 0
    while time.monotonic() - start < float(seconds):
        done += next(run)
    print(f"{done / (time.monotonic() - start):.1f}", flush=True)
    import os
    os._exit(0)  # workers and prefetched batches need no cleanup


if __name__ == "__main__":
    main()
