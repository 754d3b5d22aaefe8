#!/usr/bin/env python3
"""Checks that an ONNX file computes what Millrace computed.

usage: verify.py MODEL.onnx [PROOF_FOLDER]     compares the samples of the folder (default: where this script is)
needs numpy and one of onnxruntime, openvino, opencv-python. Exit code 0: equal within the bound, 1: not, 3: no runtime.
"""
import hashlib, json, os, sys
try:
    import numpy as np
except ImportError:
    print("verify.py: needs numpy", file=sys.stderr)
    sys.exit(3)


def open_model(path, image):
    """A function from a batch to the model's output, and the runtime's name."""
    try:
        import onnxruntime
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        return lambda x: session.run(None, {name: x})[0], "onnxruntime " + onnxruntime.__version__
    except ImportError:
        pass
    try:
        import openvino
        core = openvino.Core()
        model = core.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        return lambda x: model(x)[0], "OpenVINO " + openvino.__version__
    except ImportError:
        pass
    try:
        import cv2
        net = cv2.dnn.readNetFromONNX(path)
        def run(x):
            net.setInput(x)
            return net.forward()
        if not image:  # OpenCV takes no uint8 input
            return run, "OpenCV " + cv2.__version__
    except ImportError:
        pass
    print("verify.py: needs onnxruntime, openvino or opencv-python", file=sys.stderr)
    sys.exit(3)


def frames(stream):
    """Labels, images and outputs as pipeline-export sends them (send_samples.h)."""
    head = json.loads(stream.readline() or b"{}")
    if not head:
        raise EOFError("no sample arrived")
    image, output = head["image"], head["output"]
    def read(kind, shape):
        count = int(np.prod(shape)) * np.dtype(kind).itemsize
        data = stream.read(count)
        if len(data) != count:
            raise EOFError("the samples ended early")
        return np.frombuffer(data, kind).reshape(shape)
    while True:
        n = int(read("<u4", [1])[0])
        if n == 0:
            return
        yield read("<i4", [n]), read("u1", [n] + image), read("<f4", [n] + output)


def main():
    path = sys.argv[1]
    streamed = "--stream" in sys.argv
    folder = os.path.dirname(os.path.abspath(__file__)) if len(sys.argv) < 3 or streamed else sys.argv[2]
    facts = json.loads(sys.argv[3]) if streamed else json.load(open(os.path.join(folder, "proof.json")))
    takes_images, results = facts["takes_images"], facts["results"]
    if not streamed and hashlib.sha256(open(path, "rb").read()).hexdigest() != facts["sha256"]:
        print("verify.py: the proof is of another file: the SHA-256 differs", file=sys.stderr)
        return 1
    run, runtime = open_model(path, takes_images)
    # At export, the same network without its results too: labels and grey levels hide small differences.
    plain = open_model(facts["plain"], takes_images)[0] if streamed and facts.get("plain") else None
    mean, deviation = np.float32(facts["mean"]), np.float32(facts["deviation"])
    source = frames(sys.stdin.buffer) if streamed else [
        [np.load(os.path.join(folder, name + ".npy")) for name in ("labels", "images", "expected")]]
    # MaxUnpool puts a value where its window's largest one was. If two are nearly equal, rounding decides the place, so with this
    # operator one value in 100 may differ.
    allowed = 1e-2 if facts["unpools"] else 0.0
    total = differing = right = right_here = labelled = values = outside = clearly_other = places = 0
    largest, worst, finite, kept, squares, spread = 0.0, 0.0, True, None, 0.0, 0.0
    drift, places_here = 0.0, 0
    for labels, images, expected in source:
        x = images if takes_images else np.ascontiguousarray(
            ((np.float32(images) / 255 - mean) / deviation).transpose(0, 3, 1, 2))
        got = np.asarray(run(x))
        total += len(images)
        if kept is None or len(kept[0]) < 12:
            new = (labels, images, expected)
            kept = [np.concatenate((old, more))[:12] for old, more in zip(kept, new)] if kept else [more[:12] for more in new]
        scale = facts["bound"] * (1 + np.abs(expected).max())
        wanted, limit = expected, scale
        if facts.get("applies") == "softmax":
            wanted = np.exp(expected - expected.max(1, keepdims=True))
            wanted /= wanted.sum(1, keepdims=True)
        elif facts.get("applies") == "sigmoid":
            wanted = 1 / (1 + np.exp(-np.float64(expected)))
        elif results == "restored":  # rounded grey levels: within the bound and half of a level
            factor = np.float32(facts["factor"])
            wanted = np.clip(expected.transpose(0, 2, 3, 1) * factor + np.float32(facts["summand"]), 0, 255)
            limit = scale * factor.max()
        ordered = expected.shape[1] > 1 and facts["output"] in ("classes", "map")
        compared = [(got, wanted, limit, 0.5 * (results == "restored"))] if results != "labels" else []
        if plain:
            compared.append((np.asarray(plain(x)), expected, scale, 0))
        for values_there, values_here, most, rounding in compared:
            if values_there.shape != values_here.shape:
                print("verify.py: shapes differ:", values_there.shape, values_here.shape, file=sys.stderr)
                return 1
            far = np.maximum(np.abs(values_there - values_here) - rounding, 0)
            largest, worst = max(largest, float(far.max())), max(worst, float(far.max() / most))
            finite &= bool(np.isfinite(values_there).all())
            values, outside = values + far.size, outside + int((far > most).sum())
        if "int8" in facts and compared:  # of the network's own output, if that is known
            squares += float(np.square(far, dtype=np.float64).sum())
            spread += float(np.square(values_here - values_here.mean(), dtype=np.float64).sum())
            by_channel = (np.float64(values_there) - values_here).sum((0, 2, 3) if far.ndim == 4 else 0)
            drift, places_here = drift + by_channel, places_here + far.size / by_channel.size
        if ordered:  # the same top class wherever ours leads by more than twice the bound
            two = np.partition(expected, -2, axis=1)
            clear = two[:, -1] - two[:, -2] > 2 * scale
            ours, theirs = expected.argmax(1), got if results == "labels" else got.argmax(1)
            differing += int((ours != theirs).sum())
            places, clearly_other = places + ours.size, clearly_other + int(((ours != theirs) & clear).sum())
            if facts["output"] == "classes":
                labelled += int((labels >= 0).sum())
                right += int((ours == labels).sum())
                right_here += int((theirs == labels).sum())
    if facts.get("free_size") and kept is not None:  # at another size: the shape that Millrace infers
        height, width = facts["free_size"]["image"]
        x = images[:1].repeat(-(-height // images.shape[1]), 1).repeat(-(-width // images.shape[2]), 2)[:, :height, :width]
        if not takes_images:
            x = np.ascontiguousarray(((np.float32(x) / 255 - mean) / deviation).transpose(0, 3, 1, 2))
        got = np.asarray(run(np.ascontiguousarray(x)))
        if list(got.shape[1:]) != facts["free_size"]["output"] or not np.isfinite(got).all():
            print("verify.py: another image size gives the shape", got.shape[1:], "instead of", facts["free_size"]["output"],
                  file=sys.stderr)
            finite = False
    report = {"runtime": runtime, "samples": total, "largest": largest, "share_of_bound": worst, "other_first_class": differing,
              "outside_bound": outside,
              "equal": total > 0 and finite and outside <= allowed * values and clearly_other <= allowed * places}
    if "int8" in facts:
        # Sums near the middle of two integers are rounded to either, in both directions: differences have a small mean. Another
        # first class for 1 %, and the accuracy that was asked for.
        if places_here:
            deviation = (spread / places_here / drift.size) ** 0.5 or 1.0
            report["spread"] = (squares / places_here / drift.size) ** 0.5 / deviation
            report["drift"] = float(np.square(drift / places_here).mean() ** 0.5) / deviation
            report["equal"] = report["equal"] and report["spread"] <= facts["spread"] and report["drift"] <= facts["drift"]
        report["equal"] = report["equal"] and differing <= 1e-2 * places
        if streamed and labelled and facts["int8"]["metric"] == "accuracy":
            report["equal"] = report["equal"] and (
                100 * (facts["int8"]["float32"] - right_here / labelled) <= facts["int8"]["max_drop"] + 1e-6)
    if labelled:
        report["accuracy"], report["accuracy_there"] = right / labelled, right_here / labelled
    if streamed and kept is not None:
        for name, values in zip(("labels", "images", "expected"), kept):
            np.save(os.path.join(sys.argv[4], name + ".npy"), values)
    print(json.dumps(report))
    return 0 if report["equal"] else 1


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        sys.exit(main())
    except EOFError as error:
        sys.exit("verify.py: %s" % error)
