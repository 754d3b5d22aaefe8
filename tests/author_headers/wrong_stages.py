"""What a compiler says of a stage that wants to know too much, or reads too early.

    wrong_stages.py ROOT COMPILER
"""

import os
import pathlib
import subprocess
import sys

STAGES = """
#include <millrace/plugin.h>
using namespace millrace;

struct Early : Source {
  using Params = SourceParams;
  static void describe(StageDescription<Params>& d) { d.name("early").text("A source that wants to know its data."); }
  Early(const Params& params, const DataContext&) : Source(params) {}
  void open() override {}
  std::uint64_t size() const override { return 1; }
  std::size_t largest_encoded() const override { return 0; }
  void read(Sample&) override {}
};
struct Greedy : SampleTransform {
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("greedy").text("A transform that wants to know replicas."); }
  Greedy(const Params&, const StepContext&) {}
  void process(Sample&, Draw&) override {}
};
struct Asks : Stage {
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("asks").text("A stage that is asked too early."); }
  static void request(const Params&, const StepContext&, CompileRequest&) {}
  Asks(const Params&, const StepContext&) {}
  void process(int, Packet, Output&) override {}
};
struct Empty : SampleTransform {
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("empty").text("A transform without process()."); }
  Empty(const Params&, const StageSite&) {}
};
struct Reads : SampleTransform {
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("reads").text("A transform that reads what it was not told."); }
  Reads(const Params&, const StageSite& site) : image(site.image) {}
  void process(Sample&, Draw&) override {}
  ImageShape image;
};

MILLRACE_PLUGIN("wrong", "1.0", "Wrong stages.") {
  registry.add_stage<Early>();
  registry.add_stage<Greedy>();
  registry.add_stage<Asks>();
  registry.add_stage<Empty>();
}
"""
ANSWERS = [
    "a source is made before its data are known: its constructor takes (const Params&, const millrace::StageSite&)",
    "replicas and steps are known after `batch` alone: the constructor of a SampleTransform or a Batcher takes "
    "(const Params&, const millrace::StageSite&) or (const Params&, const millrace::DataContext&)",
    "request() is called before the network is compiled: it takes (const Params&, const millrace::StageSite&, "
    "millrace::CompileRequest&), or DataContext instead of StageSite",
    "the stage lacks a function that its base class declares as `= 0`",
    "named 'image'",  # 'const struct millrace::StageSite' has no member named 'image'
]


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    command = [sys.argv[2], "-std=c++20", "-fsyntax-only", "-I", str(root / "framework/include"), "-x", "c++", "-"]
    run = subprocess.run(command, input=STAGES, capture_output=True, text=True, check=False,
                         env={**os.environ, "LC_ALL": "C"})
    missing = [answer for answer in ANSWERS if answer not in run.stderr]
    if run.returncode == 0 or missing:
        print("the compiler does not say:", *missing, "it says:", run.stderr, sep="\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
