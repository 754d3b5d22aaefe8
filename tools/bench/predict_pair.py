#!/usr/bin/env python3
"""Predictions of libmillrace_predict against onnxruntime: one image a call, in turns in one process, on the CPU.

usage: predict_pair.py BUILD_FOLDER WORK_FOLDER [--networks resnet18,...] [--precision fp32,bf16] [--cores 1,2] [--rounds 20]
                       [--clock wall|processor]

Each network is trained for two steps and exported with `pipeline-export --unproven`, unless WORK_FOLDER has it. Ours begins with
8-bit pixels (cut out, normalise, compute, softmax); onnxruntime begins with the normalised tensor, in float32 also where ours
computes in bf16, with as many threads. A round is five predictions of ours, then five of theirs. A process for each row is bound
to its cores. Columns: the median and the least of all predictions in milliseconds, the median of the rounds' ratios (the least of
ours by the least of theirs), the ratio of the leasts, the largest difference of scores; then, from a new process, the time to open
and the first prediction. `--clock processor` counts the processor time of all threads instead, which other programs disturb
less; with two cores it includes waiting. Needs numpy, Pillow and onnxruntime.
"""
import argparse
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parents[2]
NETWORKS = "quickstart,squeezenet1_1,shufflenet_v2_x1_0,mobilenet_v2,efficientnet_b0,resnet18,resnet50,densenet121,convnext_tiny,vgg16"
RUNS = 5  # of each in a round
PRECISIONS = {"fp32": 1, "bf16": 2}
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("threads", ctypes.c_int32), ("workers", ctypes.c_int32), ("precision", ctypes.c_int32),
                ("device", ctypes.c_char_p), ("layers", ctypes.c_void_p), ("layer_count", ctypes.c_size_t)]


class Pixels(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("data", ctypes.c_void_p), ("width", ctypes.c_int32), ("height", ctypes.c_int32),
                ("stride", ctypes.c_ssize_t), ("format", ctypes.c_int32)]


class Output(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("kind", ctypes.c_int32), ("layer", ctypes.c_char_p), ("data", ctypes.c_void_p),
                ("bytes", ctypes.c_size_t), ("needed", ctypes.c_size_t), ("channels", ctypes.c_int32), ("height", ctypes.c_int32),
                ("width", ctypes.c_int32)]


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("text", ctypes.c_char * 1020)]


class Ours:
    """A model opened through the C interface."""

    def __init__(self, build, weights, precision, threads):
        self.library = ctypes.CDLL(f"{build}/lib/libmillrace_predict.so")
        self.error, self.model = Error(), ctypes.c_void_p()
        options = Options(ctypes.sizeof(Options), threads, 1, PRECISIONS[precision])
        self.check(self.library.millrace_open(os.fsencode(weights), ctypes.byref(options), ctypes.byref(self.model),
                                              ctypes.byref(self.error)))

    def check(self, status):
        if status != 0:
            sys.exit(self.error.text.decode())

    def prepare(self, image, classes):
        import numpy as np
        self.scores = np.zeros(classes, np.float32)
        self.pixels = Pixels(ctypes.sizeof(Pixels), image.ctypes.data, image.shape[1], image.shape[0], 0, 2)
        self.output = Output(ctypes.sizeof(Output), 1, None, self.scores.ctypes.data, self.scores.nbytes)

    def run(self):
        self.check(self.library.millrace_predict_pixels(self.model, ctypes.byref(self.pixels), ctypes.byref(self.output), 1,
                                                        ctypes.byref(self.error)))


def make(build, work, network):
    sys.path.insert(0, str(HERE / "tests/export"))
    import networks
    if not (work / "classes").exists():
        networks.draw(str(work))
    programs = pathlib.Path(build).resolve() / "bin"
    changes = [word for each in networks.TRAIN for word in ("--set", each)]
    for command in ([programs / "pipeline-run", networks.pipeline(network, str(work)), "--quiet", "--devices", "cpu", *changes],
                    [programs / "pipeline-export", f"runs/{network}/latest", "--onnx", f"{network}.onnx", "--unproven"]):
        done = subprocess.run(command, cwd=work, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)


def milliseconds(call, clock=time.perf_counter):
    began = clock()
    call()
    return 1000 * (clock() - began)


def picture(recipe):
    """Drawn pixels at the size before the middle is cut out, and the network's input made of them."""
    import numpy as np
    side, input = recipe["stages"]["decode_image"]["short_side"], recipe["input"]
    coarse = np.random.default_rng(1).integers(0, 255, (side // 8 + 1, side // 8 + 1, 3), dtype=np.uint8)
    image = np.ascontiguousarray(np.kron(coarse, np.ones((8, 8, 1), np.uint8))[:side, :side])
    top, left = (side - input["height"]) // 2, (side - input["width"]) // 2
    middle = image[top:top + input["height"], left:left + input["width"]].astype(np.float32) / 255
    tensor = (middle - np.float32(input["mean"])) / np.float32(input["deviation"])
    return image, np.ascontiguousarray(tensor.transpose(2, 0, 1)[None]).astype(np.float32)


def measure(build, work, network, precision, cores, rounds, clock):
    """In a process of its own. Prints a line of JSON."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    weights = work / "runs" / network / "latest"
    opened = None

    def open_model():
        nonlocal opened
        opened = Ours(build, weights, precision, cores)
    found = {"open": milliseconds(open_model)}
    import numpy as np
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = cores, 1
    session = onnxruntime.InferenceSession(str(work / f"{network}.onnx"), options, providers=["CPUExecutionProvider"])
    metadata = session.get_modelmeta().custom_metadata_map
    image, tensor = picture(tomllib.loads(metadata["millrace.usage"]))
    feed = {session.get_inputs()[0].name: tensor}
    opened.prepare(image, len(json.loads(metadata["millrace.classes"])))
    found["first"] = milliseconds(opened.run)
    logits = session.run(None, feed)[0][0].astype(np.float64)
    expected = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    found["difference"] = float(np.abs(expected - opened.scores).max())
    found["ours"], found["theirs"] = [], []
    for _ in range(rounds):
        for name, call in (("ours", opened.run), ("theirs", lambda: session.run(None, feed))):
            found[name].append([milliseconds(call, CLOCKS[clock]) for _ in range(RUNS)])
    print(json.dumps(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--networks", default=NETWORKS)
    parser.add_argument("--precision", default="fp32,bf16")
    parser.add_argument("--cores", default="1,2")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.work = options.work.resolve()
    if options.one:
        return measure(options.build, options.work, options.one[0], options.one[1], int(options.one[2]), options.rounds,
                       options.clock)
    options.work.mkdir(parents=True, exist_ok=True)
    print("| network | cores | precision | Millrace, ms | onnxruntime, ms | ratio | of leasts | difference | open, ms | first, ms |")
    print("|---|---|---|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    for network in options.networks.split(","):
        if not (options.work / f"{network}.onnx").exists():
            make(options.build, options.work, network)
        for cores in options.cores.split(","):
            for precision in options.precision.split(","):
                command = [sys.executable, __file__, options.build, options.work, "--one", network, precision, cores, "--clock",
                           options.clock, "--rounds"]
                subprocess.run([*command, "0"], capture_output=True)  # so that every kernel has been checked
                done = subprocess.run([*command, str(options.rounds)], capture_output=True, text=True)
                if done.returncode != 0:
                    sys.exit(done.stderr)
                found = json.loads(done.stdout)
                ours, theirs = found["ours"], found["theirs"]
                least = [min(map(min, side)) for side in (ours, theirs)]
                cells = [f"{statistics.median(sum(side, [])):.2f} ({fewest:.2f})" for side, fewest in zip((ours, theirs), least)]
                ratio = statistics.median(min(a) / min(b) for a, b in zip(ours, theirs))
                print(f"| {network} | {cores} | {precision} | {cells[0]} | {cells[1]} | {ratio:.2f} | {least[0] / least[1]:.2f} | "
                      f"{found['difference']:.1e} | {found['open']:.0f} | {found['first']:.1f} |", flush=True)


if __name__ == "__main__":
    main()
