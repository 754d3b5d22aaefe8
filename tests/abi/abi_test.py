#!/usr/bin/env python3
"""Changes of a small interface, and what abi.py finds in each."""
import os
import subprocess
import sys
import tempfile

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "abi.py")
HEADER = """#include <string>
namespace millrace {
inline constexpr unsigned kAbiVersion = 3, kAbiMinor = 1;
enum class Colour { red, green };
struct Point { int x, y; Colour colour; };
class Stage {
 public:
  virtual ~Stage();
  virtual void open(const Point& at);
  virtual void close();
};
double length(const Point& point);
}
"""
SOURCE = """#include "millrace/detail/plugin_descriptor.h"
namespace millrace {
Stage::~Stage() = default;
void Stage::open(const Point&) {}
void Stage::close() {}
double length(const Point& point) { return point.x; }
void hidden_from_headers() {}
}
"""


class Interface:
    def __init__(self, folder):
        self.folder, self.header = folder, os.path.join(folder, "include/millrace/detail/plugin_descriptor.h")
        os.makedirs(os.path.dirname(self.header))
        self.compare(HEADER, SOURCE, "--rewrite")

    def compare(self, header, source, *options):
        for path, text in ((self.header, header), (os.path.join(self.folder, "all.cpp"), source)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        include, library = os.path.join(self.folder, "include"), os.path.join(self.folder, "all.so")
        source, baseline = os.path.join(self.folder, "all.cpp"), os.path.join(self.folder, "baseline.txt")
        subprocess.run(["g++", "-std=c++20", "-shared", "-fPIC", f"-I{include}", source, "-o", library], check=True)
        done = subprocess.run([sys.executable, TOOL, baseline, "--compiler", "g++", "--include", include, "--library", library,
                               *options], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


def main():
    with tempfile.TemporaryDirectory() as folder:
        interface = Interface(folder)

        def expect(what, *words, header=None, source=None, code=1):
            header, source = header or (HEADER, HEADER), source or (SOURCE, SOURCE)
            got, text = interface.compare(HEADER.replace(*header), SOURCE.replace(*source))
            missing = [word for word in words if word not in text]
            assert got == code and not missing, f"{what}: exit code {got}, without {missing}:\n{text}"

        expect("no change", "ABI 3.1: ", code=0)
        expect("a function that no header has", code=0, source=("hidden_from", "unseen_by"))
        major, minor = "at least 4.0", "at least 3.2"
        expect("members in another order", "- type Point", "+ type Point", major, header=("int x, y;", "int y, x;"))
        expect("a member of equal size and another type", "- type Point", major, header=("int x, y;", "int x; unsigned y;"))
        expect("another enumerator in front", "- type Colour", major, header=("{ red", "{ blue, red"))
        expect("virtual functions in another order", "- type Stage", major,
               header=("  virtual ~Stage();\n  virtual void open(const Point& at);\n",
                       "  virtual void open(const Point& at);\n  virtual ~Stage();\n"))
        expect("a function with another parameter", "- function length(Point const&)", "+ function length(Point)", major,
               header=("length(const Point&", "length(Point"), source=("length(const Point&", "length(Point"))
        expect("a new function", "+ function twice(int)", minor, header=("double length", "int twice(int); double length"),
               source=("Stage::~Stage", "int twice(int a) { return 2 * a; } Stage::~Stage"))
        expect("a new type", "+ type Line", minor, header=("class Stage", "struct Line { Point a, b; }; class Stage"))


if __name__ == "__main__":
    main()
