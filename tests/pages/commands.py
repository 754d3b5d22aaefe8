"""Every command in the pages runs.

    commands.py ROOT BUILD [PAGE...]

Runs the fenced `sh` blocks of each page, one shell for a page, in a scratch folder that looks like the source tree: build/release
is BUILD, whose programs are in the PATH, and data/shapes holds a few images of `pipeline-data shapes`. Blocks of other languages
that name a file in their first line (`# mine.toml`) are written first, so that commands can use them. A comment before a block,
`<!-- not run: REASON -->`, leaves it out; the reasons are printed.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pages

SECONDS = 300
IMAGES = ["--count", "300", "--validation", "100"]


def make_scratch(root, build, folder):
    """A folder that looks like the source tree. What commands may write into is copied."""
    for entry in root.iterdir():
        if entry.name.startswith((".git", "build")) or entry.name in ("data", "runs"):
            continue
        if entry.name == "pipelines":
            shutil.copytree(entry, folder / entry.name)
        else:
            (folder / entry.name).symlink_to(entry)
    (folder / "build").mkdir()
    (folder / "build/release").symlink_to(build)
    subprocess.run([build / "bin/pipeline-data", "shapes", folder / "data/shapes", *IMAGES], check=True, capture_output=True)


def script(page, folder, root):
    """The page's commands as one script, and what is left out."""
    lines, left_out = ["set -eu -o pipefail"], []
    for block in pages.blocks(page):
        if block.language == "sh":
            if block.note.startswith("not run: "):
                left_out.append(f"{block.at(root)}: {block.note}")
                continue
            # `cd` and exports of a block hold until the end of the page, as they do for a reader.
            lines += [f"echo '== {block.at(root)}' >&2", block.text]
        elif block.file:
            file = folder / block.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
    return "\n".join(lines), left_out


def run_page(page, root, build):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_scratch(root, build, folder)
        text, left_out = script(page, folder, root)
        environment = dict(os.environ, HOME=name, PATH=f"{build}/bin:{os.environ['PATH']}", MILLRACE_CACHE=f"{name}/cache")
        environment.pop("MILLRACE_PLUGIN_PATH", None)
        for line in left_out:
            print(line)
        if text.count("\n") == 0:
            return []
        try:
            run = subprocess.run(["bash", "-c", text], cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS,
                                 check=False)
        except subprocess.TimeoutExpired:
            return [f"{page.relative_to(root)}: the commands took more than {SECONDS} s"]
        if run.returncode == 0:
            return []
        return [f"{page.relative_to(root)}: a command ended with {run.returncode}:\n{run.stdout[-1000:]}{run.stderr[-3000:]}"]


def check(root, build, wanted=()):
    chosen = [page for page in pages.pages(root) if not wanted or str(page.relative_to(root)) in wanted]
    return [problem for page in chosen for problem in run_page(page, root, build)]


if __name__ == "__main__":
    problems = check(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:])
    print("\n".join(problems) if problems else "every command runs")
    sys.exit(bool(problems))
