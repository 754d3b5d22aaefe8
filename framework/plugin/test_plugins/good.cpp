// A valid plugin: one stage that adds a number to a label, and one backend without devices.
#include "millrace/backend/backend.h"
#include "millrace/plugin.h"

namespace {

using namespace millrace;

class AddToLabel : public SampleTransform {
 public:
  struct Params {
    std::int64_t amount = 1;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("add_to_label").text("Adds a number to each label.");
    d.params.add("amount", &Params::amount).range(0, 9).text("what is added");
  }
  AddToLabel(const Params& params, const StageSite&) : params_(params) {}
  void process(Sample& sample, Draw&) override { sample.label += static_cast<std::int32_t>(params_.amount); }

 private:
  Params params_;
};

class NoDevices : public Backend {
 public:
  std::string name() const override { return "no_devices"; }
  std::vector<DeviceInfo> devices() override { return {}; }
  std::string unavailable_reason() override { return "it has none"; }
  std::unique_ptr<Device> open(int, const DeviceOptions&) override { fail(ErrorKind::device, "there is no device"); }
};

}  // namespace

MILLRACE_PLUGIN("good", "1.2", "A stage and a backend.") {
  registry.add_stage<AddToLabel>();
  registry.add(BackendType{{"no_devices", "Nothing."}, [] { return std::make_shared<NoDevices>(); }});
}
