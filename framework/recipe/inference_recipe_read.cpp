// Recipes in metadata to InferenceRecipe. Metadata are untrusted, including sizes and types.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config/document.h"
#include "millrace/error.h"
#include "millrace/util/text.h"
#include "recipe/inference_recipe.h"
#include "weight_files/weights.h"

namespace millrace {
namespace {

constexpr std::size_t kLongestRecipe = std::size_t{1} << 20U, kMaxKeysOfTable = 4096, kMaxValuesOfList = 65'536;

// Other tools use this key for texts such as a licence.
bool is_ours(std::string_view text) {
  constexpr std::string_view kFirst = "version", kBlanks = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  if (!text.starts_with(kFirst)) return false;
  text.remove_prefix(kFirst.size());
  const std::size_t next = text.find_first_not_of(" \t");
  return next != std::string_view::npos && text[next] == '=';
}

// Tables are searched linearly, and a recipe's has few keys.
bool is_too_large(const Value& value) {
  if (value.kind() == Value::Kind::array) {
    return value.array().size() > kMaxValuesOfList || std::ranges::any_of(value.array(), is_too_large);
  }
  if (value.kind() != Value::Kind::table) return false;
  const auto member_is = [](const Member& member) { return is_too_large(member.value); };
  return value.table().size() > kMaxKeysOfTable || std::ranges::any_of(value.table(), member_is);
}

// Older files store the loss's name as `rule`.
void name_type(Value& loss) {
  const Value* const name = loss.find("rule");
  if (name == nullptr || loss.find("type") != nullptr) return;
  loss.set("type", *name);
  loss.erase("rule");
}

class InferenceRecipeParser {
 public:
  InferenceRecipeParser(const Value& table, const std::string& file) : table_(table), file_(file) {}

  InferenceRecipe read() {
    const std::int64_t version = number("version");
    if (version > InferenceRecipe::kVersion) {
      fail(ErrorKind::data,
           "'{}': its metadata '{}' has version {}, but {} is the newest one known here: a newer Millrace wrote it", file_,
           InferenceRecipe::kKey, version, InferenceRecipe::kVersion);
    }
    InferenceRecipe recipe;
    for (auto [key, field] : {std::pair{"graph", &recipe.graph},
                              {"precision", &recipe.precision},
                              {"output", &recipe.output},
                              {"loss", &recipe.loss}})
      *field = part(key, Value::Kind::text).text();
    recipe.seed = number("seed");
    recipe.batch = number("batch");
    for (auto [key, field] : {std::pair{"input", &recipe.input},
                              {"target", &recipe.target},
                              {"network", &recipe.network},
                              {"document", &recipe.document},
                              {"sinks", &recipe.sinks}})
      *field = part(key, Value::Kind::table);
    if (const Value* const measure = table_.find("measure")) {
      const bool text = measure->kind() == Value::Kind::text;
      recipe.measure = text ? *measure : part("measure", Value::Kind::table);
      if (!text) name_type(recipe.measure);
    }
    if (table_.find("unrepeatable") != nullptr) recipe.unrepeatable = part("unrepeatable", Value::Kind::text).text();
    recipe.prepare = stages("prepare");
    recipe.predict = stages("predict");
    refuse_other_keys();
    return recipe;
  }

 private:
  const Value& part(const char* key, Value::Kind kind) const {
    const Value* value = table_.find(key);
    if (value != nullptr && value->kind() == kind) return *value;
    fail(ErrorKind::data, "'{}': '{}' of its metadata '{}' should be {}: the file is damaged", file_, key, InferenceRecipe::kKey,
         to_string(kind));
  }
  std::int64_t number(const char* key) const { return part(key, Value::Kind::integer).integer(); }

  std::vector<InferenceRecipe::StageUse> stages(const char* key) const {
    std::vector<InferenceRecipe::StageUse> uses;
    const Value& tables = part("stages", Value::Kind::table);
    for (const Value& name : part(key, Value::Kind::array).array()) {
      const Value* table = name.kind() == Value::Kind::text ? tables.find(name.text()) : nullptr;
      const Value* type = table ? table->find("stage") : nullptr;
      if (type == nullptr || type->kind() != Value::Kind::text) {
        fail(ErrorKind::data, "'{}': '{}' of its metadata '{}' names a stage that has no table: the file is damaged", file_, key,
             InferenceRecipe::kKey);
      }
      InferenceRecipe::StageUse use{name.text(), type->text(), *table, {}};
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
           InferenceRecipe::kKey, shown(member.key));
    }
  }

  const Value& table_;
  const std::string& file_;
};

}  // namespace

std::vector<std::string> colours_from(const std::map<std::string, std::string>& metadata) {
  const auto found = metadata.find(InferenceRecipe::kKey);
  std::vector<std::string> texts;
  if (found == metadata.end() || found->second.size() > kLongestRecipe || !is_ours(found->second)) return texts;
  Diagnostics ignored;
  const auto table = parse_toml(found->second, InferenceRecipe::kKey, ignored);
  const Value* const target = table ? table->find("target") : nullptr;
  const Value* const colours = target ? target->find("colours") : nullptr;
  if (colours == nullptr || colours->kind() != Value::Kind::array) return texts;
  for (const Value& colour : colours->array()) {
    if (colour.kind() == Value::Kind::text) texts.push_back(colour.text());
  }
  return texts;
}

std::optional<InferenceRecipe> recipe_from(const std::map<std::string, std::string>& metadata, const std::string& file) {
  const auto found = metadata.find(InferenceRecipe::kKey);
  if (found == metadata.end() || !is_ours(found->second)) return std::nullopt;
  if (found->second.size() > kLongestRecipe) {
    fail(ErrorKind::data, "'{}': its metadata '{}' has {} bytes, more than {}: the file was changed", file, InferenceRecipe::kKey,
         found->second.size(), kLongestRecipe);
  }
  Diagnostics errors;
  const auto table = parse_toml(found->second, fmt::format("'{}', metadata '{}'", file, InferenceRecipe::kKey), errors);
  if (!errors.empty() || !table) fail(ErrorKind::data, "{}: the file is damaged", errors.text());
  if (is_too_large(*table)) {
    fail(ErrorKind::data, "'{}': its metadata '{}' has a table of more than {} keys, or a list of more than {} values", file,
         InferenceRecipe::kKey, kMaxKeysOfTable, kMaxValuesOfList);
  }
  InferenceRecipe recipe = InferenceRecipeParser(*table, file).read();
  recipe.classes = classes_from(metadata);
  return recipe;
}

}  // namespace millrace
