#include "mix.h"

#include <algorithm>
#include <cassert>

#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/sample.h"

namespace millrace {

namespace {

std::int32_t united_label(const Child& child, std::int32_t own) {
  return child.labels.empty() || own < 0 ? own : child.labels[static_cast<std::size_t>(own)];
}

bool is_target(const std::optional<TargetSpec>& spec) { return spec && spec->kind != TargetSpec::Kind::none; }

bool same(const std::optional<TargetSpec>& a, const std::optional<TargetSpec>& b) {
  if (!is_target(a) || !is_target(b)) return !is_target(a) && !is_target(b);
  if (a->kind != b->kind || a->scale != b->scale) return false;
  return a->kind != TargetSpec::Kind::classes || (a->ignored == b->ignored && a->classes == b->classes);
}

}  // namespace

void Mix::describe(StageDescription<Params>& d) {
  d.name("mix").text("Reads from several sources in proportion to their weights.");
  d.params.add("sources", &Params::sources)
      .required()
      .text("a table per source: `stage` is its type, `weight` its share of an epoch; the rest are its own parameters");
  SourceParams::describe(d.params);
}

Mix::Mix(const Params& params, const StageSite& site) : Source(params) {
  Diagnostics errors;
  children_ = make_children(params.sources, site, errors);
  errors.throw_if_any();
  require_same_targets();
}

void Mix::require_same_targets() const {
  const Child& first = children_.front();
  for (const Child& child : children_) {
    if (same(child.source->target(), first.source->target())) continue;
    fail(ErrorKind::usage, "{} has another target than {}: they cannot be mixed", child.name, first.name);
  }
}

void Mix::open() {
  std::uint64_t begin = 0;
  for (Child& child : children_) {
    try {
      child.source->open();
    } catch (Error& error) {
      throw error.in(child.name);
    }
    child.begin = begin;
    child.end = begin += child.source->size();
    child.labels.clear();
    if (!parts_of(*child.source).empty()) {
      fail(ErrorKind::usage, "{} is a mixture with weights of its own: name its sources here instead", child.name);
    }
    if (child.source->has_rows() != has_rows()) {
      fail(ErrorKind::usage, "one of {} and {} has rows of numbers, the other one row: sources of a mixture must agree",
           child.name, children_.front().name);
    }
    if (child.source->numbers() != numbers()) {
      fail(ErrorKind::usage, "{} has {} numbers a sample, {} has {}: they cannot be mixed", child.name, child.source->numbers(),
           children_.front().name, numbers());
    }
  }
  classes_ = unite_classes(children_);
  const auto target_spec = target();
  const bool renumbered =
      std::any_of(children_.begin(), children_.end(), [](const Child& child) { return !child.labels.empty(); });
  if (renumbered && target_spec && target_spec->kind == TargetSpec::Kind::classes) {
    fail(ErrorKind::usage, "the classes of label images must be the same, in the same order, in all sources");
  }
}

void Mix::stop() noexcept {
  for (Child& child : children_) child.source->stop();
}

const Child& Mix::child_of(std::uint64_t index) const {
  const auto child = std::upper_bound(children_.begin(), children_.end(), index,
                                      [](std::uint64_t value, const Child& entry) { return value < entry.end; });
  assert(child != children_.end());
  return *child;
}

std::vector<std::string> Mix::colours() const {
  for (const Child& child : children_) {
    if (!child.labels.empty()) return {};
    if (std::vector<std::string> colours = child.source->colours(); !colours.empty()) return colours;
  }
  return {};
}

std::int32_t Mix::label(std::uint64_t index) const {
  const Child& child = child_of(index);
  return united_label(child, child.source->label(index - child.begin));
}

std::uint32_t Mix::file_bytes(std::uint64_t index) const {
  const Child& child = child_of(index);
  const auto* sizes = dynamic_cast<const KnowsFileSizes*>(child.source.get());
  return sizes == nullptr ? 0 : sizes->file_bytes(index - child.begin);
}

bool Mix::is_missing(std::uint64_t index) const {
  const Child& child = child_of(index);
  const auto* sizes = dynamic_cast<const KnowsFileSizes*>(child.source.get());
  return sizes != nullptr && sizes->is_missing(index - child.begin);
}

bool Mix::place(std::uint64_t index, SampleOrigin& origin) const {
  const Child& child = child_of(index);
  return child.source->place(index - child.begin, origin);
}

void Mix::read(Sample& sample) {
  struct Restore {
    Sample& sample;
    std::uint64_t index;
    ~Restore() { sample.key.index = index; }
  };
  const Restore restore{sample, sample.key.index};
  const Child& child = child_of(sample.key.index);
  sample.key.index -= child.begin;
  try {
    child.source->read(sample);
  } catch (...) {
    sample.label = united_label(child, sample.label);  // bad samples are hashed and named with their label
    throw;
  }
  sample.label = united_label(child, sample.label);
}

// All have the same classes; values that one source ignores on purpose are expected in the others.
bool Mix::names(std::uint8_t value) const {
  const auto spec = target();
  const bool is_class = spec && (spec->classes[value] != spec->ignored || value == spec->ignored);
  return std::any_of(children_.begin(), children_.end(), [&](const Child& child) {
    const auto* names = dynamic_cast<const NamesLabelValues*>(child.source.get());
    return names != nullptr ? names->names(value) : is_class;
  });
}

// The sources' shape if they agree; otherwise it varies.
ImageShape Mix::image_shape() const {
  const ImageShape first = children_.front().source->image_shape();
  const bool alike =
      std::all_of(children_.begin(), children_.end(), [&](const Child& child) { return child.source->image_shape() == first; });
  return alike ? first : ImageShape{};
}

std::vector<SourcePart> Mix::parts() const {
  if (std::none_of(children_.begin(), children_.end(), [](const Child& child) { return child.weight.has_value(); })) return {};
  std::vector<SourcePart> parts;
  for (const Child& child : children_) parts.push_back({child.end - child.begin, child.weight.value_or(1)});
  return parts;
}

std::size_t Mix::largest_encoded() const {
  std::size_t largest = 0;
  for (const Child& child : children_) largest = std::max(largest, child.source->largest_encoded());
  return largest;
}

std::uint64_t Mix::fingerprint() const {
  std::uint64_t all = 1;
  for (const Child& child : children_) {
    if (child.source->fingerprint() == 0) return 0;
    all = combine(all, child.source->fingerprint());
  }
  return all;
}

std::uint64_t Mix::listing_hash() const {
  std::uint64_t all = 1;
  for (const Child& child : children_) all = combine(all, child.source->listing_hash());
  return all;
}

std::size_t Mix::memory_bound() const {
  std::size_t bytes = 0;
  for (const Child& child : children_) bytes += child.source->memory_bound();
  return bytes;
}

}  // namespace millrace

MILLRACE_PLUGIN("mix", "1.0", "Several sources as one.") { registry.add_stage<millrace::Mix>(); }
