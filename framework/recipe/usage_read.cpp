// Recipes in metadata to Usage. Metadata are anybody's: nothing is believed of them, neither size nor kind.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config/document.h"
#include "millrace/error.h"
#include "millrace/util/text.h"
#include "recipe/usage.h"
#include "weights/weights.h"

namespace millrace {
namespace {

constexpr std::size_t kLongestRecipe = std::size_t{1} << 20U, kMostKeysOfTable = 4096, kMostValuesOfList = 65'536;

// Other tools have texts under this key too, such as a licence.
bool is_ours(std::string_view text) {
  constexpr std::string_view kFirst = "version", kBlanks = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  if (!text.starts_with(kFirst)) return false;
  text.remove_prefix(kFirst.size());
  const std::size_t next = text.find_first_not_of(" \t");
  return next != std::string_view::npos && text[next] == '=';
}

// Tables are searched from their beginning, and that of a recipe has few keys.
bool is_too_large(const Value& value) {
  if (value.kind() == Value::Kind::array) {
    return value.array().size() > kMostValuesOfList || std::ranges::any_of(value.array(), is_too_large);
  }
  if (value.kind() != Value::Kind::table) return false;
  const auto member_is = [](const Member& member) { return is_too_large(member.value); };
  return value.table().size() > kMostKeysOfTable || std::ranges::any_of(value.table(), member_is);
}

class UsageParser {
 public:
  UsageParser(const Value& table, const std::string& file) : table_(table), file_(file) {}

  Usage read() {
    const std::int64_t version = number("version");
    if (version > Usage::kVersion) {
      fail(ErrorKind::data,
           "'{}': its metadata '{}' has version {}, and {} is the newest one known here: a newer Millrace wrote it", file_,
           Usage::kKey, version, Usage::kVersion);
    }
    Usage usage;
    for (auto [key, field] :
         {std::pair{"graph", &usage.graph}, {"precision", &usage.precision}, {"output", &usage.output}, {"loss", &usage.loss}})
      *field = part(key, Value::Kind::text).text();
    usage.seed = number("seed");
    usage.batch = number("batch");
    for (auto [key, field] : {std::pair{"input", &usage.input},
                              {"target", &usage.target},
                              {"network", &usage.network},
                              {"document", &usage.document},
                              {"sinks", &usage.sinks}})
      *field = part(key, Value::Kind::table);
    if (const Value* const measure = table_.find("measure")) {
      const bool text = measure->kind() == Value::Kind::text;
      usage.measure = text ? *measure : part("measure", Value::Kind::table);
    }
    if (table_.find("unrepeatable") != nullptr) usage.unrepeatable = part("unrepeatable", Value::Kind::text).text();
    usage.prepare = stages("prepare");
    usage.predict = stages("predict");
    refuse_other_keys();
    return usage;
  }

 private:
  const Value& part(const char* key, Value::Kind kind) const {
    const Value* value = table_.find(key);
    if (value != nullptr && value->kind() == kind) return *value;
    fail(ErrorKind::data, "'{}': '{}' of its metadata '{}' should be {}: the file is damaged", file_, key, Usage::kKey,
         to_string(kind));
  }
  std::int64_t number(const char* key) const { return part(key, Value::Kind::integer).integer(); }

  std::vector<Usage::StageUse> stages(const char* key) const {
    std::vector<Usage::StageUse> uses;
    const Value& tables = part("stages", Value::Kind::table);
    for (const Value& name : part(key, Value::Kind::array).array()) {
      const Value* table = name.kind() == Value::Kind::text ? tables.find(name.text()) : nullptr;
      const Value* type = table ? table->find("stage") : nullptr;
      if (type == nullptr || type->kind() != Value::Kind::text) {
        fail(ErrorKind::data, "'{}': '{}' of its metadata '{}' names a stage that has no table: the file is damaged", file_, key,
             Usage::kKey);
      }
      Usage::StageUse use{name.text(), type->text(), *table, {}};
      use.table.erase("stage");
      uses.push_back(std::move(use));
    }
    return uses;
  }

  void refuse_other_keys() const {
    constexpr std::array kKeys = {"version", "graph",        "seed",  "precision", "output",  "loss",
                                  "measure", "unrepeatable", "batch", "prepare",   "predict", "input",
                                  "target",  "stages",       "sinks", "network",   "document"};
    for (const Member& member : table_.table()) {
      if (std::ranges::find(kKeys, member.key) != kKeys.end()) continue;
      fail(ErrorKind::data, "'{}': its metadata '{}' has the key '{}', which means nothing here: the file was changed", file_,
           Usage::kKey, shown(member.key));
    }
  }

  const Value& table_;
  const std::string& file_;
};

}  // namespace

std::vector<std::string> colours_from(const std::map<std::string, std::string>& metadata) {
  const auto found = metadata.find(Usage::kKey);
  std::vector<std::string> texts;
  if (found == metadata.end() || found->second.size() > kLongestRecipe || !is_ours(found->second)) return texts;
  Diagnostics ignored;
  const auto table = parse_toml(found->second, Usage::kKey, ignored);
  const Value* const target = table ? table->find("target") : nullptr;
  const Value* const colours = target ? target->find("colours") : nullptr;
  if (colours == nullptr || colours->kind() != Value::Kind::array) return texts;
  for (const Value& colour : colours->array()) {
    if (colour.kind() == Value::Kind::text) texts.push_back(colour.text());
  }
  return texts;
}

std::optional<Usage> usage_from(const std::map<std::string, std::string>& metadata, const std::string& file) {
  const auto found = metadata.find(Usage::kKey);
  if (found == metadata.end() || !is_ours(found->second)) return std::nullopt;
  if (found->second.size() > kLongestRecipe) {
    fail(ErrorKind::data, "'{}': its metadata '{}' has {} bytes, more than {}: the file was changed", file, Usage::kKey,
         found->second.size(), kLongestRecipe);
  }
  Diagnostics errors;
  const auto table = parse_toml(found->second, fmt::format("'{}', metadata '{}'", file, Usage::kKey), errors);
  if (!errors.empty() || !table) fail(ErrorKind::data, "{}: the file is damaged", errors.text());
  if (is_too_large(*table)) {
    fail(ErrorKind::data, "'{}': its metadata '{}' has a table of more than {} keys, or a list of more than {} values", file,
         Usage::kKey, kMostKeysOfTable, kMostValuesOfList);
  }
  Usage usage = UsageParser(*table, file).read();
  usage.classes = classes_from(metadata);
  return usage;
}

}  // namespace millrace
