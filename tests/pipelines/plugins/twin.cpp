// A plugin that registers names of ours: one stage, after another whose name is free.
#include "millrace/plugin.h"
#include "millrace/stage.h"

namespace {

using namespace millrace;

class Named : public SampleTransform {
 public:
  struct Params {};
  void process(Sample&, Draw&) override {}
};

class Free : public Named {
 public:
  static void describe(StageDescription<Params>& d) { d.name("free_name").text("Does nothing."); }
  Free(const Params&, const StageSite&) {}
};

class Taken : public Named {
 public:
  static void describe(StageDescription<Params>& d) { d.name("augment").text("Does nothing."); }
  Taken(const Params&, const StageSite&) {}
};

}  // namespace

MILLRACE_PLUGIN("twin", "1.0", "Has the name of a stage of ours.") {
  registry.add_stage<Free>();
  registry.add_stage<Taken>();
}
