#include "prepare/data_line.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "millrace/detail/random.h"
#include "millrace/error.h"
#include "millrace/util/sample_cache.h"

namespace millrace {
namespace {

Source& source_of(const GraphBuild& build) {
  if (!build.data().source) fail(ErrorKind::usage, "[{}] has no source", build.plan().name);
  return *build.data().source;
}

}  // namespace

DataLine::DataLine(const GraphBuild& build, std::uint64_t seed)
    : build_(build),
      source_(source_of(build)),
      source_name_(build.plan().stages.front().name),
      seed_(seed),
      order_(source_, combine(seed, hash_text(source_name_))),
      target_(build.data().target) {
  for (std::size_t s = 0; s < build.stages().size(); ++s) {
    const StagePlan& plan = build.plan().stages[s];
    if (plan.type->role == StageType::Role::batcher) break;
    Stage* stage = build.stages()[s].front().get();
    auto* transform = dynamic_cast<SampleTransform*>(stage);
    if (!transform || dynamic_cast<SampleCache*>(stage)) continue;
    build.open_stage(s);
    steps_.push_back({transform, plan.name, hash_text(plan.name)});
  }
}

void DataLine::load(const SampleKey& key, Depth depth, Sample& sample) const {
  sample.reset(key, {}, target_);
  std::string stage = source_name_;
  try {
    source_.read(sample);
    sample.label = order_.label(sample.label);
    if (depth == Depth::encoded) return;
    for (const Step& step : steps_) {
      stage = step.name;
      Draw draw(seed_, key, step.hash);
      step.transform->process(sample, draw);
    }
  } catch (...) {
    Error error = current_error();
    if (error.kind() != ErrorKind::content) throw error.in("sample '" + sample.place() + "'");
    sample.fault = SampleFault{stage, error.what()};
  }
}

void for_each_sample(std::uint64_t count, unsigned threads, const std::function<void(std::uint64_t i, unsigned thread)>& work) {
  std::atomic<std::uint64_t> next{0};
  std::atomic<bool> stopped{false};
  std::mutex mutex;
  std::exception_ptr first;
  const auto run = [&](unsigned thread) {
    try {
      for (std::uint64_t i = next++; i < count && !stopped; i = next++) work(i, thread);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
      stopped = true;
    }
  };
  std::vector<std::jthread> others;  // also joined if the system cannot start more
  for (unsigned thread = 1; thread < std::max(threads, 1U); ++thread) others.emplace_back(run, thread);
  run(0);
  for (std::jthread& other : others) other.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace millrace
