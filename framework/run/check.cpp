#include "run/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "millrace/storage.h"
#include "millrace/util/wire.h"
#include "prepare/budget.h"
#include "ranks/endpoint.h"
#include "util/memory_limit.h"
#include "util/secrets.h"

namespace millrace {
namespace {

std::string describe_stages(const GraphBuild& build) {
  std::string text;
  for (const StagePlan& stage : build.plan().stages) {
    if (!text.empty()) text += " -> ";
    text += stage.name;
    if (stage.type->name != stage.name) text += " (" + stage.type->name + ")";
  }
  return text;
}

// What is not known before the files are decoded.
std::string own_sizes_text(const GraphBuild& build) {
  std::string text;
  for (std::size_t s = 0; s < build.stages().size(); ++s) {
    const StagePlan& stage = build.plan().stages[s];
    const bool images = std::any_of(stage.type->outputs.begin(), stage.type->outputs.end(),
                                    [](const Port& port) { return port.payload == payload::kImageChunk; });
    if (!images || build.stages()[s].front()->image_shape().is_static()) continue;
    const std::string where = build.plan().name + "." + stage.name;
    text += fmt::format("  {:>10}  {:<20}  images at the size of their files, a few per thread, until they are resized\n", "and",
                        where);
  }
  return text;
}

// How much of an image a stage may leave at random, while its label stays.
std::string cut_text(const GraphBuild& build) {
  std::string text;
  for (const StagePlan& stage : build.plan().stages) {
    const Value* const crop = stage.table.find("random_resized_crop");
    const Value* const area = crop != nullptr && crop->kind() == Value::Kind::table ? crop->find("area") : nullptr;
    if (area == nullptr || area->kind() != Value::Kind::array || area->array().size() != 2) continue;
    const Value &least = area->array()[0], &most = area->array()[1];
    if (!least.is_number() || !most.is_number() || least.number() >= 1 || most.number() <= 0) continue;
    text += fmt::format(
        "  {} takes a random part of {:.3g} to {:.3g} % of each image's area: the rest is not seen, and the label stays\n",
        stage.name, 100 * least.number(), 100 * most.number());
  }
  return text;
}

std::string describe_weights(const WeightsSource& source) {
  if (source.file.empty()) return "";
  const std::string from = source.url.empty() ? source.file : fmt::format("{} in {}", without_secrets(source.url), source.file);
  return fmt::format("weights  {}{}{}\n", from, source.inside.empty() ? "" : fmt::format(", inside '{}'", source.inside),
                     source.fresh.empty() ? "" : fmt::format(", new: {}", fmt::join(source.fresh, ", ")));
}

// Describes the replicas of all processes, in their order. All processes call it.
std::string replicas_text(const PreparedRun& run) {
  const OpenDevices& devices = run.replicas.devices();
  std::string text, host;
  if (run.options.group != nullptr) host = host_name() + ' ';
  for (std::size_t r = 0; r < run.replicas.here().size(); ++r) {
    const DeviceInfo& info = devices.devices[r]->info();
    text += fmt::format("replica {}  {}{}:{} {}, {}, cores {}\n", devices.first_replica + r, host, info.backend, info.index,
                        info.name, to_string(run.replicas.precision()), fmt::join(devices.cores.replicas[r], " "));
  }
  if (run.options.group == nullptr) return text;
  std::string all;
  for (const auto& each : run.options.group->all_gather(Group::kRun, std::as_bytes(std::span(text)))) {
    all.append(reinterpret_cast<const char*>(each.data()), each.size());
  }
  return all;
}

}  // namespace

void gather_warnings(PreparedRun& run) {
  Group* const group = run.options.group;
  if (group == nullptr) return;
  const std::set<std::string> mine = run.audience.warnings();
  WireWriter writer;
  for (const std::string& text : mine) writer.put(std::string_view(text));
  const auto all = group->all_gather(Group::kRun, writer.bytes());
  if (!run.options.is_first()) return;
  std::map<std::string, std::set<int>> others;  // by text, the ranks that found it
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    for (WireReader reader(all[rank]); !reader.is_done();) others[reader.get<std::string>()].insert(static_cast<int>(rank));
  }
  for (const auto& [text, ranks] : others) {
    if (!mine.contains(text)) run.audience.warn(fmt::format("{}: {}", ranks_text(ranks), text));
  }
}

std::string check_report(const PreparedRun& run) {
  const std::set<std::string> warnings = run.audience.warnings();
  std::string text =
      fmt::format("{}: no mistakes found{}\n", run.pipeline.title(),
                  warnings.empty() ? "" : fmt::format(", {} warning{}", warnings.size(), warnings.size() == 1 ? "" : "s"));
  for (const auto& build : run.builds) {
    text += fmt::format("\n[{}]  {}\n", build->plan().name, describe_stages(*build));
    text += fmt::format("  {} samples of {}, batches of {}, {} step{} per epoch\n", build->data().samples_per_epoch,
                        to_string(build->data().image), build->data().batch.size, build->data().steps_per_epoch(),
                        build->data().steps_per_epoch() == 1 ? "" : "s");
    text += cut_text(*build);
    if (build->trains()) text += fmt::format("  {:g} epochs, {} steps\n", run.pipeline.run.epochs, run.steps.total);
  }
  for (const std::string& choice : {run.batch_choice, run.load_choice}) {
    if (!choice.empty()) text += fmt::format("\n{}\n", choice);
  }
  if (const Network* network = run.pipeline.network.get()) {
    std::uint64_t parameters = 0;
    std::uint64_t fixed = 0;
    std::uint64_t work = 0;
    for (const Parameter& parameter : network->parameters) {
      if (parameter.statistic) continue;
      parameters += static_cast<std::uint64_t>(parameter.shape.elements());
      if (!parameter.trainable) fixed += static_cast<std::uint64_t>(parameter.shape.elements());
    }
    for (const Layer& layer : network->layers) work += layer.multiply_adds;
    text += fmt::format("\nnetwork  {} layers, {} parameters{}, {:.1f} million multiply-adds an image, {} -> {}\n",
                        network->layers.size(), parameters, fixed > 0 ? fmt::format(" ({} fixed)", fixed) : "",
                        static_cast<double>(work) / 1e6, to_string(network->input), to_string(network->output()));
    text += describe_weights(run.weights.from);
    text += replicas_text(run);
  }
  text += "\nmemory, at most\n";
  const auto items = run.memory();
  for (const auto& item : items) text += fmt::format("  {:>10}  {:<20}  {}\n", bytes_text(item.bytes), item.where, item.what);
  std::set<std::string> devices;
  for (const auto& item : items) {
    if (!item.device.empty()) devices.insert(item.device);
  }
  text += fmt::format("  {:>10}  in all{}\n", bytes_text(total_bytes(items)), devices.empty() ? "" : ", of the host's memory");
  for (const std::string& device : devices) {
    text += fmt::format("  {:>10}  in all, of {}'s memory\n", bytes_text(total_bytes(items, device)), device);
  }
  for (const auto& build : run.builds) text += own_sizes_text(*build);
  if (warnings.empty()) return text;
  text += fmt::format("\n{} warning{}, as on standard error\n", warnings.size(), warnings.size() == 1 ? "" : "s");
  for (const std::string& each : warnings) text += fmt::format("  {}\n", each);
  return text;
}

}  // namespace millrace
