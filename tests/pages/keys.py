"""The tables of keys in pipelines/README.md are what the programs take.

    keys.py PAGE PIPELINE_INSPECT [--write]

Everything between the two `keys:` comments of the page is made from what pipeline-inspect prints. The check compares; --write
replaces it, after a stage, a layer, a loss or a rule got another key.
"""

import difflib
import json
import pathlib
import re
import subprocess
import sys

BEGIN, END = "<!-- keys: begin, made by tests/pages/keys.py --write -->", "<!-- keys: end -->"
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


def stage_text(inspect, stages):
    texts = {stage: inspect(stage) for stage in stages}
    rows = {stage: parameters(text) for stage, text in texts.items()}
    sources = [stage for stage in stages if any(row[0] == "part_seed" for row in rows[stage])]
    shared = [row for row in rows[sources[0]] if all(row in rows[source] for source in sources)]
    out = "## Keys of every source\n\n" + table(shared) + "\n## Keys of stages\n"
    for stage, text in texts.items():
        takes, gives = fact(text, "takes"), fact(text, "gives")
        flows = f"Takes {takes}; gives {gives}.".replace("Takes -; gives", "Gives").replace("; gives -", "")
        own = [row for row in rows[stage] if stage not in sources or row not in shared]
        summary = text.splitlines()[0].split(": ", 1)[1]
        out += f"\n### `{stage}`\n\n{summary} {flows}\n\n{table(own)}"
    return out


def part_text(inspect, title, names, command=()):
    out = f"\n## {title}\n"
    for name in names:
        text = inspect(*command, name)
        summary = text.splitlines()[0].split(": ", 1)[1]
        out += f"\n### `{name}`\n\n{summary}\n\n{table(parameters(text))}"
    return out


def generated(program):
    inspect = Inspect(program)
    names = inspect.names()
    schema = json.loads(inspect("--schema"))
    out = "".join(f"## Keys of `[{name}]`\n\n" + table(table_rows(schema, name)) + "\n"
                  for name in ("run", "stop", "plateau", "checkpoint"))
    out += "## Keys of `[network]`\n\nAll other keys are the network's variables.\n\n"
    out += table(table_rows(schema, "network")) + "\n"
    out += stage_text(inspect, names["stages"])
    out += part_text(inspect, "Keys of layers", names["layer types"])
    out += part_text(inspect, "Keys of losses", names["losses"], ["loss"])
    out += part_text(inspect, "Keys of update rules", names["update rules"], ["rule"])
    out += part_text(inspect, "Keys of observers", names["observers"], ["observer"])
    return out


def main(page, program, *options):
    text = pathlib.Path(page).read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN + "\n")
    old, _, tail = rest.partition(END)
    new = f"\n{generated(program)}\n"
    if "--write" in options:
        pathlib.Path(page).write_text(f"{head}{BEGIN}\n{new}{END}{tail}", encoding="utf-8")
    elif old != new:
        print(f"{page}: not what pipeline-inspect says; run tests/pages/keys.py {page} {program} --write")
        print("\n".join(list(difflib.unified_diff(old.splitlines(), new.splitlines(), "page", "programs", lineterm=""))[:40]))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
