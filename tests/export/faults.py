#!/usr/bin/env python3
"""Plants faults in an exported file; its proof must refuse each.

usage: faults.py MODEL.onnx        needs numpy, onnx, and onnxruntime or openvino; MODEL.proof lies beside the file

Each fault is one that exporters have made: channels in another order, an attribute off by one, a parameter of another layer, a
truncated file. The proof's sum of the file is renewed, so that results alone decide. Exit code 1: a fault passed.
"""
import json, os, shutil, subprocess, sys, tempfile
import hashlib
import numpy as np
import onnx
from onnx import helper, numpy_helper


class Absent(Exception):
    """The model has no place for this fault."""


def node(model, op, last=False):
    found = [n for n in model.graph.node if n.op_type == op]
    if not found:
        raise Absent(op)
    return found[-1 if last else 0]


def attribute(of, name):
    for each in of.attribute:
        if each.name == name:
            return each
    raise Absent(name)


def change(model, name, to):
    """Replaces a constant by to(its values)."""
    for tensor in model.graph.initializer:
        if tensor.name == name:
            old = numpy_helper.to_array(tensor)
            new = np.ascontiguousarray(to(old.copy()), old.dtype)
            if new.shape == old.shape and np.array_equal(new, old):
                raise Absent("the values are the same afterwards")
            tensor.CopyFrom(numpy_helper.from_array(new, name))
            return
    raise Absent(name)


def weight(op, port=1, last=False):
    return lambda model, to: change(model, node(model, op, last).input[port], to)


def other_op(old, new, last=False, **attributes):
    def plant(model):
        n = node(model, old, last)
        n.op_type = new
        for key, value in attributes.items():
            n.attribute.append(helper.make_attribute(key, value))
    return plant


def shift(op, name, by, last=False, at=0):
    def plant(model):
        values = attribute(node(model, op, last), name).ints
        values[at] += by
        if name == "pads":
            values[at + len(values) // 2] -= by
    return plant


def epsilon(model):
    attribute(node(model, "BatchNormalization"), "epsilon").f = 1e-2


def swap_inputs(op, a, b):
    def plant(model):
        n = node(model, op)
        n.input[a], n.input[b] = n.input[b], n.input[a]
    return plant


def swapped_axes(model):
    attribute(node(model, "Transpose"), "perm").ints[:] = [0, 3, 2, 1]


def resized(model):
    """The image made smaller and larger again, as a preparation with another filter leaves it."""
    first = node(model, "Conv")
    sizes = [("smaller", 0.5, 1.0), ("larger", 2.0, 1.0)]
    value = first.input[0]
    nodes = []
    for name, factor, one in sizes:
        model.graph.initializer.append(numpy_helper.from_array(np.array([one, one, factor, factor], np.float32), name + "_by"))
        nodes.append(helper.make_node("Resize", [value, "", name + "_by"], [name], mode="linear"))
        value = name
    at = list(model.graph.node).index(first)
    for n in reversed(nodes):
        model.graph.node.insert(at, n)
    model.graph.node[at + len(nodes)].input[0] = value


def without(op, last=False):
    def plant(model):
        n = node(model, op, last)
        n.op_type = "Identity"
        del n.input[1:]
        del n.attribute[:]
    return plant


def coordinates(mode):
    def plant(model):
        a = attribute(node(model, "Resize"), "coordinate_transformation_mode")
        if a.s == mode:
            raise Absent(mode)
        a.s = mode
    return plant


def largest_negated(values):
    flat = values.reshape(-1)
    flat[np.abs(flat).argmax()] *= -1
    return values


def to_bfloat16(values):
    return (values.view(np.uint32) & 0xFFFF0000).view(np.float32)


def rounded(op, part, to, last=False):
    """Changes integers, scale or zero of the weights (port 1) or the bias (port 2) of a layer in int8."""
    port, part = (2, part[5:]) if part.startswith("bias.") else (1, part)
    return lambda model: change(model, node(model, op, last).input[port] + "/" + part, to)


def grid(last=False, scale=None, zero=None):
    """Changes the scale of an activation, or the zero point at which it becomes integers."""
    def plant(model):
        n = node(model, "QuantizeLinear", last)
        if scale:
            return change(model, n.input[1], lambda v: v * scale)
        kind = next(t.data_type for t in model.graph.initializer if t.name == n.input[2])
        model.graph.initializer.append(helper.make_tensor("another_zero", kind, [], [zero]))
        n.input[2] = "another_zero"
    return plant


def negated_integer(values):
    flat = values.reshape(-1)
    flat[np.abs(flat.astype(np.int32)).argmax()] *= -1
    return values


FAULTS = {
    "int8: an activation's scale 1 % larger": grid(scale=1.01),
    "int8: another activation's scale a tenth smaller": grid(last=True, scale=0.9),
    "int8: an activation's zero point 1": grid(last=True, zero=1),
    "int8: the input's zero point 1": grid(zero=1),
    "int8: zero point of weights": rounded("Conv", "zero", lambda v: v + 1),
    "int8: scales of weights in another order": rounded("Conv", "scale", lambda v: np.roll(v, 1)),
    "int8: one scale for all weights": rounded("Conv", "scale", lambda v: v * 0 + v.max()),
    "int8: scale of the last layer": rounded("Gemm", "scale", lambda v: v * 1.02),
    "int8: one weight negated": rounded("Conv", "integers", negated_integer),
    "int8: one weight of the last convolution negated": rounded("Conv", "integers", negated_integer, True),
    "int8: filters mirrored": rounded("Conv", "integers", lambda v: v[..., ::-1]),
    "int8: bias left out": rounded("Conv", "bias.integers", lambda v: v * 0, True),
    "int8: bias in float's units": rounded("Conv", "bias.scale", lambda v: v * 0 + 1 / 128),
    "means swapped": lambda m: change(m, "preparation/shifts", lambda v: v[::-1]),
    "deviations swapped": lambda m: change(m, "preparation/factors", lambda v: v[::-1]),
    "pixels not divided by 255": lambda m: change(m, "preparation/factors", lambda v: v * 255),
    "mean left out": lambda m: change(m, "preparation/shifts", lambda v: v * 0),
    "blue first": lambda m: weight("Conv")(m, lambda v: v[:, ::-1]),
    "rows and columns swapped": swapped_axes,
    "another resize": resized,
    "first convolution's padding off by one": shift("Conv", "pads", 1),
    "last convolution's padding off by one": shift("Conv", "pads", 1, last=True, at=1),
    "filters mirrored": lambda m: weight("Conv")(m, lambda v: v[..., ::-1]),
    "one weight negated": lambda m: weight("Conv", last=True)(m, largest_negated),
    "weights rounded to bfloat16": lambda m: weight("Conv")(m, to_bfloat16),
    "norm's epsilon": epsilon,
    "norm's mean and variance swapped": swap_inputs("BatchNormalization", 3, 4),
    "norm's weights reversed": lambda m: weight("BatchNormalization")(m, lambda v: v[::-1]),
    "norm's shifts of another layer's order": lambda m: weight("BatchNormalization", 2, True)(m, lambda v: np.roll(v, 1)),
    "norm left out": without("BatchNormalization", True),
    "activation left out": without("Relu"),
    "another activation": other_op("Relu", "LeakyRelu", True),
    "average for maximum": other_op("MaxPool", "AveragePool"),
    "pooling window off by one": shift("MaxPool", "kernel_shape", 1, last=True),
    "another interpolation": coordinates(b"align_corners"),
    "last layer's outputs in another order": lambda m: weight("Gemm")(m, lambda v: np.roll(v, 1, 0)),
    "last layer's bias left out": lambda m: weight("Gemm", 2, True)(m, lambda v: v * 0),
    "result not normalised": without("Softmax", True),
    "softmax for sigmoid": other_op("Sigmoid", "Softmax", True),
    "class of the smallest score": other_op("ArgMax", "ArgMin"),
    "grey levels not raised by the mean": lambda m: change(m, "results/summands", lambda v: v * 0),
    "restored colours swapped": lambda m: change(m, "results/factors", lambda v: v[::-1]),
}

# Where a file ends with rounded results, only these are sure to show in a dozen samples; the export compares the network below too.
OF_RESULTS = ("truncated file", "result not normalised", "softmax for sigmoid", "class of the smallest score",
              "grey levels not raised by the mean", "restored colours swapped", "activation left out")

# Unsigned integers have no values below 0.
WITHOUT_EFFECT_IN_INT8 = ("activation left out", "another activation")


def cut(data):
    return data[:len(data) * 2 // 3]



def refused(data, proof, folder):
    """Whether the proof refuses the bytes, and by what."""
    model = os.path.join(folder, "model.onnx")
    with open(model, "wb") as file:
        file.write(data)
    with open(os.path.join(proof, "proof.json")) as file:
        facts = json.load(file)
    facts["sha256"] = hashlib.sha256(data).hexdigest()
    for name in ("verify.py", "labels.npy", "images.npy", "expected.npy"):
        shutil.copy(os.path.join(proof, name), folder)
    with open(os.path.join(folder, "proof.json"), "w") as file:
        json.dump(facts, file)
    done = subprocess.run([sys.executable, os.path.join(folder, "verify.py"), model], capture_output=True, text=True)
    if done.returncode == 0 or not done.stdout.startswith("{"):
        return done.returncode, "fails" if done.returncode else done.stdout.strip()
    report = json.loads(done.stdout)
    return done.returncode, "%.3g of the bound, %d of %d with another first class" % (
        report["share_of_bound"], report["other_first_class"], report["samples"])


def main(path, names=None):
    proof = os.path.splitext(path)[0] + ".proof"
    with open(path, "rb") as file:
        data = file.read()
    passed, planted, is_int8 = [], 0, b"QuantizeLinear" in data
    with tempfile.TemporaryDirectory() as folder:
        code, text = refused(data, proof, folder)
        if code != 0:
            sys.exit(f"faults.py: {path} itself is refused: {text}")
        cases = {"truncated file": lambda: cut(data)}
        for name, plant in FAULTS.items():
            def planted_in(plant=plant):
                model = onnx.load_model_from_string(data)
                plant(model)
                return model.SerializeToString()
            cases[name] = planted_in
        for name, make in cases.items():
            if (names and name not in names) or (is_int8 and name in WITHOUT_EFFECT_IN_INT8):
                continue
            if name.startswith("int8: ") and not is_int8:
                continue
            try:
                bad = make()
            except Absent:
                continue
            planted += 1
            code, text = refused(bad, proof, folder)
            print(f"  {'refused' if code else 'PASSED '}  {name}: {text}", flush=True)
            if code == 0:
                passed.append(name)
    print(f"{path}: {planted - len(passed)} of {planted} faults are refused")
    return passed, planted


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(1 if main(sys.argv[1])[0] else 0)
