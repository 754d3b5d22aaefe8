#include <fmt/format.h>

#include "common/text_table.h"
#include "inspect.h"
#include "millrace/annotation.h"
#include "millrace/backend/backend.h"
#include "millrace/communicator.h"
#include "millrace/detail/types.h"
#include "millrace/observer.h"
#include "millrace/optimizer.h"
#include "millrace/storage.h"
#include "millrace/util/load_plugins.h"
#include "millrace/util/wire.h"
#include "ranks/endpoint.h"

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

// The types that a plugin has registered; null: all types.
class Types {
 public:
  Types(const Registry& registry, const PluginInfo* plugin) : registry_(registry), plugin_(plugin) {}

  std::string text() const {
    return stages() + section_of("backends", registry_.backends()) + section_of("communicators", registry_.communicators()) +
           section_of("layer types", registry_.layers()) + section_of("losses", registry_.losses()) +
           section_of("optimizers", registry_.optimizers()) + section_of("observers", registry_.observers()) +
           section_of("storage", registry_.storages()) + section_of("annotation formats", annotations(registry_));
  }

 private:
  bool are_asked_for(const TypeDescription& type) const { return plugin_ == nullptr || type.plugin == plugin_->name; }

  std::string stages() const {
    TextTable table({"", "", "", "", ""});
    for (const auto& [name, type] : registry_.stages()) {
      if (are_asked_for(type)) table.row({name, payload_list(type.inputs), "->", payload_list(type.outputs), type.text});
    }
    return section("stages", table);
  }

  std::string section_of(const char* title, const auto& types) const {
    TextTable table({"", ""});
    for (const auto& [name, type] : types) {
      if (are_asked_for(type)) table.row({name, type.text});
    }
    return section(title, table);
  }

  const Registry& registry_;
  const PluginInfo* const plugin_;
};

// A missing plugin may be one that could not be loaded.
std::string skipped(const Registry& registry) {
  std::string out;
  for (const std::string& reason : load_errors(registry)) out += (out.empty() ? "\nskipped\n  " : "  ") + reason + "\n";
  return out;
}

std::string gigabytes(std::size_t bytes) { return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30)); }

}  // namespace

std::string list_everything(const Registry& registry) {
  TextTable plugins({"", "", "", ""});
  for (const PluginInfo& plugin : loaded_plugins(registry)) plugins.row({plugin.name, plugin.version, plugin.text, plugin.path});
  std::string out = "plugins\n" + plugins.text();
  if (plugins.empty()) out += "  none was found; MILLRACE_PLUGIN_PATH names the folders that are searched first\n";
  return out + Types(registry, nullptr).text() + skipped(registry);
}

std::string describe_plugin(const PluginInfo& plugin, const Registry& registry) {
  return fmt::format("{} {}: {}\n  {}\n", plugin.name, plugin.version, plugin.text, plugin.path) +
         Types(registry, &plugin).text();
}

std::string describe_devices(const Registry& registry) {
  std::string out;
  for (const auto& [name, type] : registry.backends()) {
    const auto backend = type.create();
    const std::vector<DeviceInfo> devices = backend->devices();
    if (devices.empty()) {
      const std::string reason = backend->unavailable_reason();
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

std::string describe_devices_of_ranks(const Registry& registry, Group& group) {
  WireWriter mine;
  const auto add = [&](const std::string& device, const std::string& name, const std::string& memory, const char* precision) {
    for (const std::string& cell : {std::to_string(group.rank()), host_name(), device, name, memory, std::string(precision)})
      mine.put(std::string_view(cell));
  };
  for (const auto& [name, type] : registry.backends()) {
    const auto backend = type.create();
    const std::vector<DeviceInfo> devices = backend->devices();
    if (devices.empty()) add(name, "no device: " + backend->unavailable_reason(), "", "");
    for (const DeviceInfo& each : devices) {
      add(fmt::format("{}:{}", each.backend, each.index), each.name, gigabytes(each.memory), each.native_bf16 ? "bf16" : "fp32");
    }
  }
  TextTable table({">rank", "host", "device", "", ">memory", "precision auto"}, 0);
  for (const auto& each : group.all_gather(Group::kRun, mine.bytes())) {
    for (WireReader reader(each); !reader.is_done();) {
      std::vector<std::string> cells;
      for (int cell = 0; cell < 6; ++cell) cells.push_back(reader.get<std::string>());
      table.row(std::move(cells));
    }
  }
  return group.rank() == 0 ? table.text() : "";
}

}  // namespace millrace
