#include "config/network_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "config/graph_plan.h"
#include "config/plan.h"
#include "data/sample_order.h"
#include "millrace/backend/fusion.h"
#include "millrace/error.h"
#include "millrace/loss.h"
#include "millrace/source.h"
#include "millrace/stage.h"
#include "millrace/storage.h"
#include "millrace/util/paths.h"
#include "millrace/util/pattern.h"
#include "network/load.h"
#include "network/published.h"
#include "plugin/loss_params.h"
#include "plugin/silent_services.h"
#include "toml/base_files.h"
#include "toml/document.h"
#include "toml/shipped.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

class NetworkReader {
 public:
  NetworkReader(Value& table, const std::string& pipeline_file, const Registry& registry, const LoadOptions& options,
                Diagnostics& errors)
      : table_(table), pipeline_file_(pipeline_file), registry_(registry), options_(options), errors_(errors) {}

  NetworkPlan read() {
    Value* use = table_.find("use");
    if (table_.kind() != Value::Kind::table || !use) {
      report_misspelt_use();
      errors_.add(table_.at(), table_.kind() == Value::Kind::table
                                   ? "[network] needs 'use': the name of a network, or the file that describes it"
                                   : "[network] must be a table, found " + found(table_));
      return {};
    }
    if (use->kind() != Value::Kind::text) {
      errors_.add(use->at(), fmt::format("'use' must be text, the name of a network or a file, found {}", found(*use)));
      return {};
    }
    const std::optional<std::string> file = existing_network(*use);
    if (!file) return {};
    const bool is_of_zoo = is_shipped_name(use->text());
    *use = Value(*file, use->at());
    if (!options_.other_weights) find_weights(*file);
    const Value variables = read_params();
    try {
      const bool made = use->at().file && *use->at().file == options_.made_by;
      Diagnostics mistakes;
      plan_.network = load_network(*file, variables, registry_, mistakes, use->at(), made ? options_.made_by : "");
      for (const Diagnostics::Entry& each : mistakes.entries()) {
        const bool is_there = is_of_zoo && is_in_file(each.at) && is_in_same_folder(*each.at.file, *file);
        errors_.add(is_there ? used_in(places_of(variables, use->at()), each.at) : each.at, each.message);
      }
    } catch (const Error& error) {
      errors_.add(use->at(), error.what());
    }
    if (plan_.network) apply_patterns();
    return std::move(plan_);
  }

 private:
  void report_misspelt_use() {
    if (table_.kind() != Value::Kind::table) return;
    for (const Member& member : table_.table()) {
      if (nearest_name(member.key, {"use"})) {
        errors_.add(member.at, fmt::format("[network] has no key '{}'; nearest is 'use'", member.key));
      }
    }
  }

  static bool is_in_same_folder(const fs::path& a, const fs::path& b) {
    return a.parent_path().lexically_normal() == b.parent_path().lexically_normal();
  }

  // The user's settings for a network of the zoo: mistakes in the network follow from them.
  std::string places_of(const Value& variables, const Position& use) const {
    std::vector<std::string> places;
    for (const Member& member : variables.table()) {
      const Position& at = member.value.at();
      const bool is_users = is_in_file(at) ? *at.file == pipeline_file_ : at.file != nullptr;
      if (is_users && std::ranges::find(places, to_string(at)) == places.end()) places.push_back(to_string(at));
    }
    return places.empty() ? to_string(use) : fmt::format("{}", fmt::join(places, ", "));
  }

  // The folder of the file that contains a value.
  fs::path folder_of(const Value& value) const {
    return fs::path(is_in_file(value.at()) ? *value.at().file : pipeline_file_).parent_path();
  }

  // Empty after a mistake, which is in errors_, with `hint` appended.
  std::optional<std::string> existing_file(const Value& name, const std::string& hint = "") {
    const fs::path given = name.text();
    const std::string next_to_file = (folder_of(name) / given).lexically_normal().string();
    std::error_code ignored;
    for (const std::string& file : {next_to_file, given.lexically_normal().string()}) {
      if (const std::string why = why_unreachable(file); !why.empty()) {
        errors_.add(name.at(), fmt::format("'{}' {}", file, why));
        return std::nullopt;
      }
      if (fs::is_regular_file(file, ignored)) return file;
    }
    const std::string here = given.lexically_normal().string();
    const std::string elsewhere = here == next_to_file ? "" : fmt::format("; in the working folder {}", no_such_file(here));
    errors_.add(name.at(), no_such_file(next_to_file) + elsewhere + (fs::exists(next_to_file, ignored) ? "" : hint));
    return std::nullopt;
  }

  // The network in `use`: one of the zoo, or a file. Empty after a mistake, which is in errors_.
  std::optional<std::string> existing_network(const Value& use) {
    if (auto file = network_file(use, pipeline_file_)) return file;
    const fs::path folder = folder_of(use), file = use.text();
    if (is_shipped_name(use.text())) {
      errors_.add(use.at(), no_such_name(kNetworks, use.text(), folder));
      return std::nullopt;
    }
    const std::string name = file.stem().string();
    const bool has = file.extension() == ".toml" && find_shipped(kNetworks, name, folder);
    return existing_file(use, has ? fmt::format("; the zoo has it: use = \"{}\"", name) : "");
  }

  // `file`: of the network.
  void find_weights(const std::string& file) {
    Value* weights = table_.find("weights");
    if (weights && weights->kind() == Value::Kind::table) weights = weights->find("file");
    if (!weights || weights->kind() != Value::Kind::text || weights->text().empty()) return;
    if (weights->text().starts_with("file://")) *weights = Value(file_url_path(weights->text()), weights->at());
    if (weights->text().find("://") != std::string::npos) return check_url(*weights);
    if (const auto best = weights_in_folder(*weights)) return void(*weights = Value(*best, weights->at()));
    if (take_published(*weights, file)) return;
    const std::string next_to_file = (folder_of(*weights) / weights->text()).lexically_normal().string();
    std::error_code ignored;
    if (options_.sent_weights && !fs::exists(next_to_file, ignored) && !fs::exists(weights->text(), ignored)) {
      *weights = Value(next_to_file, weights->at());
      return;
    }
    if (const auto found = existing_file(*weights, weights_hint(weights->text()) + published_names_))
      *weights = Value(*found, weights->at());
  }

  // Replaces the name of published weights by the URL in the network's file. A file or folder with that name takes precedence,
  // then a file with the published file's name. Returns false if the network's file publishes no such weights.
  bool take_published(Value& weights, const std::string& file) {
    std::error_code ignored;
    const bool is_word = weights.text().find_first_of("./") == std::string::npos;
    if (!is_word || fs::exists(folder_of(weights) / weights.text(), ignored) || fs::exists(weights.text(), ignored)) return false;
    Diagnostics mistakes;  // reported when the network is read
    const auto document = read_document(file, {}, mistakes);
    if (!document) return false;
    std::vector<std::string> names;
    for (const PublishedWeights& each : published_weights(*document, mistakes)) {
      names.push_back(each.name);
      if (each.name != weights.text()) continue;
      const Position at = weights.at();
      const std::string url = each.url.starts_with("file://") ? file_url_path(each.url) : each.url;
      const fs::path name = fs::path(url).filename();
      const fs::path near = (folder_of(weights) / name).lexically_normal();
      weights = Value(is_readable_file(near) ? near.string() : is_readable_file(name) ? name.string() : url, at);
      if (weights.text().find("://") != std::string::npos) check_url(weights);
      if (!each.sha256.empty() && table_.find("sha256") == nullptr) table_.set("sha256", Value(each.sha256, at));
      if (each.rename.kind() == Value::Kind::array && table_.find("rename") == nullptr) table_.set("rename", each.rename);
      return true;
    }
    if (!names.empty())
      published_names_ = fmt::format("; the network's file has the published weights \"{}\"", fmt::join(names, "\", \""));
    return false;
  }

  // The best weights of the run in a named folder, or else the last ones; empty if it is not a run's folder.
  std::optional<std::string> weights_in_folder(const Value& name) const {
    for (const fs::path& folder : {folder_of(name) / name.text(), fs::path(name.text())}) {
      for (const char* file : {"best.safetensors", "weights.safetensors"}) {
        if (is_readable_file(folder / file)) return (folder / file).lexically_normal().string();
      }
    }
    return std::nullopt;
  }

  // Fetching will report a missing file (weights/fetched_weights.h).
  void check_url(const Value& url) {
    try {
      storage_of(registry_, url.text());
    } catch (const Error& error) {
      errors_.add(url.at(), error.what());
    }
  }

  void check_sha256() {
    const std::string& digits = plan_.params.sha256;
    if (digits.empty()) return;
    const Position& at = table_.find("sha256")->at();
    const bool is_sum =
        digits.size() == 64 && std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isxdigit(c); });
    if (!is_sum) errors_.add(at, fmt::format("'sha256' must be 64 hexadecimal digits, found \"{}\"", digits));
    if (plan_.params.weights.file.empty())
      errors_.add(at, "[network] has 'sha256' but no 'weights' to check: add 'weights', or remove 'sha256'");
  }

  // Reads the keys common to all networks, and returns the others: the network's variables.
  Value read_params() {
    ParamSet<NetworkParams> set;
    NetworkParams::describe(set);
    Value known, variables = table_;
    for (const ParamInfo& info : set.infos()) {
      if (const Value* value = table_.find(info.name)) known.set(info.name, *value);
      variables.erase(info.name);
    }
    plan_.params = read_struct(set, known, "[network]", errors_);
    check_sha256();
    for (std::size_t i = 0; i < plan_.params.rename.size(); ++i) {
      const std::string mistake = plan_.params.rename[i].mistake();
      if (!mistake.empty()) errors_.add(table_.find("rename")->array()[i].at(), "rename: " + mistake);
    }
    return variables;
  }

  void apply_patterns() {
    const std::vector<std::string> names = coverable_names(*plan_.network);
    for (const char* key : {"new", "freeze"}) {
      const Value* patterns = table_.find(key);
      if (!patterns || patterns->kind() != Value::Kind::array) continue;
      for (const Value& pattern : patterns->array()) {
        if (pattern.kind() != Value::Kind::text) continue;  // reported in errors_
        const auto fits = [&](const std::string& name) { return matches(pattern.text(), name); };
        if (std::any_of(names.begin(), names.end(), fits)) {
          if (key == std::string_view("freeze")) check_frozen(pattern);
          continue;
        }
        std::string clause = nearest_clause(pattern.text(), names);
        const Layer* const last = last_layer_with_parameters(*plan_.network);
        if (clause.empty() && last != nullptr) clause = fmt::format("; its last layer is '{}'", last->name);
        errors_.add(pattern.at(), fmt::format("{}: '{}' matches no layer with parameters{}", key, pattern.text(), clause));
      }
    }
    if (!plan_.params.freeze.empty()) freeze(table_.find("freeze")->at());
  }

  void check_frozen(const Value& pattern) {
    const std::vector<Parameter>& all = plan_.network->parameters;
    const auto is_frozen = [&](const Parameter& p) { return !p.statistic && covers(pattern.text(), p.name); };
    if (std::none_of(all.begin(), all.end(), is_frozen)) {
      errors_.add(pattern.at(), fmt::format("freeze: '{}' matches running statistics only, which are not trained: remove it",
                                            pattern.text()));
    }
    const auto stays_random = [&](const Parameter& p) {
      return is_frozen(p) && begins_random(p) && covers_any(plan_.params.fresh, p.name);
    };
    const auto random = std::find_if(all.begin(), all.end(), stays_random);
    if (random == all.end()) return;
    errors_.add(
        pattern.at(),
        fmt::format(
            "freeze: '{}' begins with random values because of 'new', and would never be trained: remove it from 'new' or 'freeze'",
            random->name));
  }

  void freeze(const Position& at) {
    auto frozen = std::make_shared<Network>(*plan_.network);
    bool trains = false;
    for (Parameter& parameter : frozen->parameters) {
      if (covers_any(plan_.params.freeze, parameter.name)) parameter.trainable = false;
      trains = trains || parameter.trainable;
    }
    if (!trains) errors_.add(at, "freeze: nothing is left to train: freeze fewer layers");
    plan_.network = std::move(frozen);
  }

  Value& table_;
  const std::string& pipeline_file_;
  const Registry& registry_;
  const LoadOptions& options_;
  Diagnostics& errors_;
  std::string published_names_;  // for messages
  NetworkPlan plan_;
};

}  // namespace

std::string weights_hint(const std::string& name) {
  if (name.find_first_of("./") != std::string::npos) return {};
  return "; no weights are known by this name: give a .safetensors, .pth or .pt file, or the URL of one";
}

std::optional<std::string> network_file(const Value& use, const std::string& pipeline_file) {
  const fs::path folder = fs::path(is_in_file(use.at()) ? *use.at().file : pipeline_file).parent_path();
  if (is_shipped_name(use.text())) return find_shipped(kNetworks, use.text(), folder);
  for (const fs::path& file : {folder / use.text(), fs::path(use.text())}) {
    if (is_readable_file(file)) return file.lexically_normal().string();
  }
  return std::nullopt;
}

NetworkPlan plan_network(Value& table, const std::string& pipeline_file, const Registry& registry, const LoadOptions& options,
                         Diagnostics& errors) {
  return NetworkReader(table, pipeline_file, registry, options, errors).read();
}

namespace {

// All outputs named by stages of these graphs.
std::vector<LayerPort> named_outputs(const Network& network, const std::vector<GraphPlan>& graphs, Diagnostics& errors) {
  std::vector<LayerPort> outputs;
  for (const GraphPlan& graph : graphs) {
    for (const StagePlan& stage : graph.stages) {
      if (!stage.type || !stage.type->takes_loss) continue;
      for (const AuxiliaryEntry& entry : auxiliary_entries(stage.table)) {
        if (!entry.output || entry.output->kind() != Value::Kind::text) continue;
        try {
          const auto output = find_loss_output(network, entry.output->text());
          if (output) outputs.push_back(*output);
        } catch (const Error& error) {
          errors.add(entry.output->at(), fmt::format("[{}.{}]: 'auxiliary': {}", graph.name, stage.name, error.message()));
        }
      }
    }
  }
  return outputs;
}

}  // namespace

std::shared_ptr<const Network> plan_auxiliary(std::shared_ptr<const Network> network, const std::vector<GraphPlan>& graphs,
                                              Diagnostics& errors) {
  const std::vector<bool> wanted = layers_for(*network, named_outputs(*network, graphs, errors));
  if (std::ranges::count(wanted, false) == 0) return network;
  auto marked = std::make_shared<Network>(*network);
  for (std::size_t layer = 0; layer < wanted.size(); ++layer) {
    if (wanted[layer]) continue;
    for (const int parameter : marked->layers[layer].parameters) {
      Parameter& unused = marked->parameters[static_cast<std::size_t>(parameter)];
      unused.unused = true;
      unused.trainable = false;
    }
  }
  return marked;
}

std::int64_t outputs_of_data(const GraphPlan& graph, const Registry& registry) {
  const auto is_source = [](const StagePlan& stage) {
    return stage.type != nullptr && stage.type->role == StageType::Role::source;
  };
  const auto source = std::ranges::find_if(graph.stages, is_source);
  if (source == graph.stages.end()) return 0;
  const Value* const numbers = source->table.find("numbers");
  if (numbers != nullptr && numbers->kind() == Value::Kind::array && !numbers->array().empty())
    return static_cast<std::int64_t>(numbers->array().size());
  SilentServices silent;  // a source's warnings appear when the run lists its data
  StageSite site;
  site.graph = graph.name;
  site.name = source->name;
  site.run = &silent;
  site.registry = &registry;
  Diagnostics errors;
  try {
    const std::shared_ptr<Stage> stage = source->type->create(source->table, site, errors);
    if (stage == nullptr || errors.size() > 0) return 0;
    Source& opened = static_cast<Source&>(*stage);
    opened.open();
    return static_cast<std::int64_t>(SampleOrder(opened, 0).classes().size());
  } catch (const std::exception&) {
    return 0;
  }
}

}  // namespace millrace
