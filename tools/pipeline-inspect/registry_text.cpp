#include <fmt/format.h>

#include "inspect.h"
#include "text_table.h"

namespace millrace {

namespace {

std::string payload_list(const std::vector<Port>& ports) {
  std::vector<std::string> payloads;
  for (const Port& port : ports) payloads.push_back(port.payload);
  return payloads.empty() ? "-" : fmt::format("{}", fmt::join(payloads, ", "));
}

std::string section(const char* title, const TextTable& table) {
  return table.empty() ? "" : fmt::format("\n{}\n{}", title, table.text());
}

void add_stage(TextTable& table, const StageType& type) {
  table.row({type.name, payload_list(type.inputs), "->", payload_list(type.outputs), type.text});
}

TextTable stage_table() { return TextTable({"", "", "", "", ""}); }

// A plugin that is not there may be one that could not be loaded.
std::string skipped(const Registry& registry) {
  std::string out;
  for (const std::string& reason : registry.why_not()) out += (out.empty() ? "\nskipped\n  " : "  ") + reason + "\n";
  return out;
}

std::string gigabytes(std::size_t bytes) { return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30)); }

}  // namespace

std::string list_everything(const Registry& registry) {
  TextTable plugins({"", "", "", ""}), stages = stage_table(), backends({"", ""}), communicators({"", ""}), layers({"", ""}),
                                       rules({"", ""}), losses({"", ""}), observers({"", ""}), storages({"", ""});
  for (const PluginInfo& plugin : registry.plugins()) plugins.row({plugin.name, plugin.version, plugin.text, plugin.path});
  for (const auto& [name, type] : registry.stages()) add_stage(stages, type);
  for (const auto& [name, type] : registry.backends()) backends.row({name, type.text});
  for (const auto& [name, type] : registry.communicators()) communicators.row({name, type.text});
  for (const auto& [name, type] : registry.layers()) layers.row({name, type.text});
  for (const auto& [name, type] : registry.rules()) rules.row({name, type.text});
  for (const auto& [name, type] : registry.losses()) losses.row({name, type.text});
  for (const auto& [name, type] : registry.observers()) observers.row({name, type.text});
  for (const auto& [name, type] : registry.storages()) storages.row({name, type.text});
  std::string out = "plugins\n" + plugins.text();
  if (plugins.empty()) out += "  none was found; MILLRACE_PLUGIN_PATH names the folders that are searched first\n";
  out += section("stages", stages) + section("backends", backends) + section("communicators", communicators) +
         section("layer types", layers) + section("losses", losses) + section("update rules", rules) +
         section("observers", observers) + section("storage", storages);
  return out + skipped(registry);
}

std::string describe_plugin(const PluginInfo& plugin, const Registry& registry) {
  std::string out = fmt::format("{} {}: {}\n  {}\n", plugin.name, plugin.version, plugin.text, plugin.path);
  TextTable stages = stage_table(), backends({"", ""}), layers({"", ""}), rules({"", ""}), losses({"", ""}), observers({"", ""}),
            storages({"", ""});
  for (const auto& [name, type] : registry.stages()) {
    if (type.plugin == plugin.name) add_stage(stages, type);
  }
  for (const auto& [name, type] : registry.backends()) {
    if (type.plugin == plugin.name) backends.row({name, type.text});
  }
  for (const auto& [name, type] : registry.layers()) {
    if (type.plugin == plugin.name) layers.row({name, type.text});
  }
  for (const auto& [name, type] : registry.rules()) {
    if (type.plugin == plugin.name) rules.row({name, type.text});
  }
  for (const auto& [name, type] : registry.losses()) {
    if (type.plugin == plugin.name) losses.row({name, type.text});
  }
  for (const auto& [name, type] : registry.observers()) {
    if (type.plugin == plugin.name) observers.row({name, type.text});
  }
  for (const auto& [name, type] : registry.storages()) {
    if (type.plugin == plugin.name) storages.row({name, type.text});
  }
  return out + section("stages", stages) + section("backends", backends) + section("layer types", layers) +
         section("losses", losses) + section("update rules", rules) + section("observers", observers) +
         section("storage", storages);
}

std::string describe_devices(const Registry& registry) {
  std::string out;
  for (const auto& [name, type] : registry.backends()) {
    const auto backend = type.create();
    const std::vector<DeviceInfo> devices = backend->devices();
    if (devices.empty()) {
      const std::string reason = backend->why_not();
      out += fmt::format("{}: no device{}\n", name, reason.empty() ? "" : ": " + reason);
    }
    for (const DeviceInfo& device : devices) {
      out += fmt::format("{}:{}  {}\n", device.backend, device.index, device.name);
      TextTable details({"", ""}, 4);
      details.row({"memory", gigabytes(device.memory)});
      details.row({"precision auto", device.native_bf16 ? "bf16, which it multiplies natively" : "fp32"});
      for (const auto& [what, value] : device.details) details.row({what, value});
      out += details.text();
    }
  }
  return (out.empty() ? "no backend was found\n" : out) + skipped(registry);
}

}  // namespace millrace
