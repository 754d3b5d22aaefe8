#include "network/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "config/document.h"
#include "network/builder.h"
#include "network/network_document.h"
#include "network/transfer.h"
#include "network/variables.h"

namespace millrace {
namespace {

std::vector<std::string> keys_of_every_network() {
  ParamSet<NetworkParams> set;
  NetworkParams::describe(set);
  std::vector<std::string> keys;
  for (const ParamInfo& info : set.infos()) keys.push_back(info.name);
  return keys;
}

// All names in ${...}, distinct and sorted.
std::vector<std::string> referred_names(const NetworkDocument& document) {
  std::vector<std::string> names;
  for (const Reference& reference : document.references) names.push_back(reference.name);
  for (const auto& [key, block] : document.blocks) {
    for (const Reference& reference : block.references) names.push_back(reference.name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// Whether any entry of a list of layers passes `name` to its block.
bool is_given(const Array* entries, const std::string& name) {
  return entries != nullptr && std::any_of(entries->begin(), entries->end(), [&](const Value& entry) {
           const Value* first = entry.find("first");
           return entry.find(name) != nullptr || (first != nullptr && first->find(name) != nullptr);
         });
}

// Whether ${name} in blocks is the network's variable: no block receives a parameter of this name.
bool is_of_network(const NetworkDocument& document, const std::string& name) {
  return !is_given(document.layers, name) && std::none_of(document.blocks.begin(), document.blocks.end(), [&](const auto& block) {
    return is_given(block.second.layers, name) || block.second.defaults.find(name) != nullptr;
  });
}

// All references to the network's variables.
std::vector<Reference> references_to_variables(const NetworkDocument& document) {
  std::vector<Reference> all = document.references;
  for (const auto& [key, block] : document.blocks) {
    const auto is_variable = [&](const Reference& reference) { return is_of_network(document, reference.name); };
    std::copy_if(block.references.begin(), block.references.end(), std::back_inserter(all), is_variable);
  }
  return all;
}

// Names that a pipeline may set, among those referred to; excludes names that only blocks pass to each other.
std::vector<std::string> variables_of(const NetworkDocument& document, const std::vector<std::string>& referred) {
  std::set<std::string> names;
  for (const Member& member : document.defaults.table()) {
    if (std::binary_search(referred.begin(), referred.end(), member.key)) names.insert(member.key);
  }
  for (const Reference& reference : references_to_variables(document)) names.insert(reference.name);
  return {names.begin(), names.end()};
}

// An unused default is a misspelt one.
void check_defaults(const NetworkDocument& document, const std::string& name, const std::vector<std::string>& referred,
                    Diagnostics& errors) {
  for (const Member& member : document.defaults.table()) {
    if (std::binary_search(referred.begin(), referred.end(), member.key)) continue;
    const auto nearest = errors.names_nearest() ? nearest_name(member.key, referred) : std::nullopt;
    errors.add(member.at, fmt::format("nothing in network '{}' refers to its default '{}'{}", name, member.key,
                                      nearest ? fmt::format("; nearest is '{}'", *nearest) : ""));
  }
}

// Values for ${...} in the network: `given` over the document's defaults.
Value network_variables(const NetworkDocument& document, const std::string& name, const Value& given, Diagnostics& errors) {
  const std::size_t before = errors.size();
  const std::vector<std::string> referred = referred_names(document), known = variables_of(document, referred);
  check_defaults(document, name, referred, errors);
  for (const Member& member : given.table()) {
    if (std::binary_search(referred.begin(), referred.end(), member.key)) continue;
    const auto key = errors.names_nearest() ? nearest_name(member.key, keys_of_every_network()) : std::nullopt;
    if (key && !nearest_name(member.key, known)) {
      errors.add(
          member.at,
          fmt::format("[network] has no key '{}'; nearest is '{}'{}", member.key, *key,
                      known.empty() ? "" : fmt::format("; network '{}' has the variables '{}'", name, fmt::join(known, "', '"))));
      continue;
    }
    report_unknown_name("network '" + name + "'", "variable", member.key, known, member.at, errors);
  }
  for (const Reference& reference : document.references) {
    if (given.find(reference.name) || document.defaults.find(reference.name)) continue;
    std::vector<std::string> names;
    for (const Value* table : {&given, &document.defaults}) {
      if (!errors.names_nearest()) break;
      for (const Member& member : table->table()) names.push_back(member.key);
    }
    const auto nearest = nearest_name(reference.name, names);
    errors.add(reference.at,
               fmt::format("network '{0}' needs '{1}': set it in the pipeline's [network] or in the network's defaults{2}", name,
                           reference.name, nearest ? fmt::format("; nearest is '{}'", *nearest) : ""));
  }
  Value variables;
  if (errors.size() == before) bind(variables, given, document.defaults, errors);
  return variables;
}

bool is_same_place(const Position& a, const Position& b) {
  return a.file && b.file && *a.file == *b.file && a.line == b.line && a.column == b.column;
}

// The variable, and its `name`, that one of `references` at position `at` refers to; null if none does.
const Value* variable_at(const Position& at, const std::vector<Reference>& references, const NetworkDocument& document,
                         const Value& given, std::string& name) {
  for (const Reference& reference : references) {
    if (!is_same_place(reference.at, at)) continue;
    name = reference.name;
    if (const Value* variable = given.find(name)) return variable;
    // A default in the same file is already next to its references.
    const Value* variable = document.defaults.find(name);
    if (variable != nullptr && variable->at().file && *variable->at().file != *at.file) return variable;
  }
  return nullptr;
}

// "; with height = 1 of --set image.side": values from options, for mistakes that follow from them.
std::string given_by_options(const Value& given) {
  std::string text;
  for (const Member& member : given.table()) {
    const Position& at = member.value.at();
    if (!at.file || is_in_file(at)) continue;
    text += fmt::format("{} {} = {} of {}", text.empty() ? "; with" : ",", member.key, to_toml(member.value), to_string(at));
  }
  return text;
}

// Attributes mistakes: where a network refers to a variable set by a pipeline, to the pipeline; in a block of an extended
// network, to the file that uses the block.
void report(const Diagnostics& mistakes, const NetworkDocument& document, const std::string& name, const Value& given,
            const std::map<std::size_t, BlockUse>& uses, Diagnostics& errors) {
  if (mistakes.empty()) return;
  const std::vector<Reference> references = references_to_variables(document);
  for (std::size_t i = 0; i < mistakes.entries().size(); ++i) {
    const Diagnostics::Entry& mistake = mistakes.entries()[i];
    std::string key;
    const Value* variable = variable_at(mistake.at, references, document, given, key);
    if (variable != nullptr && variable->at().file) {
      errors.add(variable->at(), fmt::format("{} = {} of network '{}': {}: {}", key, to_toml(*variable), name,
                                             to_string(mistake.at), mistake.message));
    } else if (const auto use = uses.find(i); use != uses.end()) {
      errors.add(use->second.at, fmt::format("block '{}': {}: {}", use->second.block, to_string(mistake.at), mistake.message));
    } else {
      errors.add(mistake.at, mistake.message + given_by_options(given));
    }
  }
}

// The smallest input side that the network accepts if its variables are the input's height and width, with all else unchanged;
// empty if its mistakes are of another kind.
std::optional<std::int64_t> least_side(const NetworkDocument& document, const std::string& name, const Value& given,
                                       const Value& bound, const Registry& registry) {
  constexpr std::int64_t kLargest = 1024;
  const auto is_enough = [&](std::int64_t side) {
    Value larger = given;
    for (const char* key : {"height", "width"}) {
      larger.set(key, Value(std::max(side, bound.find(key)->integer()), bound.find(key)->at()));
    }
    Diagnostics mistakes;
    const Value variables = network_variables(document, name, larger, mistakes);
    if (mistakes.empty()) Builder(document, registry, mistakes).build(name, variables);
    return mistakes.empty();
  };
  for (const char* key : {"height", "width"}) {
    const Value* const side = bound.find(key);
    if (side == nullptr || side->kind() != Value::Kind::integer || side->integer() < 1) return std::nullopt;
  }
  std::int64_t too_small = std::min(bound.find("height")->integer(), bound.find("width")->integer()), enough = 2 * too_small;
  for (; !is_enough(enough); enough *= 2) {
    if (enough >= kLargest) return std::nullopt;
    too_small = enough;
  }
  while (enough - too_small > 1) {
    const std::int64_t middle = (too_small + enough) / 2;
    (is_enough(middle) ? enough : too_small) = middle;
  }
  // A network with merging branches accepts some sizes but not those between them; a larger size is then not the remedy.
  return is_enough(enough + 1) && is_enough(enough + 2) ? std::optional(enough) : std::nullopt;
}

// The first layer whose input is too small does not show what the network needs.
void report_small_input(std::int64_t least, const Diagnostics& mistakes, const std::string& name, const Value& bound,
                        Diagnostics& errors) {
  const Value &height = *bound.find("height"), &width = *bound.find("width");
  const Value& small = height.integer() < least ? height : width;
  const Position& layer = mistakes.entries().front().at;
  errors.add(small.at().file ? small.at() : layer,
             fmt::format("network '{}' needs an input of at least {} x {}, found {} x {}, which leaves nothing at {}", name,
                         least, least, height.integer(), width.integer(), to_string(layer)));
}

}  // namespace

std::shared_ptr<const Network> build_network(const Value& document, const std::string& name, const Value& variables,
                                             const Registry& registry, Diagnostics& errors) {
  const std::size_t before = errors.size();
  const NetworkDocument parts = read_network_document(document, name, errors);
  if (errors.size() != before) return nullptr;
  const Value bound = network_variables(parts, name, variables, errors);
  if (errors.size() != before) return nullptr;
  Diagnostics mistakes;
  Builder builder(parts, registry, mistakes);
  auto network = std::make_shared<const Network>(builder.build(name, bound));
  const auto least = mistakes.empty() ? std::nullopt : least_side(parts, name, variables, bound, registry);
  if (least) {
    report_small_input(*least, mistakes, name, bound, errors);
  } else {
    report(mistakes, parts, name, variables, builder.uses(), errors);
  }
  return errors.size() == before ? network : nullptr;
}

std::shared_ptr<const Network> load_network(const std::string& path, const Value& variables, const Registry& registry,
                                            Diagnostics& errors, const Position& at, const std::string& made_by) {
  const std::optional<Value> document = read_document(path, at, errors, made_by);
  if (!document) return nullptr;
  return build_network(*document, std::filesystem::path(path).stem().string(), variables, registry, errors);
}

}  // namespace millrace
