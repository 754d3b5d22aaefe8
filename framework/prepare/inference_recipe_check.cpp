// Checks recipes. They come with weights from anywhere, and --predict makes a pipeline from them. So a recipe is a list of
// stages of declared roles, with keys that are declared as harmless, and a network of layers. Everything else is refused by
// name.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>

#include "millrace/detail/types.h"
#include "millrace/error.h"
#include "millrace/util/load_plugins.h"
#include "millrace/util/text.h"
#include "network/transfer.h"
#include "prepare/inference_recipe.h"

namespace millrace {
namespace {

constexpr std::size_t kLongestRecipeWord = 64, kLongestRecipeText = 200, kMaxRecipeStages = 32, kMaxRecipeVariables = 256;
constexpr double kLargestRecipeNumber = 4096;  // for stages, unless it is the default: sizes and limits allocate memory
constexpr std::int64_t kLargestRecipeExtent = 1 << 16, kLargestRecipeBatch = 1 << 20, kMaxRecipeValues = 256;
constexpr std::size_t kMaxValuesOfNetwork = 1 << 15, kMaxValuesOfVariables = 1 << 12;
constexpr std::array kTakenNames = {"flow", "every", "read"};  // keys of a graph's table, and its source
constexpr std::array kRecipeOutputs = {"classes", "map", "image", "numbers"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word_character(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; }

// A name allowed anywhere in a file: of a stage, type or variable.
bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= kLongestRecipeWord &&
         std::ranges::all_of(text, [](char c) { return is_word_character(c) || c == '-'; });
}

// The length of "${name}" at the front of the text, or 0.
std::size_t reference_length(std::string_view text) {
  const std::size_t end = text.starts_with("${") ? text.find('}') : text.npos;
  if (end == text.npos) return 0;
  const std::string_view name = text.substr(2, end - 2);
  return is_word(name) && name != "env" ? end + 1 : 0;
}

// Text that cannot be a path, a URL or an environment variable. `references`: allows the network's variables, "${width}".
bool is_harmless(std::string_view text, bool references) {
  constexpr std::string_view kMarks = " _-.,:;#@+*()%=";
  if (text.size() > kLongestRecipeText || text.find("..") != text.npos) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    const std::size_t reference = references ? reference_length(rest) : 0;
    if (reference > 0) {
      i += reference - 1;
    } else if (rest.front() == '/') {  // division has blanks around it
      if (i == 0 || !references || text[i - 1] != ' ' || !rest.starts_with("/ ")) return false;
    } else if (!is_word_character(rest.front()) && kMarks.find(rest.front()) == kMarks.npos) {
      return false;
    }
  }
  return true;
}

std::size_t values_in(const Value& value) {
  std::size_t all = 1;
  if (value.kind() == Value::Kind::array) {
    for (const Value& element : value.array()) all += values_in(element);
  }
  if (value.kind() == Value::Kind::table) {
    for (const Member& member : value.table()) all += values_in(member.value);
  }
  return all;
}

const char* role_name(RecipeRole role) {
  switch (role) {
    case RecipeRole::preparation: return "preparation";
    case RecipeRole::inference: return "inference";
    case RecipeRole::sink: return "sink";
    case RecipeRole::none: break;
  }
  return "none";
}

class RecipeCheck {
 public:
  RecipeCheck(const InferenceRecipe& recipe, const Registry& registry) : recipe_(recipe), registry_(registry) {}

  // Throws Error(data).
  void run(bool measures) {
    words();
    input();
    target();
    stages(recipe_.prepare, RecipeRole::preparation);
    stages(recipe_.predict, RecipeRole::inference);
    sinks();
    if (measures) measure();
    variables();
    document();
  }

 private:
  template <class... Args>
  [[noreturn]] static void refuse(fmt::format_string<Args...> text, Args&&... args) {
    fail(ErrorKind::data, "{}", fmt::format(text, std::forward<Args>(args)...));
  }

  void words() const {
    for (auto [key, text] : {std::pair{"graph", &recipe_.graph}, {"precision", &recipe_.precision}, {"loss", &recipe_.loss}}) {
      if (!is_word(*text)) refuse("'{}' must be a name of letters, found \"{}\"", key, shown(*text));
    }
    range("batch", Value(recipe_.batch), 0, kLargestRecipeBatch);
  }

  static void range(const std::string& key, const Value& value, std::int64_t low, std::int64_t high) {
    if (value.kind() == Value::Kind::integer && value.integer() >= low && value.integer() <= high) return;
    refuse("'{}' must be an integer from {} to {}, found {}", key, low, high, shown(found(value)));
  }

  void input() const {
    for (const char* key : {"height", "width", "channels"}) {
      const Value* const value = recipe_.input.find(key);
      if (value == nullptr) refuse("its table 'input' has no '{}'", key);
      range(fmt::format("input.{}", key), *value, 1, kLargestRecipeExtent);
    }
    for (const Member& member : recipe_.input.table()) harmless("input", member, false);
  }

  void target() const {
    for (const Member& member : recipe_.target.table()) {
      if (member.key == "scale") range("target.scale", member.value, 1, kLargestRecipeExtent);
      harmless("target", member, false);
    }
    const Value* const colours = recipe_.target.find("colours");
    const auto is_text = [](const Value& each) { return each.kind() == Value::Kind::text; };
    if (colours != nullptr && (colours->kind() != Value::Kind::array || !std::ranges::all_of(colours->array(), is_text))) {
      refuse("'target.colours' must be a list of texts");
    }
    if (const Value* const ignored = recipe_.target.find("ignored")) label_values("target.ignored", *ignored);
    const Value* const ids = recipe_.target.find("ids");
    if (ids == nullptr) return;
    if (ids->kind() != Value::Kind::array || static_cast<std::int64_t>(ids->array().size()) > kMaxRecipeValues) {
      refuse("'target.ids' must be a list of at most {} lists", kMaxRecipeValues);
    }
    for (const Value& values : ids->array()) label_values("target.ids", values);
  }

  static void label_values(const std::string& key, const Value& values) {
    if (values.kind() != Value::Kind::array) refuse("'{}' must be a list{}", key, key == "target.ids" ? " of lists" : "");
    for (const Value& value : values.array()) range(key, value, 0, kMaxRecipeValues - 1);
  }

  const StageType& type_of(const std::string& owner, const std::string& name, RecipeRole role) const {
    const StageType* const type = is_word(name) ? registry_.stages().find(name) : nullptr;
    if (type == nullptr)
      refuse("{} is of type '{}', which no plugin here registers{}", owner, shown(name),
             is_word(name) ? skipped_clause(registry_, name) : "");
    if (type->recipe_role == role) return *type;
    refuse("{} is of type '{}', whose role in recipes is {}, but stages here have the role {}", owner, name,
           role_name(type->recipe_role), role_name(role));
  }

  void stages(const std::vector<InferenceRecipe::StageUse>& uses, RecipeRole role) {
    if (uses.size() > kMaxRecipeStages)
      refuse("it has {} stages of the role {}, more than {}", uses.size(), role_name(role), kMaxRecipeStages);
    for (const InferenceRecipe::StageUse& use : uses) {
      const std::string owner = fmt::format("stage '{}'", shown(use.name));
      const StageType* const namesake = is_word(use.name) ? registry_.stages().find(use.name) : nullptr;
      const bool is_taken = std::ranges::find(kTakenNames, use.name) != kTakenNames.end() ||
                            (namesake != nullptr && namesake->recipe_role != RecipeRole::preparation);
      if (!is_word(use.name)) refuse("{} must have a name of letters, digits, '_' and '-'", owner);
      if (is_taken && use.name != use.type) refuse("{} is of type '{}', and another stage has this name", owner, shown(use.type));
      if (!names_.insert(use.name).second) refuse("{} occurs in it twice", owner);
      const StageType& type = type_of(owner, use.type, role);
      keys(owner, type, use.table, use.name);
      Diagnostics errors;
      type.check(use.table, owner, errors);
      if (!errors.empty()) refuse("{}", errors.text());
    }
  }

  void sinks() const {
    if (std::ranges::find(kRecipeOutputs, recipe_.output) == kRecipeOutputs.end()) {
      refuse("its output is \"{}\", which means nothing here", shown(recipe_.output));
    }
    for (const auto& [name, type] : registry_.stages()) {
      const Value* const table = recipe_.sinks.find(name);
      const bool writes = std::ranges::find(type.writes, recipe_.output) != type.writes.end();
      if (table != nullptr && writes && type.recipe_role == RecipeRole::sink) sink(type, *table);
    }
  }

  // The user decides where it writes; its other needs are unknown here.
  static void sink(const StageType& type, const Value& table) {
    const std::string owner = fmt::format("sink '{}'", type.name);
    if (table.kind() != Value::Kind::table) refuse("{} must be a table, found {}", owner, shown(found(table)));
    keys(owner, type, table, type.name);
    Value whole = table;
    for (const ParamInfo& info : type.params) {
      if (info.required && whole.find(info.name) == nullptr) whole.set(info.name, Value("any"));
    }
    Diagnostics errors;
    type.check(whole, owner, errors);
    if (!errors.empty()) refuse("{}", errors.text());
  }

  void measure() const {
    const bool is_text = recipe_.measure.kind() == Value::Kind::text;
    if (!is_text && recipe_.measure.table().empty()) return;
    const Value* const named = is_text ? &recipe_.measure : recipe_.measure.find("type");
    const std::string name = named != nullptr && named->kind() == Value::Kind::text ? named->text() : "";
    const LossType* const type = is_word(name) ? registry_.losses().find(name) : nullptr;
    if (type == nullptr) refuse("it is measured by the loss '{}', which no plugin here registers", shown(name));
    if (is_text) return;
    Value own = recipe_.measure;
    own.erase("type");
    own.erase("reduction");
    keys(fmt::format("loss '{}'", name), *type, own, "");
  }

  // Ignores keys with their default. `stage`: the stage of the pipeline that has them; "": none.
  static void keys(const std::string& owner, const TypeDescription& type, const Value& table, const std::string& stage) {
    for (const Member& member : table.table()) {
      const auto info = std::ranges::find(type.params, member.key, &ParamInfo::name);
      if (info == type.params.end()) refuse("{}: '{}' has no key '{}'", owner, type.name, shown(member.key));
      if (is_default(type, member.key, member.value)) continue;
      if (!info->in_recipes) refuse("{}: a recipe must not set key '{}' of '{}'", owner, member.key, type.name);
      harmless(owner, member, false);
      const Value* const usual = type.defaults.find(member.key);
      const double most =
          usual != nullptr && usual->is_number() ? std::max(usual->number(), kLargestRecipeNumber) : kLargestRecipeNumber;
      if (is_small(member.value, most)) continue;
      const std::string value = shown(to_toml(member.value));
      refuse("{}: '{}' is {}, but a recipe may set {} at most{}", owner, member.key, value, most,
             stage.empty() ? "" : fmt::format("; to use it anyway: --set 'predict.{}.{}={}'", stage, member.key, value));
    }
  }

  static bool is_small(const Value& value, double most) {
    const auto inner = [&](const Value& part) { return is_small(part, most); };
    if (value.kind() == Value::Kind::array) return std::ranges::all_of(value.array(), inner);
    if (value.kind() == Value::Kind::table) return std::ranges::all_of(value.table(), inner, &Member::value);
    return !value.is_number() || std::abs(value.number()) <= most;
  }

  static void harmless(const std::string& owner, const Member& member, bool references) {
    if (member.key.empty() || !is_harmless(member.key, false)) refuse("{} has the key '{}'", owner, shown(member.key));
    harmless(owner, member.key, member.value, references);
  }
  static void harmless(const std::string& owner, const std::string& key, const Value& value, bool references) {
    if (value.kind() == Value::Kind::text && !is_harmless(value.text(), references)) {
      refuse("{}: '{}' is \"{}\": a recipe's texts are words and numbers, never a file, an address or an environment variable",
             owner, key, shown(value.text()));
    }
    if (value.kind() == Value::Kind::array) {
      for (const Value& element : value.array()) harmless(owner, key, element, references);
    }
    if (value.kind() == Value::Kind::table) {
      for (const Member& member : value.table()) harmless(owner, member, references);
    }
  }

  // They are written into [network] next to the keys of every network, which fetch and change weights.
  void variables() const {
    const Value* const defaults = recipe_.document.find("defaults");
    if (values_in(recipe_.document) > kMaxValuesOfNetwork) refuse("its network has too many values");
    for (const Value* table : {&recipe_.network, defaults}) {
      if (table != nullptr && values_in(*table) > kMaxValuesOfVariables) refuse("its network's variables have too many values");
    }
    if (const Value* const blocks = recipe_.document.find("block"); blocks != nullptr && blocks->kind() == Value::Kind::table) {
      for (const Member& block : blocks->table()) check_block(block, blocks->table().size());
    }
    for (const Value* table : {&recipe_.network, defaults}) {
      if (table != nullptr && table->kind() == Value::Kind::table && table->table().size() > kMaxRecipeVariables) {
        refuse("its network has {} variables, more than {}", table->table().size(), kMaxRecipeVariables);
      }
    }
    ParamSet<NetworkParams> set;
    NetworkParams::describe(set);
    for (const Member& member : recipe_.network.table()) {
      const bool is_key = std::ranges::any_of(set.infos(), [&](const ParamInfo& info) { return info.name == member.key; });
      if (is_key) refuse("its network has a variable '{}', which is a key of every [network]", member.key);
      if (!is_word(member.key)) refuse("its network has a variable '{}'", shown(member.key));
      harmless("its network", member, false);
    }
  }

  // Each use of a block copies its variables.
  static void check_block(const Member& block, std::size_t blocks) {
    if (blocks > kMaxRecipeVariables) refuse("its network has {} blocks, more than {}", blocks, kMaxRecipeVariables);
    const Value* const own = block.value.kind() == Value::Kind::table ? block.value.find("defaults") : nullptr;
    if (own == nullptr || own->kind() != Value::Kind::table || own->table().size() <= kMaxRecipeVariables) return;
    refuse("its block '{}' has {} variables, more than {}", shown(block.key), own->table().size(), kMaxRecipeVariables);
  }

  void document() const {
    constexpr std::array kKeys = {"defaults", "input", "layers", "block"};
    for (const Member& member : recipe_.document.table()) {
      if (std::ranges::find(kKeys, member.key) == kKeys.end()) refuse("its network has the key '{}'", shown(member.key));
      harmless("its network", member, true);
    }
  }

  const InferenceRecipe& recipe_;
  const Registry& registry_;
  std::set<std::string> names_;
};

}  // namespace

bool is_recipe_text(std::string_view text) { return is_harmless(text, false); }

std::string mistake_in_recipe(const InferenceRecipe& recipe, const Registry& registry, bool measures) {
  try {
    RecipeCheck(recipe, registry).run(measures);
    return shown(recipe.unrepeatable);
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace millrace
