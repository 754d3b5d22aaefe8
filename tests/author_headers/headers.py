"""The author headers: which there are, that each begins with an example, what includes them, and what they cost a compiler.

    headers.py ROOT COMPILER
"""

import pathlib
import re
import subprocess
import sys

# Maximum number of non-blank lines that the compiler reads for each: GCC 12's number and a thirtieth more. The table is printed:
# lower a bound when a header has shrunk.
BOUNDS = {
    "annotation.h": 47800, "batch.h": 63800, "communicator.h": 63900, "error.h": 30600, "kernels.h": 23400, "layer.h": 100100, "loss.h": 103300,
    "observer.h": 66500, "onnx.h": 25700, "optimizer.h": 67800, "params.h": 44000, "plugin.h": 52400, "sample.h": 41000, "source.h": 48800,
    "stage.h": 48700, "storage.h": 50400,
}
# Stages that submit work to devices, which need streams and replicas (framework/README.md).
ON_DEVICES = ("histogram", "top_k")
INCLUDE = re.compile(r'^\s*#include\s+["<](millrace/[^">]+)[">]', re.MULTILINE)


def headers(root):
    for_programs = {"predict.h"}  # which embed a model
    return sorted(path for path in (root / "framework/include/millrace").glob("*.h") if path.name not in for_programs)


def has_example(text):
    """The comment in front of `#pragma once` holds code: lines that are indented within it."""
    return re.search(r"^//   \S", text.split("#pragma once")[0], re.MULTILINE) is not None


def reached(root, name, seen=None):
    """Every public header that includes of this one lead to."""
    seen = set() if seen is None else seen
    file = root / "framework/include" / name
    if name in seen or not file.is_file():
        return seen
    seen.add(name)
    for other in INCLUDE.findall(file.read_text(encoding="utf-8")):
        reached(root, other, seen)
    return seen


def check_headers(root, bounds):
    found = []
    names = [file.name for file in headers(root)]
    for name in sorted(set(names) ^ set(bounds)):
        found.append(f"millrace/{name}: " + ("is not known as an author header: put it into a folder, or here with a reason"
                                             if name in names else "is missing"))
    for file in headers(root):
        if not has_example(file.read_text(encoding="utf-8")):
            found.append(f"millrace/{file.name}: does not begin with a smallest example")
        for other in sorted(reached(root, f"millrace/{file.name}")):
            if other.startswith("millrace/backend/"):
                found.append(f"millrace/{file.name}: reaches {other}, which only authors of backends need")
    return found


def check_users(root):
    """Plugins outside the tree, and pages' examples of plugins, get by with the author headers."""
    found = []
    for file in sorted((root / "tests/outside_plugin").rglob("*")):
        if file.suffix in (".h", ".cpp") and file.parent.name not in ON_DEVICES:
            found += wrong_includes(root, file, file.read_text(encoding="utf-8"))
    for page in [root / "README.md", *sorted((root / "plugins/guide").glob("*.md"))]:
        if page.stem not in ("backend", "communicator") and page.is_file():
            blocks = re.findall(r"```cpp\n(// [\w/]+\.(?:h|cpp)\n.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
            found += wrong_includes(root, page, "\n".join(blocks))
    return found


def wrong_includes(root, file, text):
    return [f"{file.relative_to(root)}: includes {name}, which is no author header"
            for name in INCLUDE.findall(text) if name.count("/") > 1]


def preprocessed_lines(root, compiler, name):
    command = [compiler, "-std=c++20", "-E", "-P", "-I", str(root / "framework/include"), "-x", "c++", "-"]
    run = subprocess.run(command, input=f"#include <millrace/{name}>\n", capture_output=True, text=True, check=True)
    return sum(1 for line in run.stdout.splitlines() if line.strip())


def check_cost(root, compiler, bounds):
    found = []
    for file in headers(root):
        lines, own = preprocessed_lines(root, compiler, file.name), file.read_text(encoding="utf-8").count("\n")
        most = bounds.get(file.name, 0)
        print(f"{file.name:16} {own:4} lines, {lines:7,} for the compiler, at most {most:7,}")
        if lines > most:
            found.append(f"millrace/{file.name}: the compiler reads {lines} lines, at most {most} are allowed: include less")
    return found


def check(root, compiler, bounds):
    return check_headers(root, bounds) + check_users(root) + check_cost(root, compiler, bounds)


if __name__ == "__main__":
    problems = check(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], BOUNDS)
    print("\n".join(problems))
    sys.exit(bool(problems))
