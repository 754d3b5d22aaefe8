// A stage that blocks for ever: while it is made, opened, or given its first samples. Reports it on standard error.
#include <millrace/plugin.h>

#include <chrono>
#include <cstdio>
#include <thread>

namespace {

class Stuck : public millrace::SampleTransform {
 public:
  struct Params {
    std::string where = "process";
  };
  static void describe(millrace::StageDescription<Params>& d) {
    d.name("stuck").text("Blocks for ever.");
    d.params.add("where", &Params::where).choices({"create", "open", "process"}).text("what does not return");
  }
  Stuck(const Params& params, const millrace::StageSite&) : where_(params.where) { stay("create"); }
  void open() override { stay("open"); }
  void process(millrace::Sample&, millrace::Draw&) override { stay("process"); }

 private:
  void stay(const std::string& place) const {
    if (where_ == place) std::fputs("stuck\n", stderr);
    while (where_ == place) std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  std::string where_;
};

}  // namespace

MILLRACE_PLUGIN("stuck", "1.0", "A stage that blocks for ever.") { registry.add_stage<Stuck>(); }
