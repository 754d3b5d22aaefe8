// Registers one stage, then fails: its second stage has the same name.
#include "millrace/plugin.h"

namespace {

using namespace millrace;

class Twice : public SampleTransform {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("twice").text("Does nothing."); }
  Twice(const Params&, const StageSite&) {}
  void process(Sample&, Draw&) override {}
};

}  // namespace

MILLRACE_PLUGIN("half_registered", "1.0", "Fails half way.") {
  registry.add_stage<Twice>();
  registry.add_stage<Twice>();
}
