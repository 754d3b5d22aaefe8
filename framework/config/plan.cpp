#include "config/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "config/data_layout.h"
#include "config/graph_plan.h"
#include "config/kept_run.h"
#include "config/misplaced_keys.h"
#include "config/network_plan.h"
#include "config/overruled_keys.h"
#include "millrace/detail/packet.h"
#include "millrace/detail/types.h"
#include "millrace/error.h"
#include "millrace/observer.h"
#include "millrace/optimizer.h"
#include "millrace/util/bytes.h"
#include "millrace/util/load_plugins.h"
#include "millrace/util/paths.h"
#include "plugin/loss_params.h"
#include "toml/document.h"
#include "toml/shipped.h"
#include "toml/variables.h"

namespace millrace {

namespace fs = std::filesystem;

void RunParams::describe(ParamSet<RunParams>& set) {
  set.add("name", &RunParams::name).text("name of the run's folder; default: the file's name").may_change();
  set.add("epochs", &RunParams::epochs).range(0, 1e9).text("passes over the data, possibly fractional");
  set.add("seed", &RunParams::seed).text("seed of all random draws");
  set.add("threads", &RunParams::threads)
      .range(0, 4096)
      .choices({"auto"})
      .text("data preparation threads; auto: one for each core left for them")
      .may_change();
  set.add("io_threads", &RunParams::io_threads).range(1, 4096).text("threads that wait for disks and sockets").may_change();
  set.add("chunk", &RunParams::chunk).range(0, 1 << 20).choices({"auto"}).unit("samples").text("samples per packet").may_change();
  set.add("devices", &RunParams::devices)
      .text(
          "\"auto\", \"all\" or \"gpu\" for every GPU, \"0,1\", \"cpu\", \"cpu*2\", \"cuda\" or \"cuda:all\", \"cuda:0,2\", "
          "\"cuda:GPU-8f6d\"");
  set.add("load", &RunParams::load)
      .range(0)
      .choices({"auto"})
      .text("each replica's share of the batch; empty: equal shares; auto: measured before the first step");
  set.add("precision", &RunParams::precision)
      .choices({"auto", "fp32", "tf32", "bf16"})
      .text("arithmetic of multiplications on devices");
  set.add("tune", &RunParams::tune).choices({"heuristic", "measure"}).text("how devices choose among equivalent algorithms");
  set.add("deterministic", &RunParams::deterministic).text("excludes operations whose bits may differ between runs");
  set.add("graphs", &RunParams::graphs).text("devices record a step once and replay it").may_change();
  set.add("recompute", &RunParams::recompute)
      .text("devices keep fewer activations and recompute the others in backward: less memory, about a third more work");
  set.add("memory", &RunParams::memory)
      .text(
          "the run's host memory limit, such as \"8 GiB\"; default: that of the machine or its control group, three quarters of "
          "it for a batch of size \"auto\"")
      .may_change();
  set.add("folder", &RunParams::folder).text("parent of run folders; \"\": nothing is written").may_change();
  set.add("best", &RunParams::best)
      .text("\"validate.accuracy\": each improvement of this metric writes the weights to best.safetensors");
  set.add("log_every", &RunParams::log_every)
      .range(1)
      .unit("steps")
      .text("interval between steps reported to observers")
      .may_change();
  set.add("on_nan", &RunParams::on_nan)
      .choices({"stop", "skip", "rollback"})
      .text("after a loss or gradient that is not finite: end the run, skip the update, or return to the newest checkpoint")
      .may_change();
  set.add("nan_rate_factor", &RunParams::nan_rate_factor)
      .range(0, 1)
      .text("on_nan = \"rollback\": factor on the learning rate each time")
      .only_with("on_nan", {"rollback"})
      .may_change();
  set.add("nan_limit", &RunParams::nan_limit)
      .range(0)
      .text("consecutive skipped updates, or rollbacks, before the run ends")
      .only_with("on_nan", {"skip", "rollback"})
      .may_change();
  set.add("compare_replicas", &RunParams::compare_replicas)
      .range(0)
      .unit("steps")
      .text("interval between comparisons of all replicas' weights, which name a device that computes wrongly; 0: never")
      .may_change();
}

const GraphPlan* Pipeline::graph(std::string_view name) const {
  const auto at = std::find_if(graphs.begin(), graphs.end(), [&](const GraphPlan& plan) { return plan.name == name; });
  return at == graphs.end() ? nullptr : &*at;
}

std::string Pipeline::place_of(std::string_view key) const {
  std::string place = title();
  for (const Value* node = &resolved; !key.empty();) {
    node = node->find(key.substr(0, key.find('.')));
    if (node == nullptr) break;
    place = to_string(bases.after_extends(node->at()));
    key.remove_prefix(std::min(key.find('.'), key.size() - 1) + 1);
  }
  return place;
}

namespace {

std::string no_such_observer(const std::string& name, const Registry& registry) {
  const std::vector<std::string> names = registry.observers().names();
  const auto nearest = registry.observers().nearest(name);
  return fmt::format("[observe]: unknown observer '{}'; {}{}", name,
                     nearest         ? fmt::format("nearest is '{}'", *nearest)
                     : names.empty() ? std::string("no plugin registers one")
                                     : fmt::format("there are '{}'", fmt::join(names, "', '")),
                     skipped_clause(registry, name));
}

// `observe`: the table, or null. Its members are observers' tables; false disables one, true uses its defaults. Observers enabled
// by default need none. Mistakes go to `errors`.
std::vector<ObserverPlan> plan_observers(const Value* observe, const Registry& registry, Diagnostics& errors) {
  std::vector<ObserverPlan> plans;
  for (const auto& [name, type] : registry.observers()) {
    const Value* written = observe ? observe->find(name) : nullptr;
    if (written ? written->kind() == Value::Kind::table : type.by_default) {
      plans.push_back({name, &type, written ? *written : Value()});
    } else if (written && written->kind() == Value::Kind::boolean && written->boolean()) {
      plans.push_back({name, &type, Value(Table{}, written->at())});
    }
  }
  for (const ObserverPlan& plan : plans) plan.type->check(plan.table, "[observe." + plan.name + "]", errors);
  if (!observe) return plans;
  if (observe->kind() != Value::Kind::table) {
    errors.add(observe->at(), "[observe] must be a table, with a table for each observer, found " + found(*observe));
    return plans;
  }
  for (const Member& member : observe->table()) {
    if (!registry.observers().find(member.key)) {
      errors.add(member.at, no_such_observer(member.key, registry));
    } else if (member.value.kind() != Value::Kind::table && member.value.kind() != Value::Kind::boolean) {
      errors.add(member.value.at(), fmt::format("'observe.{}' must be a table, or false to leave this observer out, found {}",
                                                member.key, found(member.value)));
    }
  }
  return plans;
}

// Top-level tables other than graphs and variables.
std::vector<std::string> known_tables() { return {"run", "network", "observe", "stop", "plateau", "checkpoint"}; }
bool is_known_table(const std::string& name) {
  const std::vector<std::string> known = known_tables();
  return std::find(known.begin(), known.end(), name) != known.end();
}
void add_choices(const std::vector<ParamInfo>& params, std::set<std::string>& words) {
  for (const ParamInfo& info : params) {
    words.insert(info.choices.begin(), info.choices.end());
    add_choices(info.members, words);
  }
}

// The framework's words that occur in files: types, and choices of keys.
std::set<std::string> words_in_files(const Registry& registry) {
  std::set<std::string> words;
  const auto add = [&](const auto& types) {
    for (const auto& [name, type] : types) {
      words.insert(name);
      add_choices(type.params, words);
    }
  };
  add(registry.stages());
  add(registry.optimizers());
  add(registry.losses());
  add(registry.observers());
  ParamSet<RunParams> run;
  RunParams::describe(run);
  add_choices(run.infos(), words);
  return words;
}

bool is_graph(const Member& member) { return !is_known_table(member.key) && member.value.find("flow") != nullptr; }

// Sets a choice if the stage's type has this key and choice, and the file leaves it open.
void choose(StagePlan& stage, const char* key, const char* choice) {
  const auto info = std::ranges::find(stage.type->params, key, &ParamInfo::name);
  if (info == stage.type->params.end() || std::ranges::find(info->choices, choice) == info->choices.end()) return;
  const Value* const written = stage.table.find(key);
  const bool is_open = written == nullptr || (written->kind() == Value::Kind::text && written->text() == "auto");
  if (is_open) stage.table.set(key, Value(choice));
}

// Uses each sample once, including those of an incomplete last batch, without replacing bad ones.
void count_each_once(GraphPlan& graph) {
  for (StagePlan& stage : graph.stages) {
    if (stage.type == nullptr || stage.type->role != StageType::Role::batcher) continue;
    choose(stage, "last", "keep");
    choose(stage, "bad_samples", "skip");
  }
}

// Whether metrics of a network are computed, and nothing is trained.
bool only_measures(const GraphPlan& graph) {
  const auto has = [&graph](std::vector<Port> StageType::*ports, std::string_view payload) {
    return std::ranges::any_of(graph.stages, [&](const StagePlan& stage) {
      return stage.type != nullptr &&
             std::ranges::find(stage.type->*ports, payload, &Port::payload) != (stage.type->*ports).end();
    });
  };
  return has(&StageType::inputs, payload::kStepResult) && !has(&StageType::outputs, payload::kGradientBucket);
}

// A graph without a loss measures that of the main graph. It ignores the keys of the default loss, so that metrics can be
// compared between recipes with and without label smoothing and class weights.
void measure_the_same_loss(const GraphPlan& main, GraphPlan& graph) {
  const auto takes_loss = [](const StagePlan& stage) { return stage.type != nullptr && stage.type->takes_loss; };
  const auto of_main = std::ranges::find_if(main.stages, takes_loss);
  const Value* const loss = of_main == main.stages.end() ? nullptr : of_main->table.find("loss");
  if (loss == nullptr || is_default_loss(*loss)) return;
  for (StagePlan& stage : graph.stages) {
    if (takes_loss(stage) && stage.table.find("loss") == nullptr) stage.table.set("loss", measured_loss(*loss));
  }
}

// The user's text that led to a stage's table, if none of its values was written by the user.
Position users_text(const StagePlan& stage, const std::string& graph, const BaseFiles& bases, const std::vector<Override>& set) {
  const auto has_unset = [&](const Override& each) {
    return each.path.size() > 2 && each.path[0] == graph && each.path[1] == stage.name &&
           stage.table.find(each.path[2]) == nullptr;
  };
  if (!bases.has(stage.table_at())) return {};
  const auto unset = std::ranges::find_if(set, has_unset);
  if (unset == set.end()) return bases.extends;
  return {std::make_shared<const std::string>(fmt::format("--set {}", fmt::join(unset->path, "."))), 0, 0};
}

// Sets positions for later messages.
void name_users_lines(Pipeline& pipeline, const std::vector<Override>& set) {
  const BaseFiles& bases = pipeline.bases;
  for (GraphPlan& graph : pipeline.graphs) {
    graph.at = bases.after_extends(graph.at);
    for (StagePlan& stage : graph.stages) stage.users = users_text(stage, graph.name, bases, set);
  }
  for (std::optional<FigurePlan>* figure :
       {&pipeline.best, &pipeline.checkpoint.best, &pipeline.stop.figure, &pipeline.plateau.figure}) {
    if (*figure) (*figure)->at = bases.after_extends((*figure)->at);
  }
}

class PipelineReader {
 public:
  PipelineReader(const std::string& path, const Registry& registry, const LoadOptions& options, Diagnostics& errors)
      : registry_(registry), options_(options), errors_(errors) {
    pipeline_.file = path;
    pipeline_.made_by = options.made_by;
  }

  // `is_base`: the file is a base file run directly.
  void read(const std::vector<std::string>& overrides, bool is_base) {
    auto document = read_document(pipeline_.file, {}, errors_, options_.made_by, &sources_);
    if (!document) return;
    if (is_base) sources_.bases.files = sources_.files;
    pipeline_.bases = sources_.bases;
    pipeline_.files = sources_.files;
    if (options_.made_by.empty()) follow_kept_run(pipeline_.file, *document, pipeline_.warnings);
    files_ = *document;
    for (const std::string& option : overrides) {
      if (auto made = apply_override(option, *document, errors_)) applied_.push_back(std::move(*made));
    }
    Origins origins(later_texts(sources_.files));
    pipeline_.resolved = resolve_document(*document, referred_, errors_, &origins);
    if (!place_data(root(), registry_, options_.whole_data, referred_, errors_, pipeline_.warnings)) return;
    rename_old_keys(root(), registry_, sources_.files, pipeline_.warnings);
    report_misplaced_keys(root(), registry_, errors_);
    drop_all_overruled_keys();
    place_at_origins(origins);
    read_run();
    read_graphs();
    read_network();
    for (const Override& override : applied_) check_override(override, *document);
    if (pipeline_.network) pipeline_.network = plan_auxiliary(pipeline_.network, pipeline_.graphs, errors_);
    read_figures();
    pipeline_.observers = plan_observers(root().find("observe"), registry_, errors_);
    report_unknown_keys();
    drop_used_variables();
    name_users_lines(pipeline_, applied_);
    pipeline_.resolved = with_environment_kept(std::move(pipeline_.resolved), *document, words_in_files(registry_));
  }

  // The mistakes, as shown to the user.
  Diagnostics diagnostics() const {
    std::vector<std::vector<std::string>> set;
    for (const Override& override : applied_) set.push_back(override.path);
    return sources_.bases.after_users_text(errors_, files_, set);
  }

  Pipeline take() { return std::move(pipeline_); }

 private:
  Value& root() { return pipeline_.resolved; }

  // Removes keys that a later text leaves without effect. Uses the position of the key, not the origin of its value.
  void drop_all_overruled_keys() {
    ParamSet<RunParams> set;
    RunParams::describe(set);
    if (Value* table = root().find("run")) drop_overruled(set.infos(), *table, later_texts(sources_.files));
    for (Member& member : root().table()) {
      if (is_graph(member)) drop_overruled_keys(member.value, registry_, sources_.files);
    }
    Value* const network = root().find("network");
    if (network == nullptr || !names_network(*network)) return;
    if (const auto variables = variables_of(*network->find("use")); !variables.empty())
      drop_variables_of_another(*network, variables);
  }

  // Paths in [network] are relative to the file that contains them.
  void place_at_origins(const Origins& origins) {
    for (Member& member : root().table()) {
      if (member.key != "network" || member.value.kind() != Value::Kind::table) {
        origins.apply(member.value);
        continue;
      }
      for (Member& key : member.value.table()) {
        if (key.key != "use" && key.key != "weights") origins.apply(key.value);
      }
    }
  }

  void read_run() {
    ParamSet<RunParams> set;
    RunParams::describe(set);
    if (Value* table = root().find("run")) pipeline_.run = read_struct(set, *table, "[run]", errors_);
    try {
      pipeline_.run.folder = local_path("run.folder", pipeline_.run.folder);
      if (const Value* const folder = root().find("run") ? root().find("run")->find("folder") : nullptr; folder != nullptr)
        root().find("run")->set("folder", Value(pipeline_.run.folder, folder->at()));
    } catch (const Error& error) {
      errors_.add(root().find("run")->find("folder")->at(), error.message());
    }
    const std::string& memory = pipeline_.run.memory;
    if (!memory.empty() && parse_bytes(memory) == 0) {
      errors_.add(root().find("run")->find("memory")->at(),
                  fmt::format("'memory' must be a number of bytes such as \"512 MiB\" or \"8 GiB\", found \"{}\"", memory));
    }
    const Value* const name = root().find("run") ? root().find("run")->find("name") : nullptr;
    if (name && name->kind() == Value::Kind::text && name->text().empty())
      errors_.add(name->at(), "run.name = \"\" names no folder: leave it out for the name of the file");
    if (pipeline_.run.name.empty()) pipeline_.run.name = fs::path(pipeline_.file).stem().string();
  }

  void read_network() {
    Value* table = root().find("network");
    if (!table) return;
    complete_network(*table);
    NetworkPlan plan = plan_network(*table, pipeline_.file, registry_, options_, errors_);
    pipeline_.network_table = *table;
    pipeline_.network_params = std::move(plan.params);
    pipeline_.network = std::move(plan.network);
  }

  // Whether the user wrote [network] with `use`.
  bool names_network(const Value& table) const {
    const Value* const use = table.find("use");
    return options_.made_by.empty() && use != nullptr && use->kind() == Value::Kind::text;
  }

  // Sets the number of classes in the data.
  void complete_network(Value& table) {
    if (errors_.size() > 0 || pipeline_.graphs.empty() || table.find("classes") || !names_network(table)) return;
    if (!variables_of(*table.find("use")).contains("classes")) return;
    const std::int64_t outputs = outputs_of_data(pipeline_.graphs.front(), registry_);
    if (outputs <= 0) return;
    table.set("classes", Value(outputs, table.at()));
    pipeline_.classes_follow_data = true;
  }

  // If a later text names another network, removes variables that only the previous one has.
  void drop_variables_of_another(Value& table, const std::set<std::string>& variables) const {
    ParamSet<NetworkParams> known;
    NetworkParams::describe(known);
    const Overrules overrules = later_texts(sources_.files);
    const Position use = table.find("use")->at();
    std::erase_if(table.table(), [&](const Member& member) {
      const auto is_it = [&](const ParamInfo& info) { return info.name == member.key; };
      return overrules(use, member.value.at()) && !variables.contains(member.key) && std::ranges::none_of(known.infos(), is_it);
    });
  }

  // The variables that a network has or refers to; empty if it cannot be read, which is reported when it is loaded.
  std::set<std::string> variables_of(const Value& use) const {
    std::set<std::string> names;
    const std::optional<std::string> file = network_file(use, pipeline_.file);
    Diagnostics ignored;
    const std::optional<Value> network = file ? read_document(*file, use.at(), ignored) : std::nullopt;
    if (!network) return names;
    if (const Value* const defaults = network->find("defaults"); defaults != nullptr && defaults->kind() == Value::Kind::table) {
      for (const Member& member : defaults->table()) names.insert(member.key);
    }
    for (const Reference& reference : references(*network)) names.insert(reference.name);
    return names;
  }

  void read_graphs() {
    for (Member& member : root().table()) {
      if (is_graph(member)) pipeline_.graphs.push_back(plan_graph(member, registry_, errors_));
    }
    // The graph without `every` is the main one; its place in the file is arbitrary.
    std::stable_partition(pipeline_.graphs.begin(), pipeline_.graphs.end(), [this](const GraphPlan& g) { return !has_every(g); });
    if (!pipeline_.graphs.empty() && only_measures(pipeline_.graphs.front())) count_each_once(pipeline_.graphs.front());
    for (std::size_t i = 1; i < pipeline_.graphs.size(); ++i) {
      count_each_once(pipeline_.graphs[i]);
      measure_the_same_loss(pipeline_.graphs.front(), pipeline_.graphs[i]);
    }
    if (pipeline_.graphs.empty()) {
      errors_.add(root().at(), "this file has no graph: a table with flow = [\"stage\", ...]");
    }
    for (std::size_t i = 1; i < pipeline_.graphs.size(); ++i) {
      const GraphPlan& graph = pipeline_.graphs[i];
      if (has_every(graph)) continue;
      errors_.add(graph.at, fmt::format("[{}] needs 'every', {}: only one graph is the run itself, and that is [{}]", graph.name,
                                        kEveryForms, pipeline_.graphs[0].name));
    }
  }

  void read_figures() {
    pipeline_.stop = plan_stop(root().find("stop"), pipeline_.graphs, errors_);
    pipeline_.plateau = plan_plateau(root().find("plateau"), pipeline_.graphs, errors_);
    pipeline_.checkpoint = plan_checkpoint(root().find("checkpoint"), pipeline_.graphs, errors_);
    if (pipeline_.checkpoint.by_default && pipeline_.run.folder.empty()) pipeline_.checkpoint = {};
    const Value* run = root().find("run");
    const Value* best = run ? run->find("best") : nullptr;
    if (best && !pipeline_.run.best.empty()) pipeline_.best = plan_figure("best", *best, pipeline_.graphs, errors_);
    const std::optional<FigurePlan>&exported = pipeline_.best, &kept = pipeline_.checkpoint.best;
    if (exported && kept && exported->text() != kept->text()) {
      errors_.add(kept->at,
                  fmt::format("'best': a run has one best metric, and run.best is '{}': name the same one, or leave one out",
                              exported->text()));
    }
  }

  bool has_every(const GraphPlan& graph) { return root().find(graph.name)->find("every") != nullptr; }

  // Itself, a key below it, or a table that it is in.
  bool is_referred(const std::string& path) const {
    const auto below = referred_.lower_bound(path + ".");
    if (referred_.contains(path) || (below != referred_.end() && below->starts_with(path + "."))) return true;
    for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1)) {
      if (referred_.contains(path.substr(0, dot))) return true;
    }
    return false;
  }

  // References replaced by `extends` or --set count too: without these the key is used.
  bool is_used(const std::string& key) const { return sources_.named.contains(key) || is_referred(key); }

  // Reports unknown and unused keys: a misspelt [run], a graph with a misspelt `flow`, a key outside tables.
  void report_unknown_keys() {
    for (const Member& member : root().table()) {
      const Value& value = member.value;
      if (is_known_table(member.key) || is_graph(member)) continue;
      report_strange_variables(member);
      if (is_used(member.key)) continue;
      if (member.at.line == 0) continue;  // made by --set, and checked there
      const std::string of_stage = table_of_stage(member.key);
      if (value.kind() == Value::Kind::table && !of_stage.empty()) {
        errors_.add(member.at, fmt::format("[{0}] means nothing here; the table of stage '{0}' is {1}", member.key, of_stage));
        continue;
      }
      std::vector<std::string> names = known_tables();
      names.emplace_back("extends");
      if (has_tables(value) || value.find("every") != nullptr) {
        for (const GraphPlan& graph : pipeline_.graphs) names.push_back(graph.name);
      }
      const auto nearest = errors_.names_nearest() ? nearest_name(member.key, names) : std::nullopt;
      if (nearest && !pipeline_.graph(*nearest)) {
        errors_.add(member.at,
                    fmt::format("'{}' means nothing here and nothing refers to it; nearest is '{}'", member.key, *nearest));
      } else if (value.kind() == Value::Kind::table) {
        report_graph_without_flow(member, nearest);
      } else {
        report_unused_value(member, of_stage);
      }
    }
  }

  // Reports a variable that a file adds to an extended table if nothing refers to it and an existing one is similar.
  void report_strange_variables(const Member& table) {
    if (table.value.kind() != Value::Kind::table) return;
    const Table& variables = table.value.table();
    std::map<std::string, std::vector<std::string>> inherited;  // by each file: a table may have very many keys
    for (std::size_t file = 1; file < sources_.files.size(); ++file) {
      for (const Member& other : variables) {
        if (!is_in_file(other.at) || *other.at.file != sources_.files[file]) continue;
        for (std::size_t over = 0; over < file; ++over) inherited[sources_.files[over]].push_back(other.key);
      }
    }
    for (const Member& mine : variables) {
      if (!is_in_file(mine.at) || !inherited.contains(*mine.at.file) || is_referred(table.key + "." + mine.key)) continue;
      if (!errors_.names_nearest()) return;
      if (const auto nearest = nearest_name(mine.key, inherited[*mine.at.file])) {
        errors_.add(mine.at, fmt::format("'{0}' in [{1}] is new, and nothing refers to it; nearest is '{2}'", mine.key, table.key,
                                         *nearest));
      }
    }
  }

  // The tables where keys stand are collected once: a file may have very many keys that nothing uses.
  std::string likely_place(const std::string& key) {
    if (!likely_place_) likely_place_ = likely_places(root(), registry_);
    return likely_place_(key);
  }

  // Keys are often written above the first table by mistake. An unused variable does no harm.
  void report_unused_value(const Member& member, const std::string& of_stage) {
    const std::string likely =
        of_stage.empty() ? likely_place(member.key) : fmt::format("; the table of that stage is {}", of_stage);
    if (likely.empty()) {
      pipeline_.warnings.push_back(
          fmt::format("{}: '{}' is in no table and nothing refers to it: it has no effect", to_string(member.at), member.key));
    } else {
      errors_.add(member.at, fmt::format("'{}' means nothing here and nothing refers to it{}; put a variable for files that "
                                         "extend this one into a table of your own",
                                         member.key, likely));
    }
  }

  // Otherwise they would be unused in a file made from the resolved one.
  void drop_used_variables() {
    std::erase_if(root().table(), [this](const Member& member) {
      return !is_known_table(member.key) && !is_graph(member) && is_used(member.key);
    });
  }

  static bool has_tables(const Value& value) {
    if (value.kind() != Value::Kind::table) return false;
    return std::any_of(value.table().begin(), value.table().end(),
                       [](const Member& inner) { return inner.value.kind() == Value::Kind::table; });
  }

  // Whether it contains tables that look like stages.
  bool has_stages(const Value& value) const {
    if (value.kind() != Value::Kind::table) return false;
    return std::any_of(value.table().begin(), value.table().end(), [this](const Member& inner) {
      if (inner.value.kind() != Value::Kind::table) return false;
      return registry_.stages().find(inner.key) != nullptr || !table_of_stage(inner.key).empty() ||
             inner.value.find("stage") != nullptr;
    });
  }

  // `graph`: a graph with a similar name.
  void report_graph_without_flow(const Member& member, const std::optional<std::string>& graph) {
    for (const Member& inner : member.value.table()) {
      if (inner.value.kind() != Value::Kind::array || !nearest_name(inner.key, {"flow"})) continue;
      errors_.add(inner.at,
                  fmt::format("[{}] has no key '{}'; nearest is 'flow', which would make it a graph", member.key, inner.key));
      return;
    }
    const bool looks_like_one =
        graph ? has_tables(member.value) || member.value.find("every") != nullptr : has_stages(member.value);
    if (!looks_like_one) return report_unused_table(member);
    errors_.add(member.at, fmt::format("[{}] has no 'flow', so it is not a graph, and nothing refers to it{}", member.key,
                                       graph ? fmt::format("; nearest is '{}'", *graph) : ""));
  }

  // Unused variables in an extended file do no harm. In the file that is run they are probably a mistake.
  void report_unused_table(const Member& table) {
    const bool is_mine = is_in_file(table.at) && !sources_.files.empty() && *table.at.file == sources_.files.front();
    if (!is_mine || table.value.table().empty()) return;
    std::vector<std::string> names = known_tables();
    for (const GraphPlan& graph : pipeline_.graphs) names.push_back(graph.name);
    for (const Member& other : root().table()) {
      if (pipeline_.warnings.size() >= Diagnostics::kMaxNearest) break;
      if (other.key != table.key) names.push_back(other.key);
    }
    std::string likely = nearest_clause(table.key, names);
    if (likely.empty()) {
      const std::string& key = table.value.table().front().key;
      likely = likely_place(key);
      if (!likely.empty()) likely = fmt::format("; as for '{}'{}", key, likely.replace(0, 1, ","));
    }
    pipeline_.warnings.push_back(
        fmt::format("{}: nothing refers to [{}], so it has no effect{}", to_string(table.at), table.key, likely));
  }

  // "[train.optimizer]"; "" if no graph has such a stage.
  std::string table_of_stage(const std::string& name) const {
    for (const GraphPlan& graph : pipeline_.graphs) {
      for (const StagePlan& stage : graph.stages) {
        if (stage.name == name) return fmt::format("[{}.{}]", graph.name, name);
      }
    }
    return {};
  }

  // Keys added by --set must have an effect; the readers of graphs, [run] and [network] check theirs.
  void check_override(const Override& override, const Value& document) {
    const std::string& top = override.path.front();
    const Value* table = document.find(top);
    const std::string path = fmt::format("{}", fmt::join(override.path, "."));
    if (!override.is_new || is_known_table(top) || table->find("flow") != nullptr || is_referred(path)) return;
    std::vector<std::string> names = known_tables();
    for (const Member& member : document.table()) {
      if (member.value.at().line > 0) names.push_back(member.key);
    }
    if (override.path.size() > 1 && table->at().line > 0) {
      names.clear();
      for (const Member& member : table->table()) {
        if (member.value.at().line > 0) names.push_back(top + "." + member.key);
      }
      errors_.add(table->find(override.path[1])->at(),
                  fmt::format("'{}' is set, but nothing refers to it{}", path, nearest_clause(path, names)));
      return;
    }
    const std::string of_stage = table_of_stage(top);
    std::string likely = override.path.size() == 1 ? likely_place(top) : std::string();
    if (!of_stage.empty()) likely = fmt::format("; the table of that stage is {}", of_stage);
    errors_.add(table->at(), fmt::format("'{}' is set, but the file has no '{}'{}", path, top,
                                         likely.empty() ? nearest_clause(top, names) : likely));
  }

  const Registry& registry_;
  const LoadOptions& options_;
  Diagnostics& errors_;
  Pipeline pipeline_;
  DocumentSources sources_;
  Value files_;  // all files, without --set
  std::vector<Override> applied_;
  std::set<std::string> referred_;  // see resolve_document()
  std::function<std::string(const std::string&)> likely_place_;
};

// Resolves a user's argument: a file, the folder of a run with its file, or a base file run directly.
std::string pipeline_file(const std::string& path) {
  std::error_code ignored;
  if (is_shipped_name(path) && (is_absent(path) || fs::is_directory(path, ignored))) {
    if (const auto file = find_shipped(kBases, path, fs::path())) return *file;
    std::vector<std::string> names;
    for (const auto& [name, file] : shipped_files(kBases, fs::path())) names.push_back(name);
    if (const auto nearest = nearest_name(path, names))
      fail(ErrorKind::usage, "neither a file nor a base file '{}' exists; nearest is the base file '{}'", path, *nearest);
  }
  const bool is_run = fs::is_directory(path, ignored) && fs::exists(fs::path(path) / kKeptPipeline, ignored);
  return (is_run ? fs::path(path) / kKeptPipeline : fs::path(path)).lexically_normal().string();
}

}  // namespace

Pipeline load_pipeline(const std::string& path, const std::vector<std::string>& overrides, const Registry& registry,
                       const LoadOptions& options) {
  Diagnostics errors;
  const std::string file = pipeline_file(path);
  PipelineReader reader(file, registry, options, errors);
  reader.read(overrides,
              is_shipped_name(path) && file != fs::path(path).lexically_normal().string() && !file.ends_with(kKeptPipeline));
  reader.diagnostics().throw_if_any();
  return reader.take();
}

}  // namespace millrace
