// pipeline-inspect: lists all parts, and explains a file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "common/arguments.h"
#include "common/join_ranks.h"
#include "common/last_words.h"
#include "common/settable_keys.h"
#include "config/document.h"
#include "config/plan.h"
#include "config/schema.h"
#include "config/shipped.h"
#include "conformance.h"
#include "inspect.h"
#include "licences.h"
#include "machine.h"
#include "millrace/detail/types.h"
#include "millrace/error.h"
#include "millrace/observer.h"
#include "millrace/optimizer.h"
#include "millrace/util/load_plugins.h"
#include "millrace/util/text.h"
#include "network/load.h"

namespace {

using namespace millrace;

struct Options {
  std::vector<std::string> rest, sets;
  bool dot = false, schema = false, parameters = false, keys = false, machine = false, licences = false;
  std::string svg, plugin, limit, batch, made;
};

constexpr std::uint32_t kUsualBatch = 32, kMaxBatch = 1 << 20;

constexpr const char* kOfAFile = "--dot, --svg, --parameters, --batch and --set";

bool has_file_options(const Options& options) {
  return options.dot || options.parameters || !options.svg.empty() || !options.sets.empty() || !options.batch.empty();
}

bool is_file(const std::string& name) { return name.ends_with(".toml") || std::filesystem::is_regular_file(name); }

// The pipeline in a run's folder; other names are returned unchanged.
std::string file_of(const std::string& name) {
  std::error_code ignored;
  const std::filesystem::path file = std::filesystem::path(name) / "pipeline.toml";
  return std::filesystem::is_regular_file(file, ignored) ? file.string() : name;
}

bool is_weights(const std::string& file) {
  return file.ends_with(".safetensors") || file.ends_with(".pth") || file.ends_with(".pt");
}

std::string inspect_weights(const std::string& file, const Options& options, const Registry& registry) {
  if (options.dot || !options.svg.empty() || !options.sets.empty() || !options.batch.empty()) {
    fail(ErrorKind::usage, "'{}' holds weights; --dot, --svg, --batch and --set are for pipelines and networks", file);
  }
  return options.parameters ? list_tensors(file) : describe_weights(file, registry);
}

Value document_of(const std::string& file) {
  Diagnostics errors;
  auto document = read_document(file, {}, errors);
  errors.throw_if_any();
  return std::move(*document);
}

bool is_network(const std::string& file) { return document_of(file).find("layers") != nullptr; }

std::string inspect_network(const std::string& file, const Options& options, const Registry& registry) {
  if (options.dot || !options.svg.empty()) fail(ErrorKind::usage, "'{}' is a network; --dot and --svg draw pipelines", file);
  Diagnostics errors;
  Value variables;
  for (const std::string& set : options.sets) apply_override(set, variables, errors);
  const auto network = load_network(file, variables, registry, errors);
  errors.throw_if_any();
  if (options.parameters) return list_parameters(*network);
  const std::uint32_t batch =
      options.batch.empty() ? kUsualBatch : static_cast<std::uint32_t>(integer("--batch", options.batch, 1, kMaxBatch));
  return describe_network(*network) + describe_published(document_of(file)) + describe_memory(*network, registry, batch);
}

std::string inspect_pipeline(const std::string& file, const Options& options, const Registry& registry) {
  if (options.parameters) fail(ErrorKind::usage, "'{}' is a pipeline; --parameters lists those of a network", file);
  if (!options.batch.empty()) {
    fail(ErrorKind::usage, "'{}' is a pipeline; --batch plans a network's memory, and pipeline-run --check a pipeline's", file);
  }
  const std::optional<std::string> base = is_shipped_name(file) ? find_shipped(kBases, file, ".") : std::nullopt;
  std::vector<std::string> sets = options.sets;
  if (base && sets.empty()) {  // sample data: the file describes the real ones
    sets.emplace_back("data.path=DATA");
    const Value document = document_of(*base);
    const Value* const data = document.find("data");
    if (data != nullptr && data->find("classes") != nullptr) sets.emplace_back(R"(data.classes=[{ name = "CLASS" }])");
    if (data != nullptr && data->find("columns") != nullptr) sets.emplace_back(R"(data.columns=["COLUMN"])");
  }
  const Pipeline pipeline = load_pipeline(file, sets, registry);
  if (base && options.svg.empty() && !options.dot) return describe_base(*base) + describe_pipeline(pipeline);
  if (!options.svg.empty()) write_svg(draw_pipeline(pipeline), options.svg);
  if (options.dot) return draw_pipeline(pipeline);
  return options.svg.empty() ? describe_pipeline(pipeline) : "";
}

// --keys
std::string list_keys(const std::string& file, const Registry& registry) {
  std::string text;
  for (const SettableKey& key : settable_keys(file, registry)) {
    text += key.name + (key.value.empty() ? "" : " = " + key.value) + (key.text.empty() ? "" : "  # " + key.text) + "\n";
  }
  return text;
}

// --new
std::string make_file(const std::string& base, const Options& options, const Registry& registry) {
  const std::optional<std::string> file = is_shipped_name(base) ? find_shipped(kBases, base, ".") : std::nullopt;
  if (!file) fail(ErrorKind::usage, "--new: {}", no_such_name(kBases, base, "."));
  if (options.dot || options.parameters || !options.svg.empty() || !options.batch.empty())
    fail(ErrorKind::usage, "--new writes a file and takes --set; --dot, --svg, --parameters and --batch do not apply");
  return write_new_file({options.made, base, *file, options.sets}, registry);
}

void append_names(const auto& types, std::vector<std::string>& names) {
  for (const auto& [name, type] : types) names.push_back(name);
}

// A network must not hide a plugin's name.
bool is_part(const std::string& name, const Registry& registry) {
  const auto is_it = [&](const PluginInfo& plugin) { return plugin.name == name; };
  return registry.stages().find(name) || registry.layers().find(name) || registry.optimizers().find(name) ||
         registry.losses().find(name) || registry.observers().find(name) ||
         std::any_of(loaded_plugins(registry).begin(), loaded_plugins(registry).end(), is_it);
}

// All names accepted by inspect_name(), and networks and base files.
std::vector<std::string> known_names(const Registry& registry) {
  std::vector<std::string> names = {"devices"};
  for (const PluginInfo& plugin : loaded_plugins(registry)) names.push_back(plugin.name);
  append_names(registry.stages(), names);
  append_names(registry.layers(), names);
  append_names(registry.optimizers(), names);
  append_names(registry.losses(), names);
  append_names(registry.observers(), names);
  append_names(shipped_files(kNetworks, "."), names);
  append_names(shipped_files(kBases, "."), names);
  return names;
}

// Describes a name. If several kinds share it, the stage's description comes first.
std::string inspect_name(const std::string& name, const Registry& registry) {
  if (const StageType* stage = registry.stages().find(name)) return describe_stage(*stage);
  if (const LayerType* layer = registry.layers().find(name)) return describe_layer(*layer);
  if (const OptimizerType* optimizer = registry.optimizers().find(name)) return describe_optimizer(*optimizer);
  if (const LossType* loss = registry.losses().find(name)) return describe_loss(*loss);
  if (const ObserverType* observer = registry.observers().find(name)) return describe_observer(*observer);
  for (const PluginInfo& plugin : loaded_plugins(registry)) {
    if (plugin.name == name) return describe_plugin(plugin, registry);
  }
  const auto nearest = nearest_name(name, known_names(registry));
  fail(ErrorKind::usage, "no plugin, stage, layer type, loss, optimizer, observer, network, base file or file is called '{}'{}{}",
       name, nearest ? fmt::format("; nearest is '{}'", *nearest) : "; pipeline-inspect without arguments lists all",
       skipped_clause(registry, name));
}

[[noreturn]] void fail_to_find(const char* what, const std::string& name, const auto& types) {
  const auto nearest = types.nearest(name);
  fail(ErrorKind::usage, "unknown {} '{}'{}", what, name, nearest ? fmt::format("; nearest is '{}'", *nearest) : "");
}

// Words that select a kind: "optimizer adamw".
constexpr std::array<std::string_view, 3> kKinds = {"optimizer", "loss", "observer"};
std::string inspect_kind(const std::string& kind, const std::string& name, const Registry& registry) {
  if (kind == "optimizer") {
    if (const OptimizerType* optimizer = registry.optimizers().find(name)) return describe_optimizer(*optimizer);
    fail_to_find("optimizer", name, registry.optimizers());
  }
  if (kind == "loss") {
    if (const LossType* loss = registry.losses().find(name)) return describe_loss(*loss);
    fail_to_find("loss", name, registry.losses());
  }
  if (const ObserverType* observer = registry.observers().find(name)) return describe_observer(*observer);
  fail_to_find("observer", name, registry.observers());
}

// Under a launcher, those of all ranks in one table.
std::string inspect_devices(const Registry& registry) {
  const RankPlace place = find_rank({}, current_environment());
  if (place.ranks == 1) return describe_devices(registry);
  RankWishes wishes;
  wishes.wait = "60";
  SocketGroup group(join_ranks(place, wishes, RunParams().folder, true));
  return describe_devices_of_ranks(registry, group);
}

std::string inspect(const Options& options) {
  const LastWords last_words("pipeline-inspect");
  Registry registry;
  load_plugins(registry);
  if (options.schema) return json_schema(registry);
  if (options.machine) return describe_machine(registry);
  if (options.rest.empty()) {
    if (!options.made.empty()) fail(ErrorKind::usage, "--new needs the name of a base file, such as classify");
    if (options.keys) fail(ErrorKind::usage, "--keys needs a pipeline file, or the name of a base file");
    if (has_file_options(options)) fail(ErrorKind::usage, "{} need a file or a network", kOfAFile);
    return list_everything(registry);
  }
  const std::string what = file_of(options.rest[0]);
  if (options.keys) return list_keys(what, registry);
  if (!options.made.empty()) return make_file(what, options, registry);
  if (is_weights(what)) return inspect_weights(what, options, registry);
  if (is_file(what)) {
    return is_network(what) ? inspect_network(what, options, registry) : inspect_pipeline(what, options, registry);
  }
  const auto network = options.rest.size() == 1 && !is_part(what, registry) ? find_shipped(kNetworks, what, ".") : std::nullopt;
  if (network) return inspect_network(*network, options, registry);
  if (options.rest.size() == 1 && !is_part(what, registry) && find_shipped(kBases, what, "."))
    return inspect_pipeline(what, options, registry);
  if (has_file_options(options)) fail(ErrorKind::usage, "{} need a file or a network, found '{}'", kOfAFile, what);
  if (options.rest.size() == 2) return inspect_kind(what, options.rest[1], registry);
  return what == "devices" ? inspect_devices(registry) : inspect_name(what, registry);
}

}  // namespace

int main(int count, char** words) {
  return run_tool("pipeline-inspect", [&] {
    Options options;
    Arguments arguments(
        "pipeline-inspect",
        "[PLUGIN | STAGE | LAYER | loss LOSS | optimizer NAME | observer OBSERVER | NETWORK | BASE | FILE.toml | WEIGHTS | "
        "RUN_FOLDER | devices] [options]",
        "Shows, without an argument, all plugins, stages, backends, layer types, losses, optimizers,\n"
        "observers and storage; for a name its ports and parameters, or a network as a table of layers; for a file\n"
        "its network, the pipeline's graphs, or the contents of weights (.safetensors, .pth); for a run's folder its\n"
        "pipeline.");
    arguments.repeated("--set", "KEY=VALUE", "set a key of the file (or a network's variable) before reading it", options.sets)
        .option("--new", "FILE.toml", "write a short file that extends a base file with the --set keys, and its schema",
                options.made)
        .flag("--dot", "print a pipeline as Graphviz source", options.dot)
        .option("--svg", "FILE", "draw a pipeline into a file (needs Graphviz)", options.svg)
        .flag("--parameters",
              "a network's parameters, one JSON object a line: name, shape, first values; for weights: name, type, shape",
              options.parameters)
        .option("--batch", "N", "for a network: batch for its memory plan (32)", options.batch)
        .flag("--keys", "for a pipeline: every key for --set, with value and meaning", options.keys)
        .flag("--schema", "print a JSON schema of pipeline files, for editors", options.schema)
        .flag("--machine", "this machine's cores, devices, limits, folders and libraries, and what to do about problems",
              options.machine)
        .flag("--licences", "the licences of everything that Millrace is linked with or contains", options.licences)
        .option("--conformance", "PLUGIN.so",
                "check all parts of a plugin as Millrace's own are checked; exit code 1 if a check fails", options.plugin)
        .option("--limit", "SECONDS", "with --conformance: time limit per check (30)", options.limit);
    const std::vector<std::string> of_a_file = {"--set", "--dot", "--svg", "--parameters", "--batch"};
    arguments.exclude({"--schema"}, of_a_file)
        .exclude({"--keys"}, of_a_file)
        .exclude({"--conformance"}, of_a_file)
        .exclude({"--schema"}, {"--keys", "--new", "--conformance"})
        .exclude({"--keys"}, {"--new", "--conformance"})
        .exclude({"--new"}, {"--conformance"})
        .exclude({"--dot"}, {"--svg"})
        .exclude({"--machine"}, {"--licences"});
    for (const char* alone : {"--machine", "--licences"}) {
      arguments.exclude({alone}, of_a_file).exclude({alone}, {"--schema", "--keys", "--new", "--conformance"});
    }
    arguments.names([] {
      Registry registry;
      load_all_plugins(registry);
      return known_names(registry);
    });
    if (!arguments.read(count, words, options.rest)) return 0;
    if (!options.plugin.empty()) {
      if (!options.rest.empty()) fail(ErrorKind::usage, "--conformance checks one plugin: remove '{}'", options.rest[0]);
      const double limit = options.limit.empty() ? 30 : static_cast<double>(integer("--limit", options.limit, 1, 3600));
      return print_conformance(options.plugin, limit) ? 0 : 1;
    }
    if (!options.limit.empty()) fail(ErrorKind::usage, "--limit belongs to --conformance");
    if (options.schema && !options.rest.empty())
      fail(ErrorKind::usage, "--schema covers all pipeline files: leave out '{}'", options.rest[0]);
    if ((options.machine || options.licences) && !options.rest.empty())
      fail(ErrorKind::usage, "{} describes no file: leave out '{}'", options.machine ? "--machine" : "--licences",
           options.rest[0]);
    if (options.licences) {
      fmt::print("{}", licence_table());
      return 0;
    }
    const bool is_part = options.rest.size() == 2 && std::find(kKinds.begin(), kKinds.end(), options.rest[0]) != kKinds.end();
    if (options.rest.size() > 1 && !is_part) fail(ErrorKind::usage, "one thing at a time: remove '{}'", options.rest[1]);
    fmt::print("{}", terminal_text(inspect(options)));
    return 0;
  });
}
