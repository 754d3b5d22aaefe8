"""What a compiler says of kernels whose operator() is not const.

    wrong_kernels.py ROOT COMPILER
"""

import os
import pathlib
import subprocess
import sys

KERNELS = """
#include <millrace/layer.h>

struct Twice {
  MILLRACE_KERNEL float operator()(float x) { return 2 * x; }
};
struct Shifted {
  static constexpr int kReads = 1, kWrites = 1;
  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) { row.each([&](auto c) { row.out(0, c, row.in(0, c) + 1); }); }
};
void forward(millrace::Pass& pass) {
  pass.each(Twice{}, pass.in(), pass.out());
  pass.row(Shifted{}, {pass.in()}, {pass.out()});
}
"""
ANSWERS = [
    "a kernel's operator() is const: write `float operator()(float x) const`",
    "a kernel's operator() is const: write `void operator()(Row& row) const`",
]


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    command = [sys.argv[2], "-std=c++20", "-fsyntax-only", "-I", str(root / "framework/include"), "-x", "c++", "-"]
    run = subprocess.run(command, input=KERNELS, capture_output=True, text=True, check=False,
                         env={**os.environ, "LC_ALL": "C"})
    missing = [answer for answer in ANSWERS if answer not in run.stderr]
    if run.returncode == 0 or missing:
        print("the compiler does not say:", *missing, "it says:", run.stderr, sep="\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
