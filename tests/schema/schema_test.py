"""An editor with the schema of `pipeline-inspect --schema` accepts every shipped file, and underlines what is wrong in others.

    schema_test.py ROOT PIPELINE_INSPECT

It needs tomllib (Python 3.11) and python3-jsonschema, and is skipped without them.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import jsonschema
    import tomllib
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

# A complete file, and one that changes another.
WHOLE = """
[run]
name = "mine"
epochs = 3
[data]
side = 32
[network]
use = "quickstart"
classes = 10
[train]
flow = ["read", "decode_image", "augment", "batch", "forward_backward", "allreduce", "optimizer", "metrics"]
[train.read]
stage = "read_folder"
path = "photos"
[train.decode_image]
size = [32, 32]
[train.augment]
flip_x = 0.5
translate = { x = [-2, 2] }
[train.batch]
size = 100
[train.forward_backward]
loss = { type = "cross_entropy", label_smoothing = 0.1 }
[train.optimizer]
learning_rate = { initial = 0.05, schedule = "cosine" }
"""
EXTENDING = 'extends = "classify"\n'

# (file, text in it, its replacement): each is accepted.
GOOD = [
    (WHOLE, "", ""),
    (WHOLE, "size = [32, 32]", 'size = ["${data.side}", "${data.side} * 2"]'),
    (WHOLE, "size = [32, 32]", 'size = "${data.side}"'),
    (WHOLE, "size = 100", 'size = "${data.side} / 2"'),
    (WHOLE, 'stage = "read_folder"', 'stage = "${data.reader}"'),
    (WHOLE, "flip_x = 0.5", 'flip_x = "${data.flip}"'),
    (WHOLE, 'loss = { type = "cross_entropy", label_smoothing = 0.1 }', 'loss = "cross_entropy"'),
    (WHOLE, 'loss = { type = "cross_entropy", label_smoothing = 0.1 }', 'loss = "${data.loss}"'),
    (WHOLE, "label_smoothing = 0.1", 'label_smoothing = "${data.smoothing}"'),
    (WHOLE, 'learning_rate = { initial = 0.05, schedule = "cosine" }', "learning_rate = 0.05"),
    (WHOLE, "initial = 0.05", 'initial = "${data.side} / 1000"'),
    (WHOLE, 'use = "quickstart"', 'use = "quickstart"\nweights = "w.safetensors"'),
    (WHOLE, 'use = "quickstart"', 'use = "quickstart"\nweights = { file = "w.safetensors" }'),
    (WHOLE, "[run]", "[observe]\nconsole = false\n[run]"),
    (EXTENDING, "", ""),
    (EXTENDING, "\n", '\nvalidate = "unset"\n[observe]\nresults = "unset"\n[train]\naugment = "unset"\n'),
    (EXTENDING, "\n", '\n[train.read]\nshuffle = "once"\n[train.optimizer]\nlearning_rate = { warmup_epochs = "unset" }\n'),
    (EXTENDING, "\n", '\n[network]\nclasses = 3\n[train.read]\npath = "photos"\n[validate.batch]\nsize = 8\n'),
]

# (file, text in it, its replacement, the table or key that is underlined): each is refused there.
BAD = [
    (WHOLE, "epochs = 3", "epoch = 3", "run"),
    (WHOLE, "flip_x", "flipx", "train.augment"),
    (WHOLE, "label_smoothing", "label_smooth", "train.forward_backward.loss"),
    (WHOLE, "schedule", "shedule", "train.optimizer.learning_rate"),
    (WHOLE, "[run]", "[observe.consol]\n[run]", "observe"),
    (WHOLE, "size = 100", 'size = "many"', "train.batch.size"),
    (WHOLE, "size = 100", "size = 1.5", "train.batch.size"),
    (WHOLE, "size = 100", "size = -1", "train.batch.size"),
    (WHOLE, "size = [32, 32]", "size = [32, 32, 3]", "train.decode_image.size"),
    (WHOLE, "size = [32, 32]", 'size = [32, "wide"]', "train.decode_image.size"),
    (WHOLE, "flip_x = 0.5", "flip_x = true", "train.augment.flip_x"),
    (WHOLE, 'path = "photos"', "path = 7", "train.read.path"),
    (WHOLE, 'schedule = "cosine"', 'schedule = "cosinus"', "train.optimizer.learning_rate"),
    (WHOLE, 'type = "cross_entropy"', 'type = "cross_entropie"', "train.forward_backward.loss"),
    (WHOLE, 'path = "photos"', 'path = "photos"\nshuffle = "sometimes"', "train.read.shuffle"),
    (WHOLE, 'stage = "read_folder"', 'stage = "read_foldr"', "train.read.stage"),
    (WHOLE, 'learning_rate = { initial = 0.05, schedule = "cosine" }', 'learning_rate = "fast"', "train.optimizer.learning_rate"),
    (WHOLE, 'use = "quickstart"', "", "network"),
    (WHOLE, 'path = "photos"', "", "train.read"),
    (WHOLE, "[train.augment]", "[train.augmnt]", "train.augmnt"),
    (EXTENDING, "\n", '\n[train.batch]\nsiz = 8\n', "train.batch"),
    (EXTENDING, "\n", '\n[train.batch]\nsize = "many"\n', "train.batch.size"),
    (EXTENDING, "\n", '\n[train.read]\nshufle = "once"\n', "train.read"),
]


def places(error):
    """Where an error is, and where the errors are that it consists of."""
    yield ".".join(str(part) for part in error.absolute_path)
    for inner in error.context:
        yield from places(inner)


def changed(text, old, new):
    assert old in text, old
    return text.replace(old, new, 1) if old else text


def check_files(root, validator):
    files = sorted((root / "pipelines").rglob("*.toml"))
    assert len(files) > 20, files
    for file in files:
        for error in validator.iter_errors(tomllib.loads(file.read_text(encoding="utf-8"))):
            yield f"{file.relative_to(root)}: {max(places(error), key=len)}: refused: {error.message[:200]}"


def check_cases(validator):
    for text, old, new in GOOD:
        for error in validator.iter_errors(tomllib.loads(changed(text, old, new))):
            yield f"'{new}' instead of '{old}' is refused at {max(places(error), key=len)}: {error.message[:200]}"
    for text, old, new, place in BAD:
        found = [at for error in validator.iter_errors(tomllib.loads(changed(text, old, new))) for at in places(error)]
        if not found:
            yield f"'{new}' instead of '{old}' is accepted"
        elif not any(at == place or at.startswith(place + ".") for at in found):
            yield f"'{new}' instead of '{old}' is refused at {sorted(set(found))}, expected {place}"


def check_new_files(root, program, validator):
    """Files that `--new` writes name the schema, which lies beside them, and are accepted by it."""
    for base in sorted(file.stem for file in (root / "pipelines" / "recipes").glob("*.toml")):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "mine.toml"
            subprocess.run([program, base, "--new", file], check=True, capture_output=True)
            text = file.read_text(encoding="utf-8")
            first = text.splitlines()[0]
            if not first.startswith("#:schema ") or not (file.parent / first.split()[1]).is_file():
                yield f"--new {base}: '{first}' names no schema beside it"
            uncommented = text.replace("\n# ", "\n").replace("\n`pipeline-inspect", "\n# `pipeline-inspect")
            for variant in (text, uncommented):
                for error in validator.iter_errors(tomllib.loads(variant)):
                    yield f"--new {base}: refused: {error.message[:200]}"


def main():
    root, program = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    schema = json.loads(subprocess.run([program, "--schema"], check=True, capture_output=True, text=True).stdout)
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    problems = [*check_files(root, validator), *check_cases(validator), *check_new_files(root, program, validator)]
    print("\n".join(problems))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
