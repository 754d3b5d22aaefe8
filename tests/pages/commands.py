"""Every command and every TOML block in the pages runs.

    commands.py ROOT BUILD [PAGE | FOLDER...]

The blocks of a page run in one shell, in a scratch folder that looks like the source tree: build/release is BUILD, whose programs
are in the PATH. Beside it lies small data: data/shapes and photos (drawn shapes, in folders of classes), and street (images and
masks). A block that names its file, in the first line (`# mine.toml`) or in the fence (`csv file=tags.csv`), is written before the
first command runs.

Words of the fence say how a block is run:

    sh                runs
    sh check          runs with --check, for what would train for minutes
    toml              a file: pipeline-run --check, or pipeline-inspect if it is a network
    toml with=BASE    pipeline-run --check of a file that changes tests/pages/bases/BASE.toml so
    toml run-below    a file that a later command runs

TOML blocks are run in pipelines/guide and pipelines/reference only. A word of REASONS leaves a block out, and so does a comment before
it, `<!-- not run: REASON -->`; the reasons are printed.
"""

import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import drawn
import pages

SECONDS = 300
CHECKED = ("pipelines/guide/", "pipelines/reference/")  # pages whose TOML blocks run too
REASONS = {
    "needs-gpu": "it needs a GPU",
    "needs-network": "it downloads, or reads a bucket",
    "needs-dataset": "it needs a data set that is not drawn here",
    "needs-onnxruntime": "it needs onnxruntime or another runtime for Python",
    "syntax": "it shows the form, and names what the reader has to choose",
}
SAY = f"echo 'say in the fence what the block changes (with=BASE), run-below, or why it is not run: {', '.join(REASONS)}' >&2; false"
ONLY_CHECKED = 'pipeline-run() {{ command pipeline-run "$@" --check; }}\n{}\nunset -f pipeline-run'


def make_scratch(root, data, build, folder):
    """A folder that looks like the source tree. What commands may write into is copied; the drawn images are linked, for speed."""
    for entry in root.iterdir():
        if entry.name.startswith((".git", "build")) or entry.name in ("data", "runs", "photos", "street"):
            continue
        if entry.name == "pipelines":
            shutil.copytree(entry, folder / entry.name)
        else:
            (folder / entry.name).symlink_to(entry)
    (folder / "build").mkdir()
    (folder / "build/release").symlink_to(build)
    for entry in data.iterdir():
        shutil.copytree(entry, folder / entry.name, copy_function=os.link)
    shutil.copytree(pathlib.Path(__file__).parent / "bases", folder / "bases")


def reason(block):
    if block.note.startswith("not run: "):
        return block.note
    return next((f"not run: {REASONS[word]}" for word in block.words if word in REASONS), "")


def write(block, folder):
    file = folder / block.file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(block.text, encoding="utf-8")


def toml_command(block, folder):
    """What checks the block, or nothing where it does not say what it is."""
    if base := block.word("with"):
        name = f"bases/{block.page.stem}-{block.line}.toml"
        (folder / name).write_text(f'extends = "{base}.toml"\n{block.text}', encoding="utf-8")
        return f"pipeline-run {name} --check > /dev/null"
    if not block.file:
        return ""
    if "run-below" in block.words:
        later = [other for other in pages.blocks(block.page) if other.language == "sh" and other.line > block.line]
        return "true" if any(block.file in other.text for other in later if not reason(other)) else ""
    is_network = any(line.startswith(("layers ", "defaults ")) for line in block.text.splitlines())
    return f"pipeline-inspect {block.file} > /dev/null" if is_network else f"pipeline-run {block.file} --check > /dev/null"


def script(page, folder, root):
    """The page's blocks as one script, and what is left out."""
    lines, left_out = ["set -eu -o pipefail"], []
    for block in pages.blocks(page):
        is_checked = block.language == "toml" and str(page.relative_to(root)).startswith(CHECKED)
        if why := reason(block) if block.language == "sh" or is_checked else "":
            left_out.append(f"{block.at(root)}: {why}")
            continue
        if block.file and block.language != "sh":
            write(block, folder)
        command = block.text if block.language == "sh" else toml_command(block, folder) if is_checked else ""
        if is_checked and not command:
            command = SAY
        if "check" in block.words:
            command = ONLY_CHECKED.format(command)
        if command:  # `cd` and exports of a block hold until the end of the page, as they do for a reader.
            lines += [f"echo '== {block.at(root)}' >&2", command]
    return "\n".join(lines), left_out


def run_page(page, root, data, build):
    """(how many blocks ran, what is left out, what is wrong)"""
    if not any(block.language in ("sh", "toml") for block in pages.blocks(page)):
        return 0, [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_scratch(root, data, build, folder)
        text, left_out = script(page, folder, root)
        environment = dict(os.environ, HOME=name, PATH=f"{build}/bin:{os.environ['PATH']}", MILLRACE_CACHE=f"{name}/cache")
        environment.pop("MILLRACE_PLUGIN_PATH", None)
        count = text.count("\necho '== ")
        if count == 0:
            return 0, left_out, []
        try:
            run = subprocess.run(["bash", "-c", text], cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS,
                                 check=False)
        except subprocess.TimeoutExpired:
            return count, left_out, [f"{page.relative_to(root)}: the commands took more than {SECONDS} s"]
        if run.returncode == 0:
            return count, left_out, []
        return count, left_out, [f"{page.relative_to(root)}: a command ended with {run.returncode}:\n"
                                 f"{run.stdout[-1000:]}{run.stderr[-3000:]}"]


def chosen_pages(root, wanted):
    def is_wanted(page):
        name = str(page.relative_to(root))
        return not wanted or any(name == one or name.startswith(f"{one}/") for one in wanted)
    return [page for page in pages.pages(root) if is_wanted(page)]


def one_core_each(cores):
    """A thread for each core. Its commands stay there: threads of a run that wait for each other wait long where cores are shared."""
    return concurrent.futures.ThreadPoolExecutor(len(cores), initializer=lambda: os.sched_setaffinity(0, {cores.pop()}))


def check(root, build, wanted=()):
    problems, blocks = [], 0
    with tempfile.TemporaryDirectory() as name, one_core_each(list(os.sched_getaffinity(0))) as pool:
        data = pathlib.Path(name)
        drawn.make(build / "bin/pipeline-data", data)
        for count, left_out, found in pool.map(lambda page: run_page(page, root, data, build), chosen_pages(root, wanted)):
            print("\n".join(left_out), end="\n" if left_out else "")
            blocks, problems = blocks + count, problems + found
    print(f"{blocks} blocks ran")
    return problems


if __name__ == "__main__":
    problems = check(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:])
    print("\n".join(problems) if problems else "every block runs")
    sys.exit(bool(problems))
