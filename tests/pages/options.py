"""tools/README.md names every option that the programs have.

    options.py PAGE BIN_FOLDER
"""

import pathlib
import re
import subprocess
import sys

PROGRAMS = ("pipeline-run", "pipeline-profile", "pipeline-inspect", "pipeline-data", "pipeline-report")


def help_of(*command):
    return subprocess.run([*command, "--help"], check=True, capture_output=True, text=True).stdout


def options_of(text):
    return re.findall(r"^  (--[\w-]+)", text, re.MULTILINE)


def section(page, program):
    found = re.search(rf"^### `{program}\b.*?(?=^##)", page, re.MULTILINE | re.DOTALL)
    return found.group(0) if found else ""


def check(page, folder):
    found = []
    for program in PROGRAMS:
        text = help_of(folder / program)
        here = section(page, program)
        for verb in re.findall(r"^  ([a-z]\w+) ", text, re.MULTILINE):
            if f"`{verb} " not in here:
                found.append(f"{program} {verb}: the page does not explain this verb")
            text += help_of(folder / program, verb)
        found += [f"{program}: the page does not explain {name}" for name in sorted(set(options_of(text))) if f"`{name}" not in here]
    return found


if __name__ == "__main__":
    problems = check(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"), pathlib.Path(sys.argv[2]))
    print("\n".join(problems) if problems else "every option is explained")
    sys.exit(bool(problems))
