#include "network/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

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

// Every name that a ${...} refers to, each once and sorted.
std::vector<std::string> referred_names(const NetworkDocument& document) {
  std::vector<std::string> names;
  for (const Reference& reference : document.references) names.push_back(reference.name);
  for (const auto& [key, block] : document.blocks) names.insert(names.end(), block.names.begin(), block.names.end());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// A default that changes nothing is a misspelt one.
void check_defaults(const NetworkDocument& document, const std::string& name, const std::vector<std::string>& referred,
                    Diagnostics& errors) {
  for (const Member& member : document.defaults.table()) {
    if (std::binary_search(referred.begin(), referred.end(), member.key)) continue;
    const auto nearest = nearest_name(member.key, referred);
    errors.add(member.at, fmt::format("nothing in network '{}' refers to its default '{}'{}", name, member.key,
                                      nearest ? fmt::format("; nearest is '{}'", *nearest) : ""));
  }
}

// What ${...} stands for in the network: `given` over the document's defaults.
Value network_variables(const NetworkDocument& document, const std::string& name, const Value& given, Diagnostics& errors) {
  const std::size_t before = errors.size();
  const std::vector<std::string> known = referred_names(document);
  check_defaults(document, name, known, errors);
  for (const Member& member : given.table()) {
    if (std::binary_search(known.begin(), known.end(), member.key)) continue;
    if (const auto key = nearest_name(member.key, keys_of_every_network()); key && !nearest_name(member.key, known)) {
      errors.add(member.at, fmt::format("[network] has no key '{}'; nearest is '{}'", member.key, *key));
      continue;
    }
    report_unknown_name("network '" + name + "'", "variable", member.key, known, member.at, errors);
  }
  for (const Reference& reference : document.references) {
    if (given.find(reference.name) || document.defaults.find(reference.name)) continue;
    errors.add(reference.at,
               fmt::format("network '{0}' needs '{1}': set it in the pipeline's [network] or in the network's defaults", name,
                           reference.name));
  }
  Value variables;
  if (errors.size() == before) bind(variables, given, document.defaults, errors);
  return variables;
}

bool is_same_place(const Position& a, const Position& b) {
  return a.file && b.file && *a.file == *b.file && a.line == b.line && a.column == b.column;
}

// What is wrong where a network refers to a variable that a pipeline has given is wrong in the pipeline.
void report(const Diagnostics& mistakes, const NetworkDocument& document, const std::string& name, const Value& given,
            Diagnostics& errors) {
  for (const Diagnostics::Entry& mistake : mistakes.entries()) {
    const Value* variable = nullptr;
    std::string key;
    for (const Reference& reference : document.references) {
      if (!is_same_place(reference.at, mistake.at) || variable != nullptr) continue;
      variable = given.find(reference.name);
      key = reference.name;
    }
    if (variable == nullptr || !variable->at().file) {
      errors.add(mistake.at, mistake.message);
    } else {
      errors.add(variable->at(), fmt::format("{} = {} of network '{}': {}: {}", key, to_toml(*variable), name,
                                             to_string(mistake.at), mistake.message));
    }
  }
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
  auto network = std::make_shared<const Network>(Builder(parts, registry, mistakes).build(name, bound));
  report(mistakes, parts, name, variables, errors);
  return errors.size() == before ? network : nullptr;
}

std::shared_ptr<const Network> load_network(const std::string& path, const Value& variables, const Registry& registry,
                                            Diagnostics& errors, const Position& at) {
  const std::optional<Value> document = read_document(path, at, errors);
  if (!document) return nullptr;
  return build_network(*document, std::filesystem::path(path).stem().string(), variables, registry, errors);
}

}  // namespace millrace
