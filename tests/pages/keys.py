"""The reference pages of keys are what the programs take.

    keys.py FOLDER PIPELINE_INSPECT [--write]

The pages of FOLDER that are named in generated() are made from what pipeline-inspect prints. The check compares; --write replaces
them, after a table, a stage, a layer, a loss or an optimizer got another key.
"""

import difflib
import json
import pathlib
import re
import subprocess
import sys

MADE = "<!-- made by tests/pages/keys.py --write -->"
COLUMNS = ("parameter", "type", "range", "default")


class Inspect:
    def __init__(self, program):
        self.program = program

    def __call__(self, *arguments):
        return subprocess.run([self.program, *arguments], check=True, capture_output=True, text=True).stdout

    def names(self):
        """Names by section of the list of everything: "stages", "layer types", ..."""
        sections, name = {}, None
        for line in self().splitlines():
            if line and not line.startswith(" "):
                name = line
            elif line.strip():
                sections.setdefault(name, []).append(line.split()[0])
        return sections


def cells(line, offsets):
    fixed = [line[begin:end].rstrip() for begin, end in zip(offsets, offsets[1:])]
    default, _, text = re.sub(r"^ {2,}", "  ", line[offsets[-1] :]).partition("  ")
    return fixed + [default, text.strip()]


def parameters(text):
    """(key, type, range, default, meaning) for each parameter; members of a table as table.member."""
    lines, rows, path = text.splitlines(), [], []
    header = next((n for n, line in enumerate(lines) if line.split()[:4] == list(COLUMNS)), None)
    if header is None:
        return []
    offsets = [lines[header].index(f"{column}") for column in COLUMNS]
    for line in lines[header + 1 :]:
        if not line.strip():
            break
        key, kind, limits, default, meaning = cells(line, offsets)
        depth = (len(key) - len(key.lstrip())) // 2
        path = path[:depth] + [key.strip()]
        rows.append((".".join(path), kind, limits, default, meaning))
    return rows


def fact(text, name):
    found = re.search(rf"^  {name} +(.*)$", text, re.MULTILINE)
    return found.group(1) if found else ""


def limits_text(kind, limits):
    choices = [choice.strip() for choice in limits.split(" | ")] if " | " in limits else []
    is_range = re.compile(r"^(>=|<=)|^[-\d.]+ to ")
    shown = ", ".join(choice if is_range.match(choice) else f"`{choice}`" for choice in choices) if choices else limits
    return f"{kind}: {shown}" if shown else kind


def table(rows):
    if not rows:
        return "No keys.\n"
    lines = ["| key | takes | default | meaning |", "|---|---|---|---|"]
    for key, kind, limits, default, meaning in rows:
        shown = default if default in ("", "required") else f"`{default}`"
        line = f"| `{key}` | {limits_text(kind, limits)} | {shown} | {meaning} |"
        lines.append(re.sub(r" +", " ", line.replace("| |", "|  |")))
    return "\n".join(lines) + "\n"


def table_rows(whole, name):
    """Of a top-level table, from the schema of a file. What a file needs that extends no other stands apart."""
    schema, required = whole["properties"][name], whole["else"]["properties"][name].get("required", [])
    rows = []
    for key, value in schema["properties"].items():
        kind = value["anyOf"][0]
        choices = kind.get("enum", []) + [word for other in kind.get("anyOf", []) for word in other.get("enum", [])]
        kind = next((other for other in kind.get("anyOf", []) if "type" in other), kind)
        low, high = kind.get("minimum"), kind.get("maximum")
        limits = f"{low:.12g} to {high:.12g}" if high is not None else f">= {low:.12g}" if low is not None else ""
        if choices:
            limits = " | ".join(([limits] if limits else []) + choices)
        names = {"string": "text", "boolean": "true or false", "array": "list"}
        rows.append((key, names.get(kind.get("type", "string"), kind.get("type", "text")), limits,
                     "required" if key in required else json.dumps(value.get("default")),
                     value.get("description", "")))
    return rows


def page(title, intro, body):
    return f"# {title}\n\n{MADE}\n\n{intro}\n\n{body.strip()}\n"


def entry(name, text, rows, tail=""):
    summary = text.splitlines()[0].split(": ", 1)[1]
    return f"\n## `{name}`\n\n{summary}{tail}\n\n{table(rows)}"


def stage_pages(inspect, stages):
    """The page of sources and that of the other stages."""
    texts = {stage: inspect(stage) for stage in stages}
    rows = {stage: parameters(text) for stage, text in texts.items()}
    sources = [stage for stage in stages if any(row[0] == "part_seed" for row in rows[stage])]
    shared = [row for row in rows[sources[0]] if all(row in rows[source] for source in sources)]
    out = {True: "## Keys of every source\n\n" + table(shared), False: ""}
    for stage, text in texts.items():
        takes, gives = fact(text, "takes"), fact(text, "gives")
        flows = f" Takes {takes}; gives {gives}.".replace("Takes -; gives", "Gives").replace("; gives -", "")
        is_source = stage in sources
        out[is_source] += entry(stage, text, [row for row in rows[stage] if not is_source or row not in shared], flows)
    return out[True], out[False]


def entries(inspect, names, command=()):
    texts = {name: inspect(*command, name) for name in names}
    return "".join(entry(name, text, parameters(text)) for name, text in texts.items())


def parameter_rows(rows, kind):
    """The rows of a layer that are about its weights or its biases, or none where some of them are missing."""
    prefix = {"weights": "", "biases": "bias_"}[kind]
    names = [prefix + name for name in ("initialiser", "trainable", "rate_factor", "decay_factor")]
    found = [row for row in rows if row[0] in names]
    return found if len(found) == len(names) else []


def layer_page(inspect, names):
    """The keys that all layers with weights, or with biases, share stand apart."""
    texts = {name: inspect(name) for name in names}
    rows = {name: parameters(text) for name, text in texts.items()}
    out, shared = "", {}
    for kind in ("weights", "biases"):
        shared[kind] = next(found for found in (parameter_rows(rows[name], kind) for name in names) if found)
        out += f"\n## Keys of {kind}\n\n{table(shared[kind])}"
    for name, text in texts.items():
        kinds = [kind for kind in shared if shared[kind] == parameter_rows(rows[name], kind)]
        own = [row for row in rows[name] if not any(row in shared[kind] for kind in kinds)]
        links = " and ".join(f"[{kind}](#keys-of-{kind})" for kind in kinds)
        out += entry(name, text, own, f" Also takes the keys of {links}." if links else "")
    return out


def table_page(inspect):
    schema = json.loads(inspect("--schema"))
    return "\n".join(f"## `[{name}]`\n\n" + table(table_rows(schema, name))
                     for name in ("run", "network", "stop", "plateau", "checkpoint"))


def generated(program):
    """The pages by their file's name."""
    inspect = Inspect(program)
    names = inspect.names()
    sources, stages = stage_pages(inspect, names["stages"])
    return {
        "tables.md": page("Keys of tables", "[Files](files.md) describes the tables. All other keys of `[network]` are variables of the network.", table_page(inspect)),
        "sources.md": page("Sources", "Stages that read samples. `pipeline-inspect SOURCE` prints the same.", sources),
        "stages.md": page("Stages", "The other stages of a `flow`. `pipeline-inspect STAGE` prints the same.", stages),
        "layers.md": page("Layers", "Values of `op` in a [network](networks.md). `pipeline-inspect LAYER` prints the same.",
                          layer_page(inspect, names["layer types"])),
        "losses.md": page("Losses", "Values of `loss` of `forward_backward` and `forward`. `pipeline-inspect loss LOSS` prints the "
                          "same. [Losses](../../plugins/losses/README.md) lists the metrics of each.",
                          entries(inspect, names["losses"], ["loss"])),
        "optimizers.md": page("Optimizers", "Values of `type` of the stage `optimizer`. `pipeline-inspect optimizer NAME` prints the same. [The stage]"
                              "(stages.md#optimizer) has the keys that all optimizers share.",
                              entries(inspect, names["optimizers"], ["optimizer"])),
        "observers.md": page("Observers", "Names of tables `[observe.NAME]`. `pipeline-inspect observer NAME` prints the same. "
                             "`console`, `metrics`, `ledger`, `pictures` and `kubeflow` are on by default.",
                             entries(inspect, names["observers"], ["observer"])),
    }


def main(folder, program, *options):
    wrong = 0
    for name, new in generated(program).items():
        file = pathlib.Path(folder) / name
        old = file.read_text(encoding="utf-8") if file.exists() else ""
        if "--write" in options:
            file.write_text(new, encoding="utf-8")
        elif old != new:
            print(f"{file}: not what pipeline-inspect says; run tests/pages/keys.py {folder} {program} --write")
            print("\n".join(list(difflib.unified_diff(old.splitlines(), new.splitlines(), "page", "programs", lineterm=""))[:40]))
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
