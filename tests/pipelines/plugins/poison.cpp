// Stages that plant numbers which are not finite, at one step or in one sample.
#include <millrace/backend.h>
#include <millrace/error.h>
#include <millrace/network.h>
#include <millrace/plugin.h>
#include <millrace/step.h>

#include <limits>
#include <string>
#include <vector>

namespace {

// Overwrites a parameter, or the gradients of a bucket, before one step's update.
class Poison : public millrace::Stage {
 public:
  struct Params {
    std::int64_t step = 0;
    std::string parameter;
  };
  static void describe(millrace::StageDescription<Params>& d) {
    d.name("poison").text("Plants NaN before one step's update.");
    d.input(millrace::payload::kGradientBucket).output(millrace::payload::kGradientBucket).per_replica();
    d.params.add("step", &Params::step).text("from 1; 0: never");
    d.params.add("parameter", &Params::parameter).text("where; \"\": all gradients");
  }
  Poison(const Params& params, const millrace::StageContext& context) : params_(params), context_(context) {}

  void process(int, millrace::Packet packet, millrace::Output& output) override {
    const auto& bucket = static_cast<const millrace::GradientBucket&>(*packet.payload);
    if (static_cast<std::int64_t>(bucket.step) + 1 == params_.step && bucket.bucket + 1 == bucket.buckets) plant(bucket);
    output.emit(0, std::move(packet));
  }

 private:
  void plant(const millrace::GradientBucket& bucket) {
    if (bucket.ready) bucket.ready->wait();
    constexpr float value = std::numeric_limits<float>::quiet_NaN();
    if (params_.parameter.empty()) {
      for (std::size_t i = 0; i < bucket.elements; ++i) bucket.data[i] = value;
      return;
    }
    const int p = context_.network->find_parameter(params_.parameter);
    if (p < 0) millrace::fail(millrace::ErrorKind::usage, "no parameter '{}'", params_.parameter);
    const auto count = context_.network->parameters[static_cast<std::size_t>(p)].shape.elements();
    context_.replicas[static_cast<std::size_t>(context_.replica)]->write(
        millrace::kValue, p, std::vector<float>(static_cast<std::size_t>(count), value));
  }

  const Params params_;
  const millrace::StageContext context_;
};

// The network's input of one sample, in every epoch.
class PoisonInput : public millrace::SampleTransform {
 public:
  struct Params {
    std::int64_t index = -1;
  };
  static void describe(millrace::StageDescription<Params>& d) {
    d.name("poison_input").text("Gives one sample noise without bounds.");
    d.params.add("index", &Params::index).text("of the sample in the source");
  }
  PoisonInput(const Params& params, const millrace::StageContext&) : params_(params) {}
  void process(millrace::Sample& sample, millrace::Draw&) override {
    if (static_cast<std::int64_t>(sample.key.index) == params_.index) sample.noise = std::numeric_limits<float>::infinity();
  }

 private:
  const Params params_;
};

}  // namespace

MILLRACE_PLUGIN("poison", "1.0", "Numbers that are not finite.") {
  registry.add_stage<Poison>();
  registry.add_stage<PoisonInput>();
}
