#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "config/document.h"
#include "config/schema.h"
#include "inspect.h"
#include "millrace/error.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSchema = "millrace.schema.json";

// A table of the base file's variables as comments, with the set values.
std::string variables_text(const std::string& name, const Value& variables, const Value& given) {
  std::string text = fmt::format("\n[{}]\n", name);
  for (const Member& member : given.table()) text += fmt::format("{} = {}\n", member.key, to_toml(member.value));
  for (const Member& member : variables.table()) {
    if (given.find(member.key) == nullptr) text += fmt::format("# {} = {}\n", member.key, to_toml(member.value));
  }
  return text;
}

// The set values; always includes the images' path.
Value given_by(const std::vector<std::string>& sets) {
  Value given;
  Diagnostics errors;
  for (const std::string& set : sets) apply_override(set, given, errors);
  errors.throw_if_any();
  if (given.find("data") == nullptr) given.set("data", Value(Table{}));
  Value& data = *given.find("data");
  if (data.kind() == Value::Kind::table && data.find("path") == nullptr && data.find("train") == nullptr)
    data.table().insert(data.table().begin(), Member{"path", {}, Value("photos")});
  return given;
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (!file) fail(ErrorKind::storage, "--new: cannot write '{}': {}", path.string(), std::strerror(errno));
}

}  // namespace

std::string write_new_file(const NewFile& asked, const Registry& registry) {
  const fs::path path = asked.path;
  std::error_code ignored;
  if (path.extension() != ".toml") fail(ErrorKind::usage, "--new: '{}' does not end in .toml", asked.path);
  if (fs::exists(path, ignored)) fail(ErrorKind::usage, "--new: '{}' already exists: name another file", asked.path);
  if (!asked.sets.empty()) load_pipeline(asked.base, asked.sets, registry);  // throws if they are wrong
  Diagnostics errors;
  const std::optional<Value> base = read_document(asked.base_file, {}, errors);
  errors.throw_if_any();
  Value given = given_by(asked.sets);
  std::string text = fmt::format(
      "#:schema {0}\n# `pipeline-inspect {1}` shows the graphs. Removing a line's # overrides the base file.\n"
      "extends = {2}\n",
      kSchema, asked.base, to_toml(Value(asked.base)));
  for (const Member& table : base->table()) {
    if (table.value.kind() != Value::Kind::table || table.value.find("flow") != nullptr) continue;
    const Value* const mine = given.find(table.key);
    text += variables_text(table.key, table.value, mine != nullptr ? *mine : Value());
    given.erase(table.key);
  }
  if (!given.table().empty()) text += "\n" + to_toml(given);
  write(path, text);
  const fs::path schema = path.parent_path() / kSchema;
  write(schema, json_schema(registry));
  return fmt::format("'{0}', and '{1}' for editors; next: pipeline-run {0} --check\n", asked.path, schema.string());
}

}  // namespace millrace
