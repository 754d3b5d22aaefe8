#include "millrace/stage.h"
#include "millrace/batch.h"

#include <utility>

#include "millrace/detail/random.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/sample_cache.h"
#include "millrace/util/telemetry.h"

namespace millrace {

Share StepContext::share_of(const Batch& batch) const {
  const auto all = split(batch.global_count, all_replicas(), load);
  Share share = all[static_cast<std::size_t>(first_replica + replica)];
  share.begin -= batch.first_slot;
  return share;
}

std::string StageSite::place() const { return place_of_stage(at, graph, name); }

std::string place_of_stage(const Position& at, std::string_view graph, std::string_view name) {
  return fmt::format("{}{}[{}.{}]", to_string(at), at.file ? ": " : "", graph, name);
}

Output::Hold::Hold(Output& output) : output_(&output) { output.begin_hold(); }
Output::Hold::Hold(Hold&& other) noexcept : output_(std::exchange(other.output_, nullptr)) {}
Output::Hold::~Hold() {
  if (output_) output_->end_hold();
}

std::uint64_t Source::listing_hash() const {
  std::uint64_t hash = mix64(size());
  for (std::uint64_t index = 0; index < size(); ++index) hash = combine(hash, static_cast<std::uint64_t>(label(index)));
  return hash;
}

namespace {

// An earlier stage emitted other images than it declared; otherwise the plan would have been refused.
[[noreturn]] void refuse_image(const Sample& sample) {
  fail(ErrorKind::usage, "sample '{}': an image of {} arrives, but 8-bit images of one frame were announced", sample.place(),
       to_string(sample.image().shape));
}

// Caches and recipes rely on is_random(): undeclared draws would repeat in every epoch, or be missing in a prediction.
[[noreturn]] void refuse_draw(const Sample& sample) {
  fail(ErrorKind::usage,
       "sample '{}': the stage drew a random number, but its is_random() returns false: a class that uses its Draw overrides "
       "is_random()",
       sample.place());
}

}  // namespace

void SampleTransform::process(int, Packet packet, Output& output) {
  const Batch& batch = static_cast<const Batch&>(*packet.payload);
  const auto* cache = dynamic_cast<const SampleCache*>(this);
  const bool makes_resident = cache != nullptr && cache->on_device();
  const bool random = is_random();
  SampleWatch* const watch = SampleWatch::current();
  std::uint32_t next = 0;
  for (Sample& sample : batch.chunk(packet)) {
    if (watch != nullptr) watch->begins(next++);
    if (sample.cached) {
      sample.cached = cache == nullptr;  // later stages must process it again
      if (makes_resident) sample.set_resident();
      continue;
    }
    if (sample.fault) continue;
    if (!site_.any_image && !sample.image().shape.is_plain()) refuse_image(sample);
    Draw draw(site_.seed, sample.key, site_.name_hash);
    try {
      process(sample, draw);
    } catch (...) {
      Error error = current_error();
      if (error.kind() != ErrorKind::content) throw error.in("sample '" + sample.place() + "'");
      sample.fault = SampleFault{site_.name, error.what()};
    }
    if (watch != nullptr) watch->done();
    if (makes_resident) sample.set_resident();
    if (draw.hash() == 0) continue;
    if (!random) refuse_draw(sample);
    sample.hash = combine(sample.hash, draw.hash());
  }
  output.emit(0, std::move(packet));
}

void StageTypeAccess::place(SampleTransform& transform, const StageAttributes& attributes, const DataContext& context) {
  transform.site_ = {context.image, attributes.traits_.any_image, context.name, context.seed, hash_text(context.name)};
}

}  // namespace millrace
