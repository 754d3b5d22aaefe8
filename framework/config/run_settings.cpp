#include "millrace/util/run_settings.h"

#include <fstream>
#include <iterator>

#include "toml/document.h"
#include "util/secrets.h"

namespace millrace {
namespace {

void add_settings(const std::string& path, const Value& value, std::vector<RunSetting>& settings) {
  switch (value.kind()) {
    case Value::Kind::table:
      for (const Member& member : value.table())
        add_settings(path.empty() ? member.key : path + "." + member.key, member.value, settings);
      break;
    case Value::Kind::array: settings.push_back({path, Value(without_secrets(to_toml(value)))}); break;
    case Value::Kind::text: settings.push_back({path, Value(without_secrets(value.text()))}); break;
    default: settings.push_back({path, value});
  }
}

}  // namespace

std::vector<RunSetting> run_settings(const RunStart& run) {
  std::vector<RunSetting> settings;
  if (run.folder.empty()) return settings;
  const std::string path = (run.folder / "pipeline.toml").string();
  std::ifstream file(path, std::ios::binary);
  Diagnostics ignored;  // a user may have changed the copy
  const std::optional<Value> document = parse_toml(std::string(std::istreambuf_iterator<char>(file), {}), path, ignored);
  if (document) add_settings("", *document, settings);
  return settings;
}

}  // namespace millrace
