"""What a compiler says of a parameter whose type none may have: one line for each, and no other error.

    wrong_params.py ROOT COMPILER
"""

import os
import pathlib
import subprocess
import sys

ENUM = "an enum needs the names of its values: add("
STRUCT = "a struct is a table: give it `static void describe(millrace::ParamSet<T>&)`, or declare it with add_table()"
OTHER = "a parameter cannot have the type of this field; the types are bool, int, "
# (field `x`, the compiler's message)
CASES = [
    ("Mode x", ENUM), ("std::optional<Mode> x", ENUM), ("std::vector<Mode> x", ENUM),
    ("Point x", STRUCT), ("std::optional<Point> x", STRUCT), ("std::vector<Point> x", STRUCT),
    ("char x", OTHER), ("short x", OTHER), ("long long x", OTHER), ("long double x", OTHER), ("double x[3]", OTHER),
    ("const double x = 1", OTHER), ("const char* x", OTHER), ("std::string_view x", OTHER), ("std::map<std::string, int> x", OTHER),
    ("std::vector<std::vector<double>> x", OTHER), ("std::vector<millrace::Range> x", OTHER), ("std::array<double, 0> x", OTHER),
    ("std::optional<std::optional<int>> x", OTHER), ("std::function<void()> x", OTHER), ("void x()", OTHER),
    ("std::optional<std::vector<Table>> x", "of a struct there may be one, a std::optional or a std::vector"),
]
BEGIN = """
#include <functional>
#include <map>
#include <millrace/params.h>
enum class Mode { fast, exact };
struct Point { double y = 0; };
struct Table {
  double y = 0;
  static void describe(millrace::ParamSet<Table>& set) { set.add("y", &Table::y); }
};
"""
CASE = "struct P{0} {{ {1}; }};\nvoid describe(millrace::ParamSet<P{0}>& set) {{ set.add(\"x\", &P{0}::x); }}\n"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    command = [sys.argv[2], "-std=c++20", "-fsyntax-only", "-I", str(root / "framework/include"), "-x", "c++", "-"]
    text = BEGIN + "".join(CASE.format(number, field) for number, (field, _) in enumerate(CASES))
    run = subprocess.run(command, input=text, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    errors = [line for line in run.stderr.splitlines() if " error: " in line]
    problems = [f"{len(errors)} errors for {len(CASES)} fields"] if len(errors) != len(CASES) else []
    problems += [f"'{field}': the compiler does not say '{says}', but: {error}"
                 for (field, says), error in zip(CASES, errors) if says not in error]
    if problems:
        print(*problems, run.stderr, sep="\n")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
