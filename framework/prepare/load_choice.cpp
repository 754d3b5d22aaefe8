#include "prepare/load_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>

#include "millrace/util/wire.h"

namespace millrace {
namespace {

constexpr double kStep = 0.05, kAlike = 0.9;  // in shares: smaller differences are noise
constexpr int kWarmUp = 3, kLeastPasses = 3;
constexpr std::chrono::duration<double> kMeasured{0.5};
constexpr std::uint32_t kSamples = 8;  // per replica and piece while the batch size is unknown

// Black images with label 0.
class BlackBatch final : public Batch {
 public:
  BlackBatch(const GraphBuild& build, const ImageShape& seen, std::uint32_t size, Device& device)
      : slots_(size), slot_records_(size), slot_labels_(size, 0), slot_weights_(size, 1.0F), slot_rows_(size + 1, 0U) {
    count = global_count = size;
    weight = size;
    image = build.data().image;
    window = seen;
    target = build.data().target;
    memory_ = device.host_buffer(image.bytes() * size);
    samples = slots_;
    pixels = memory_.get();
    if (target.kind != TargetSpec::Kind::none) {
      target_memory_ = device.host_buffer(target_bytes() * size);
      targets = target_memory_.get();
    }
    numbers_per_sample = build.data().source ? build.data().source->numbers() : 0;
    slot_numbers_.resize(std::size_t{size} * numbers_per_sample);
    numbers = slot_numbers_.data();
    if (build.data().source && build.data().source->has_rows()) row_offsets = slot_rows_.data();
    records = slot_records_.data();
    labels = slot_labels_.data();
    weights = slot_weights_.data();
  }

 private:
  std::shared_ptr<std::uint8_t[]> memory_, target_memory_;
  std::vector<Sample> slots_;
  std::vector<AugmentationRecord> slot_records_;
  std::vector<std::int32_t> slot_labels_;
  std::vector<float> slot_weights_, slot_numbers_;
  std::vector<std::uint32_t> slot_rows_;
};

// Samples per second in the fastest pass: other work on the machine can only slow a pass down.
double speed_of(Replica& replica, const Ref<Batch>& batch) {
  using Clock = std::chrono::steady_clock;
  std::uint64_t step = 0;
  const auto pass = [&] {
    replica.ingest(batch, 0, batch->count);
    replica.forward(step++);
    replica.finish();
  };
  for (int i = 0; i < kWarmUp; ++i) pass();
  const auto began = Clock::now();
  std::chrono::duration<double> shortest = std::chrono::duration<double>::max();
  for (int passes = 0; passes < kLeastPasses || Clock::now() - began < kMeasured; ++passes) {
    const auto begins = Clock::now();
    pass();
    shortest = std::min<std::chrono::duration<double>>(shortest, Clock::now() - begins);
  }
  return batch->count / std::max(shortest.count(), 1e-9);
}

// Images per second of each replica of this process; 0 for one without images to compute.
std::vector<double> speeds_here(const PreparedRun& run, ReplicaSet::Compiling compiling) {
  compiling.is_trial = true;
  const Replicas replicas = run.replicas.compiled(compiling);
  const std::uint32_t pieces = run.replicas.request().micro_batches;
  const auto all = static_cast<std::uint32_t>(run.replicas.all());
  const std::uint32_t count = std::max(run.main().data().batch.size / all / pieces, 1U);
  for (const auto& replica : replicas) replica->start();
  if (run.options.group != nullptr) run.options.group->barrier(Group::kRun);  // all measure at the same time
  std::vector<double> speeds(replicas.size(), 0);
  std::vector<std::optional<Error>> errors(replicas.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < replicas.size(); ++r) {
      threads.emplace_back([&, r] {
        try {
          Device& device = *run.replicas.devices().devices[r];
          speeds[r] = speed_of(*replicas[r], make_ref<BlackBatch>(run.main(), run.pipeline.network->input, count, device));
        } catch (...) {
          errors[r] = current_error();
        }
      });
    }
  }
  for (const auto& error : errors) {
    if (error) throw Error(*error);
  }
  return speeds;
}

}  // namespace

bool measures_load(const Pipeline& pipeline) {
  const Value* const run = pipeline.resolved.find("run");
  const Value* const load = run != nullptr ? run->find("load") : nullptr;
  return load != nullptr && load->kind() == Value::Kind::text;
}

std::vector<double> shares_of(const std::vector<double>& samples_per_second) {
  if (samples_per_second.empty()) return {};
  const auto [least, most] = std::ranges::minmax(samples_per_second);
  if (!(least > 0) || !std::isfinite(most) || least >= kAlike * most) return {};
  std::vector<double> shares;
  for (const double speed : samples_per_second) {
    const double steps = std::max(std::round(speed / most / kStep), 1.0);
    shares.push_back(std::round(steps * kStep * 100) / 100);  // 0.35 instead of 0.35000000000000003
  }
  return shares;
}

std::vector<double> kept_load(const Value& then, std::size_t replicas) {
  std::vector<double> load;
  const Value* const run = then.find("run");
  const Value* const shares = run != nullptr ? run->find("load") : nullptr;
  if (shares == nullptr || shares->kind() != Value::Kind::array || shares->array().size() != replicas) return load;
  for (const Value& share : shares->array()) load.push_back(share.number());
  return load;
}

std::string load_text(const std::vector<double>& load) { return fmt::format("[{}]", fmt::join(load, ", ")); }

void choose_load(PreparedRun& run, const ReplicaSet::Compiling& compiling) {
  if (run.replicas.all() < 2 || !run.main().trains()) return;
  if (run.resume_point && run.resume_point->checkpoint.state.replicas == run.replicas.all()) {
    run.load_choice =
        fmt::format("load: {} (the checkpoint's)", run.replicas.load().empty() ? "equal shares" : load_text(run.replicas.load()));
    return;
  }
  if (run.options.only_check) {
    run.load_choice = "load: measured when the run starts; equal shares here";
    return;
  }
  run.options.doing("measuring the replicas");
  GraphBuild& main = *run.builds.front();
  const auto all = static_cast<std::uint32_t>(run.replicas.all());
  if (main.data().chooses_batch) main.set_batch_size(all * run.replicas.request().micro_batches * kSamples);
  std::vector<double> speeds = speeds_here(run, compiling);
  if (Group* const group = run.options.group; group != nullptr) {
    const std::vector<double> mine = std::exchange(speeds, {});
    for (const auto& each : group->all_gather(Group::kRun, WireWriter().put(mine).bytes())) {
      std::ranges::copy(WireReader(each).list<double>(), std::back_inserter(speeds));
    }
  }
  run.replicas.set_load(shares_of(speeds));
  const std::string load = run.replicas.load().empty() ? "equal shares" : load_text(run.replicas.load());
  run.load_choice = fmt::format("load: {} (measured: {:.0f} images/s forward)", load, fmt::join(speeds, ", "));
}

}  // namespace millrace
