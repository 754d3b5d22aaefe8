#include "mix.h"

#include <algorithm>
#include <cassert>
#include <set>

#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/sample.h"

namespace millrace {

namespace {

std::vector<std::string> sampling_keys() {
  ParamSet<SourceParams> set;
  SourceParams::describe(set);
  std::vector<std::string> keys;
  for (const ParamInfo& info : set.infos()) keys.push_back(info.name);
  return keys;
}

// The alternative for a single source.
std::string_view way_out(std::string_view key) {
  if (key == "limit" || key == "only" || key == "part" || key == "part_seed")
    return ", where it chooses among the samples of all sources; to choose among those of one, read a list of them (read_list)";
  if (key == "balance" || key == "class_weights") return "; how often the samples of one source come is its `weight`";
  return "";
}

const StageType* find_type(const Value& stage, const std::string& owner, const Registry& registry, Diagnostics& errors) {
  if (stage.kind() != Value::Kind::text) {
    errors.add(stage.at(), fmt::format("'stage' of {} must be text, found {}", owner, found(stage)));
    return nullptr;
  }
  const StageType* type = registry.stages().find(stage.text());
  if (type != nullptr && type->role == StageType::Role::source) return type;
  std::vector<std::string> names;
  for (const auto& [name, other] : registry.stages()) {
    if (other.role == StageType::Role::source) names.push_back(name);
  }
  const auto nearest = nearest_name(stage.text(), names);
  errors.add(stage.at(),
             fmt::format("'{}' is not a source{}", stage.text(), nearest ? fmt::format("; nearest is '{}'", *nearest) : ""));
  return nullptr;
}

// Removes the mixture's keys from `table`, leaving the source's parameters.
void take_weight(Value& table, Child& child, Diagnostics& errors) {
  const Value* weight = table.find("weight");
  if (weight == nullptr) return;
  if (weight->is_number() && weight->number() > 0) {
    child.weight = weight->number();
  } else {
    errors.add(weight->at(), fmt::format("'weight' of {} must be a number above 0, found {}", child.name, found(*weight)));
  }
  table.erase("weight");
}

void make_child(Value table, const StageSite& mixture, Child& child, Diagnostics& errors) {
  StageSite site = mixture;
  site.name += "." + child.name;
  site.at = table.at();
  const std::string owner = fmt::format("[{}.{}]", site.graph, site.name);
  if (table.kind() != Value::Kind::table || table.find("stage") == nullptr) {
    errors.add(table.at(),
               fmt::format("{} must be a table with a `stage`, such as {{ stage = \"read_folder\", path = \"...\" }}", owner));
    return;
  }
  for (const std::string& key : sampling_keys()) {
    const auto member = std::find_if(table.table().begin(), table.table().end(), [&](const Member& m) { return m.key == key; });
    if (member == table.table().end()) continue;
    errors.add(member->at, fmt::format("{}: '{}' applies to a whole mixture: put it into [{}.{}]{}", owner, key, mixture.graph,
                                       mixture.name, way_out(key)));
    table.erase(key);
  }
  take_weight(table, child, errors);
  const StageType* type = find_type(*table.find("stage"), owner, *mixture.registry, errors);
  table.erase("stage");
  if (type == nullptr) return;
  try {
    child.source = std::static_pointer_cast<Source>(type->create(table, site, errors));
  } catch (Error& error) {
    throw error.in(child.name);
  }
}

// Makes a source from each table in `list`: `stage` names its type, `weight` belongs to the mixture, and the rest are its
// parameters. Errors go to `errors`, with their places in the file; the result is then unusable.
std::vector<Child> make_children(const Value& list, const StageSite& site, Diagnostics& errors) {
  std::vector<Child> children;
  if (list.kind() != Value::Kind::array || list.array().empty()) {
    errors.add(list.at(), fmt::format("'sources' must be a list of tables, found {}",
                                      list.kind() == Value::Kind::array ? "an empty one" : found(list)));
    return children;
  }
  for (const Value& table : list.array()) {
    Child& child = children.emplace_back();
    child.name = fmt::format("sources[{}]", children.size() - 1);
    make_child(table, site, child, errors);
  }
  return children;
}

// The classes of all sources, and each child's `labels`: one list if all have the same, otherwise every name once, sorted
// bytewise. Throws ErrorKind::usage if only some have classes.
std::vector<std::string> unite_classes(std::vector<Child>& children) {
  const std::vector<std::string> first = children.front().source->classes();
  std::set<std::string> names(first.begin(), first.end());
  bool all_equal = true;
  for (Child& child : children) {
    const std::vector<std::string> own = child.source->classes();
    if (own.empty() != first.empty()) {
      fail(ErrorKind::usage, "{} has classes, {} has none: they cannot be mixed",
           own.empty() ? children.front().name : child.name, own.empty() ? child.name : children.front().name);
    }
    all_equal = all_equal && own == first;
    names.insert(own.begin(), own.end());
  }
  if (all_equal) return first;
  const std::vector<std::string> united(names.begin(), names.end());
  for (Child& child : children) {
    for (const std::string& name : child.source->classes()) {
      child.labels.push_back(static_cast<std::int32_t>(std::lower_bound(united.begin(), united.end(), name) - united.begin()));
    }
  }
  return united;
}

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
    fail(ErrorKind::usage, "{} and {} have different targets: they cannot be mixed", child.name, first.name);
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
