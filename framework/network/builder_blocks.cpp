// Blocks: entries that expand to one or more instances of a list of layers.
#include <fmt/format.h>

#include <algorithm>

#include "millrace/error.h"
#include "network/builder.h"
#include "network/variables.h"

namespace millrace {
namespace {

constexpr std::int64_t kMostRepetitions = 1000;
constexpr const char* kIndex = "index";  // a parameter of every block: by default the instance's number, from 0

const std::vector<std::string> kBlockKeys = {"name",   "block", "from",   "when",     "otherwise",
                                             "repeat", "first", "inline", "auxiliary"};

// Parameters of the block: those with defaults, and those that its layers refer to.
std::vector<std::string> parameter_names(const BlockDefinition& block) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const Reference& reference : block.references) add(reference.name);
  for (const Member& member : block.defaults.table()) add(member.key);
  return names;
}

// "layer1.0", "layer1.1" for "layer1", or "layer1", "layer2" for "layer#".
std::string numbered(const std::string& name, std::size_t index) {
  const std::size_t mark = name.find('#');
  if (mark == std::string::npos) return fmt::format("{}.{}", name, index);
  return fmt::format("{}{}{}", name.substr(0, mark), index + 1, name.substr(mark + 1));
}

// "a -> b -> a" if the block contains itself.
std::string recursion(const Frame& frame, const std::string& block) {
  std::string path = block;
  for (const Frame* outer = &frame; outer && !outer->block.empty(); outer = outer->outer) {
    path = outer->block + " -> " + path;
    if (outer->block == block) return path;
  }
  return {};
}

// Possible values of the only variable in a block's name, as in "stem_${stem}". "" if there is none, or no block has such a name.
std::string values_for_block(const Value& written, const std::vector<std::string>& blocks) {
  const std::vector<Reference> in_it = references(written);
  if (in_it.size() != 1) return "";
  const std::string& text = written.text();
  const std::size_t place = text.find("${"), end = text.find('}', place);
  const std::string begin = text.substr(0, place), rest = text.substr(end + 1);
  std::vector<std::string> values;
  for (const std::string& block : blocks) {
    if (block.size() <= begin.size() + rest.size() || !block.starts_with(begin) || !block.ends_with(rest)) continue;
    values.push_back(block.substr(begin.size(), block.size() - begin.size() - rest.size()));
  }
  const bool says_any = begin.empty() && rest.empty();
  return values.empty() || says_any ? "" : fmt::format("'{}' may be '{}'", in_it.front().name, fmt::join(values, "', '"));
}

}  // namespace

const BlockDefinition* Builder::block_of(const Frame& frame, const Entry& entry) {
  const Value block = resolve(*entry.table.find("block"), frame.variables, entry.errors);
  const std::string name = block.kind() == Value::Kind::text ? block.text() : found(block);
  const auto definition = document_.blocks.find(name);
  if (definition == document_.blocks.end()) {
    std::vector<std::string> names;
    if (entry.errors.names_nearest()) {
      for (const auto& [key, value] : document_.blocks) names.push_back(key);
    }
    if (const auto said = values_for_block(*entry.table.find("block"), names); !said.empty() && !nearest_name(name, names)) {
      entry.errors.add(block.at(), fmt::format("the network has no block '{}': {}", name, said));
      return nullptr;
    }
    report_unknown_name("the network", "block", name, names, block.at(), entry.errors);
    return nullptr;
  }
  if (const std::string path = recursion(frame, name); !path.empty()) {
    entry.errors.add(block.at(), fmt::format("block '{}' contains itself: {}", name, path));
    return nullptr;
  }
  return definition->second.layers ? &definition->second : nullptr;
}

// The parameters given to each instance.
std::vector<Value> Builder::instances_of(const Frame& frame, const Entry& entry, const BlockDefinition& block) {
  const std::vector<std::string> parameters = parameter_names(block);
  const std::string owner = "block '" + block.name + "'";
  const Value given = parameters_of(frame, entry, kBlockKeys, parameters, owner);

  std::int64_t count = 1;
  if (const Value* repeat = entry.table.find("repeat")) {
    const Value value = resolve(*repeat, frame.variables, entry.errors);
    if (value.kind() == Value::Kind::integer && value.integer() >= 1 && value.integer() <= kMostRepetitions) {
      count = value.integer();
    } else {
      entry.errors.add(repeat->at(),
                       fmt::format("'repeat' must be an integer between 1 and {}, found {}", kMostRepetitions, found(value)));
    }
  }
  std::vector<Value> instances(static_cast<std::size_t>(count), given);
  const bool has_index = given.find(kIndex) || block.defaults.find(kIndex) || variables_.find(kIndex);
  for (std::int64_t i = 0; i < count && !has_index; ++i) instances[static_cast<std::size_t>(i)].set(kIndex, Value(i));
  if (const Value* first = entry.table.find("first")) {
    if (first->kind() != Value::Kind::table) {
      entry.errors.add(first->at(), fmt::format("'first' must be a table of parameters, found {}", found(*first)));
    } else {
      const Value changes = parameters_of(frame, {*first, entry.name, entry.previous, entry.errors}, {}, parameters, owner);
      for (const Member& member : changes.table()) instances.front().set(member.key, member.value);
    }
  }
  require_references(entry, block, instances);
  return instances;
}

// Checks that each instance has all parameters that the block refers to.
void Builder::require_references(const Entry& entry, const BlockDefinition& block, const std::vector<Value>& instances) {
  std::set<std::string> missing;
  for (const Reference& reference : block.references) {
    const std::string& name = reference.name;
    const auto has = [&](const Value& instance) {
      return instance.find(name) || block.defaults.find(name) || variables_.find(name);
    };
    if (std::all_of(instances.begin(), instances.end(), has) || !missing.insert(name).second) continue;
    std::vector<std::string> names;
    for (const Value* table : std::initializer_list<const Value*>{&entry.table, &block.defaults, &variables_}) {
      for (const Member& member : table->table()) {
        if (table != &entry.table || std::ranges::find(kBlockKeys, member.key) == kBlockKeys.end()) names.push_back(member.key);
      }
    }
    if (const auto nearest = nearest_name(name, names)) {
      entry.errors.add(reference.at,
                       fmt::format("block '{}': '${{{}}}' refers to nothing; nearest is '${{{}}}'", block.name, name, *nearest));
    } else {
      entry.errors.add(entry.table.at(),
                       fmt::format("'{}' does not say '{}', which block '{}' needs", entry.name, name, block.name));
    }
  }
}

LayerPort Builder::place_block(Frame& frame, const Entry& entry, const std::vector<LayerPort>& inputs) {
  const std::size_t before = entry.errors.size();
  const BlockDefinition* block = block_of(frame, entry);
  if (!block) return kUnknownLayer;
  if (inputs.size() != 1) {
    entry.errors.add(entry.table.at(), fmt::format("'{}': a block takes one input, found {}", entry.name, inputs.size()));
  }
  const std::vector<Value> instances = instances_of(frame, entry, *block);
  const Value* written = entry.table.find("inline");
  const bool is_inline = written && is_true(frame, entry, "inline", *written);
  if (entry.errors.size() != before) return kUnknownLayer;

  LayerPort output = inputs.front();
  for (std::size_t i = 0; i < instances.size(); ++i) {
    const bool repeats = entry.table.find("repeat") != nullptr;
    const std::string name = repeats ? numbered(entry.name, i) : entry.name;
    output = expand(frame, entry, *block, is_inline ? "" : name + ".", output, instances[i]);
    if (repeats) frame.define(name, output);
  }
  return output;
}

LayerPort Builder::expand(Frame& frame, const Entry& entry, const BlockDefinition& block, const std::string& prefix,
                          LayerPort input, const Value& given) {
  const std::size_t before = entry.errors.size();
  Frame inner;
  inner.outer = &frame;
  inner.block = block.name;
  inner.prefix = frame.prefix + prefix;
  inner.variables = variables_;
  inner.input = input;
  bind(inner.variables, given, block.defaults, entry.errors);
  if (entry.errors.size() != before) return kUnknownLayer;
  const std::size_t known = errors_.size();
  const LayerPort output = lay_out(inner, *block.layers);
  for (std::size_t i = known; i < errors_.size(); ++i) {
    const Position &mistake = errors_.entries()[i].at, &use = entry.table.at();
    if (mistake.file && use.file && *mistake.file != *use.file) uses_.emplace(i, BlockUse{block.name, use});
  }
  return output;
}

}  // namespace millrace
