#include "prepare/batch_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/detail/split.h"
#include "millrace/util/wire.h"

namespace millrace {
namespace {

// The first graph with an automatic size.
const GraphBuild& first_of(const Builds& builds) {
  return **std::ranges::find_if(builds, [](const auto& build) { return build->data().chooses_batch; });
}

}  // namespace

BatchChoice::BatchChoice(const Builds& builds, Group* group, Compile compile)
    : builds_(builds), group_(group), compile_(std::move(compile)) {}

bool BatchChoice::is_open(const Builds& builds) {
  return std::ranges::any_of(builds, [](const auto& build) { return build->data().chooses_batch; });
}

std::string BatchChoice::place(const Builds& builds) {
  const GraphBuild& build = first_of(builds);
  const StagePlan& batcher = *build.data().batcher;
  const Value* size = batcher.table.find("size");
  return place_of_stage(size ? size->at() : batcher.table_at(), build.plan().name, batcher.name) + " size = \"auto\"";
}

std::uint64_t BatchChoice::most_samples() const {
  constexpr std::uint64_t kMax = 1 << 24;
  std::uint64_t most = 1;
  for (const auto& build : builds_) {
    if (build->data().chooses_batch) most = std::max(most, std::min(build->data().samples_per_epoch, kMax));
  }
  return most;
}

void BatchChoice::keep(std::uint32_t size) {
  try {
    if (!fits(size)) fail(ErrorKind::usage, "the run began with {}, which no longer fits: {}", size, lack_);
  } catch (Error& error) {
    throw error.in(place(builds_));
  }
  text_ = fmt::format("batch size: {} (the checkpoint's)", size);
}

void BatchChoice::choose(std::uint32_t least) {
  try {
    const std::uint32_t mine =
        largest_batch(least, static_cast<std::uint32_t>(most_samples()), [this](std::uint32_t size) { return fits(size); });
    const std::uint32_t all = agreed(mine);
    if (all != mine) {
      if (!fits(all)) fail(ErrorKind::usage, "the batch of other processes does not fit here: {}", lack_);
      lack_ = "another process has no memory for more";
    }
    set(all);
  } catch (Error& error) {
    throw error.in(place(builds_));
  }
  const GraphBuild& first = first_of(builds_);
  const std::uint32_t size = first.data().batch.size;
  const std::string why = size == first.data().samples_per_epoch ? "all samples of an epoch" : lack_.substr(0, lack_.find('\n'));
  text_ = fmt::format("batch size: {}{}", size, why.empty() ? "" : fmt::format(" ({})", why));
}

// Limited to the samples that a graph has.
void BatchChoice::set(std::uint32_t size) {
  for (const auto& build : builds_) {
    if (!build->data().chooses_batch) continue;
    const std::uint64_t most = std::max<std::uint64_t>(build->data().samples_per_epoch, 1);
    build->set_batch_size(static_cast<std::uint32_t>(std::min<std::uint64_t>(size, most)));
  }
}

bool BatchChoice::fits(std::uint32_t size) {
  set(size);
  refused_.reset();
  try {
    const std::string lack = compile_();
    if (lack.empty()) return true;
    lack_ = fmt::format("with {}, {}", size, lack);
  } catch (const Error& error) {
    refused_ = error;
    lack_ = error.what();
  }
  return false;
}

// The least size of all processes. Throws if any has found none.
std::uint32_t BatchChoice::agreed(std::uint32_t mine) const {
  if (group_ == nullptr) {
    if (mine > 0) return mine;
    if (refused_) throw *refused_;
    fail(ErrorKind::usage, "no batch fits: {}", lack_);
  }
  std::uint32_t least = mine;
  const auto all = group_->all_gather(Group::kRun, WireWriter().put(mine).put(lack_).bytes());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    WireReader reader(all[rank]);
    const auto theirs = reader.get<std::uint32_t>();
    if (theirs == 0) {
      group_->leave(nullptr);  // in good order: all processes find the same, so none is lost
      fail(ErrorKind::usage, "no batch fits: process {}: {}", rank, reader.get<std::string>());
    }
    least = std::min(least, theirs);
  }
  return least;
}

std::uint32_t take_batch_size(const Builds& builds, const Value& then) {
  std::uint32_t kept = 0;
  for (const auto& build : builds) {
    const Value* graph = build->data().chooses_batch ? then.find(build->plan().name) : nullptr;
    const Value* batcher = graph != nullptr ? graph->find(build->data().batcher->name) : nullptr;
    const Value* size = batcher != nullptr ? batcher->find("size") : nullptr;
    if (size == nullptr || size->kind() != Value::Kind::integer) continue;
    build->set_batch_size(static_cast<std::uint32_t>(size->integer()));
    kept = std::max(kept, build->data().batch.size);
  }
  return kept;
}

void limit_batch(GraphBuild& build, std::size_t replicas, const std::vector<double>& load) {
  const BatchSpec& batch = build.data().batch;
  if (build.data().source == nullptr || build.trains() || batch.last != BatchSpec::Last::keep ||
      batch.size <= build.data().samples_per_epoch)
    return;
  const auto samples = static_cast<std::uint32_t>(build.data().samples_per_epoch);
  if (replicas > 0) {
    const auto without = [](const Share& share) { return share.count == 0; };
    if (std::ranges::any_of(split(samples, replicas, load), without)) return;
  }
  build.set_batch_size(samples);
}

namespace {

constexpr std::uint64_t kMultiple = 8;   // times the least size
constexpr std::uint64_t kFineness = 16;  // sizes between two powers of two

using Fits = std::function<bool(std::uint64_t)>;

// Below the first size tried.
std::uint64_t small_batch(std::uint64_t least, std::uint64_t below, const Fits& fits) {
  for (std::uint64_t size = kMultiple / 2 * least; size >= least; size /= 2) {
    if (size < below && fits(size)) return size;
  }
  return 0;
}

// Between `low`, which fits, and `high`, which does not.
std::uint64_t between(std::uint64_t low, std::uint64_t high, std::uint64_t multiple, const Fits& fits) {
  const std::uint64_t step = std::max(multiple, low / kFineness);
  std::uint64_t best = 0, too_many = (high - low + step - 1) / step;
  while (too_many - best > 1) {
    const std::uint64_t middle = (best + too_many) / 2;
    (fits(low + middle * step) ? best : too_many) = middle;
  }
  return low + best * step;
}

}  // namespace

std::uint32_t largest_batch(std::uint32_t least, std::uint32_t most, const std::function<bool(std::uint32_t)>& fits) {
  const Fits asks = [&](std::uint64_t size) { return fits(static_cast<std::uint32_t>(size)); };
  const std::uint64_t multiple = kMultiple * least;
  std::uint64_t low = std::min<std::uint64_t>(multiple, most);
  if (!asks(low)) return static_cast<std::uint32_t>(small_batch(least, low, asks));
  while (low < most) {
    const std::uint64_t next = std::min<std::uint64_t>(2 * low, most);
    if (!asks(next)) return static_cast<std::uint32_t>(between(low, next, multiple, asks));
    low = next;
  }
  return static_cast<std::uint32_t>(low);
}

}  // namespace millrace
