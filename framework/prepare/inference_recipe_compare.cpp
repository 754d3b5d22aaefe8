// Where a pipeline uses weights differently from the run that wrote them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "prepare/inference_recipe.h"

namespace millrace {
namespace {

// A number stands for a range: 25 equals [25, 25].
bool is_range_of(const Value& list, const Value& number) {
  const auto equals = [&](const Value& each) { return each.is_number() && each.number() == number.number(); };
  return list.kind() == Value::Kind::array && list.array().size() == 2 &&
         std::all_of(list.array().begin(), list.array().end(), equals);
}

bool equal_values(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.is_number()) return is_range_of(b, a);
  if (b.is_number()) return is_range_of(a, b);
  if (a.kind() == Value::Kind::array && b.kind() == Value::Kind::array)
    return std::ranges::equal(a.array(), b.array(), equal_values);
  return a.kind() == b.kind() && to_toml(a) == to_toml(b);
}

// A value in one line, even a table.
std::string one_line(const Value& value) {
  const std::string list = to_toml(Value(Array{value}));
  return list.substr(1, list.size() - 2);
}

std::string as_written(const std::string& key, const Value* value) {
  return value ? fmt::format("{} = {}", key, one_line(*value)) : fmt::format("no '{}'", key);
}

std::string as_written(const std::vector<std::size_t>& values) {
  return values.size() == 1 ? fmt::format("value {}", values.front()) : fmt::format("values {}", fmt::join(values, ", "));
}

// The variables of a network, with the defaults of its file.
Value variables_of(const InferenceRecipe& recipe) {
  const Value* const defaults = recipe.document.find("defaults");
  Value all = defaults != nullptr && defaults->kind() == Value::Kind::table ? *defaults : Value();
  for (const Member& member : recipe.network.table()) all.set(member.key, member.value);
  return all;
}

// Variables of the input are compared as the input.
bool is_of_input(const InferenceRecipe& recipe, const std::string& variable) {
  const Value* const input = recipe.document.find("input");
  if (input == nullptr || input->kind() != Value::Kind::table) return false;
  return std::ranges::any_of(input->table(), [&](const Member& member) {
    return member.value.kind() == Value::Kind::text && member.value.text() == "${" + variable + "}";
  });
}

bool is_reference(const Value* value) {
  return value != nullptr && value->kind() == Value::Kind::text && value->text().find("${") != std::string::npos;
}

struct RecipeDifference {
  std::string key;
  const Value *then, *now;
  Position at;
};

// The first one in the order of the file. Initialisers do not matter for existing weights.
std::optional<RecipeDifference> first_difference(const std::string& key, const Value* then, const Value* now,
                                                 const Position& at) {
  if (key.ends_with("initialiser")) return std::nullopt;
  const Position& place = now != nullptr && now->at().file ? now->at() : at;
  const bool both = then != nullptr && now != nullptr && then->kind() == now->kind();
  if (both && then->kind() == Value::Kind::table) {
    Value keys = *then;
    for (const Member& member : now->table()) keys.set(member.key, member.value);
    for (const Member& member : keys.table()) {
      const std::string path = key.empty() ? member.key : key + "." + member.key;
      if (auto found = first_difference(path, then->find(member.key), now->find(member.key), place)) return found;
    }
    return std::nullopt;
  }
  if (both && then->kind() == Value::Kind::array && !equal_values(*then, *now)) {
    const Array &a = then->array(), &b = now->array();
    const auto element = [](const Array& list, std::size_t i) { return i < list.size() ? &list[i] : nullptr; };
    for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      if (auto found = first_difference(fmt::format("{}[{}]", key, i), element(a, i), element(b, i), place)) return found;
    }
    return std::nullopt;
  }
  if (then != nullptr && now != nullptr && equal_values(*then, *now)) return std::nullopt;
  return RecipeDifference{key, then, now, place};
}

class InferenceRecipeComparison {
 public:
  // The form of `stored` to compare with: validation's or, without_training_degradation(), that of images without targets.
  // `own_size`: images keep their size.
  struct As {
    bool photographs = false, own_size = false;
  };
  InferenceRecipeComparison(const InferenceRecipe& stored, const InferenceRecipe& here, As as)
      : stored_(stored),
        here_(here),
        own_size_(as.own_size),
        validated_(as.photographs ? "photographs are given to these weights" : "the weights were validated") {}

  void input() {
    const Value* const written_input = here_.document.find("input");
    for (const Member& member : stored_.input.table()) {
      if (own_size_ && (member.key == "height" || member.key == "width")) continue;
      const Value* value = here_.input.find(member.key);
      if (value != nullptr && equal_values(*value, member.value)) continue;
      const Value* place = here_.network.find(member.key);
      if (place == nullptr && written_input != nullptr) place = written_input->find(member.key);
      add(place ? place->at() : Position{}, "[network] has an input", as_written(member.key, value),
          as_written(member.key, &member.value));
    }
  }

  // Weights are float32 at any precision. Results differ in rounding, so --set needs no further confirmation.
  void precision() {
    const bool is_asked_for = here_.precision_at.file && !is_in_file(here_.precision_at);
    if (is_asked_for || here_.precision == "auto" || here_.precision == stored_.precision) return;
    add(here_.precision_at, "[run] has", fmt::format("precision = \"{}\"", here_.precision),
        fmt::format("precision = \"{0}\" (--set run.precision={1} accepts it)", stored_.precision, here_.precision));
  }

  // One message: if one layer differs, those after it often do.
  void network() {
    const Value then = variables_of(stored_), now = variables_of(here_);
    Value names = then;
    for (const Member& member : now.table()) names.set(member.key, member.value);
    for (const Member& member : names.table()) {
      if (is_of_input(stored_, member.key) || is_of_input(here_, member.key)) continue;
      const Value *before = then.find(member.key), *after = now.find(member.key);
      if (is_reference(before) || is_reference(after)) continue;  // its value comes from elsewhere
      if (!before || !after || !equal_values(*before, *after)) {
        return add(after ? after->at() : Position{}, "[network] has", as_written(member.key, after),
                   as_written(member.key, before));
      }
    }
    const auto layers_of = [](Value document) {
      for (const char* key : {"defaults", "input"}) document.erase(key);
      return document;
    };
    const Value before = layers_of(stored_.document), after = layers_of(here_.document);
    if (const auto found = first_difference("", &before, &after, {})) {
      add(found->at, "the network has", as_written(found->key, found->now), as_written(found->key, found->then));
    }
  }

  void stages(const std::vector<InferenceRecipe::StageUse>& then, const std::vector<InferenceRecipe::StageUse>& now) {
    auto next = now.begin();
    for (const InferenceRecipe::StageUse& stage : then) {
      const auto found =
          std::find_if(next, now.end(), [&](const InferenceRecipe::StageUse& each) { return each.type == stage.type; });
      if (found == now.end()) {
        errors_.add(now.empty() ? here_.network.at() : now.front().at,
                    fmt::format("[{}] has no stage '{}' here, and {} with one", here_.graph, stage.type, validated_));
        continue;
      }
      extra(next, found);
      const std::string owner = fmt::format("[{}.{}] has", here_.graph, found->name);
      table(owner, "", stage.table, found->table, found->at);
      next = found + 1;
    }
    extra(next, now.end());
  }

  void classes() {
    const std::vector<std::string>&then = stored_.classes, &now = here_.classes;
    if (then.empty() || now.empty() || then == now) return;
    const auto [before, after] = std::ranges::mismatch(then, now);
    const auto name = [](const auto& classes, auto at) { return at == classes.end() ? "no class" : fmt::format("'{}'", *at); };
    const auto count = [](const auto& classes) {
      return fmt::format("{} class{}", classes.size(), classes.size() == 1 ? "" : "es");
    };
    const bool reordered = std::ranges::is_permutation(then, now);
    add(here_.classes_at, fmt::format("[{}] has", here_.graph),
        fmt::format("{}{}, with {} as number {}", count(now), reordered ? " in another order" : "", name(now, after),
                    after - now.begin()),
        fmt::format("{}, with {} as number {}", count(then), name(then, before), before - then.begin()));
  }

  // The names of predicted numbers and of several labels, which correspond to classes.
  void numbers() {
    const Value *then = number_columns(stored_), *now = number_columns(here_);
    if (then == nullptr || now == nullptr || equal_values(*then, *now)) return;
    add(now->at(), fmt::format("[{}] predicts", here_.graph), one_line(*now), one_line(*then));
  }

  void target(bool other_task) {
    for (const char* key : {"kind", "scale"}) {
      const Value *then = stored_.target.find(key), *now = here_.target.find(key);
      if (then && now && !equal_values(*then, *now)) {
        add(here_.target_at, fmt::format("[{}] has targets of", here_.graph), as_written(key, now), as_written(key, then));
      }
    }
    if (other_task) return;
    ids();
    colours();
  }

  Diagnostics take() { return std::move(errors_); }

 private:
  using Stages = std::vector<InferenceRecipe::StageUse>::const_iterator;

  // Without its own position it is a default, or missing: then [network] is the place to set it.
  void add(const Position& at, std::string_view owner, const std::string& now, const std::string& then) {
    errors_.add(at.file ? at : here_.network.at(), fmt::format("{} {}, and {} with {}", owner, now, validated_, then));
  }

  void extra(Stages from, Stages to) {
    for (; from != to; ++from) {
      errors_.add(from->at, fmt::format("[{}] has a stage '{}', and {} without it", here_.graph, from->name, validated_));
    }
  }

  // Keys of the two tables, and of tables in them.
  void table(const std::string& owner, const std::string& path, const Value& then, const Value& now, const Position& at) {
    Value keys = then;
    for (const Member& member : now.table()) keys.set(member.key, member.value);
    for (const Member& member : keys.table()) {
      const Value *before = then.find(member.key), *after = now.find(member.key);
      const std::string key = path + member.key;
      const Position& place = after && after->at().file ? after->at() : at;
      if (before && after && before->kind() == Value::Kind::table && after->kind() == Value::Kind::table) {
        table(owner, key + ".", *before, *after, place);
      } else if (!before || !after || !equal_values(*before, *after)) {
        add(place, owner, as_written(key, after), as_written(key, before));
      }
    }
  }

  // The class of each value in label images; -1: ignored.
  static std::array<int, 256> classes_of(const Value& target) {
    std::array<int, 256> classes{};
    classes.fill(-1);
    const Value* ids = target.find("ids");
    if (ids == nullptr || ids->kind() != Value::Kind::array) return classes;
    for (std::size_t c = 0; c < ids->array().size(); ++c) {
      const Value& values = ids->array()[c];
      if (values.kind() != Value::Kind::array) continue;
      for (const Value& value : values.array()) {
        if (value.kind() != Value::Kind::integer || value.integer() < 0 || value.integer() > 255) continue;
        classes[static_cast<std::size_t>(value.integer())] = static_cast<int>(c);
      }
    }
    return classes;
  }

  // One message, for the first values that differ in meaning.
  void ids() {
    if (!stored_.target.find("ids") || !here_.target.find("ids")) return;
    const std::array<int, 256> then = classes_of(stored_.target), now = classes_of(here_.target);
    const auto differ = [&](std::size_t v) { return then[v] != now[v]; };
    std::vector<std::size_t> values;
    for (std::size_t v = 0; v < then.size(); ++v) {
      if (differ(v) && (values.empty() || (then[v] == then[values[0]] && now[v] == now[values[0]]))) values.push_back(v);
    }
    if (values.empty()) return;
    const auto meaning = [&](int number) {
      return number < 0 ? std::string("ignored") : fmt::format("taken as class {}", number);
    };
    add(here_.target_at, fmt::format("[{}] has label images whose", here_.graph),
        fmt::format("{} {} {}", as_written(values), values.size() == 1 ? "is" : "are", meaning(now[values[0]])),
        fmt::format("{} {}", values.size() == 1 ? "it" : "them", meaning(then[values[0]])));
  }

  // One message, for the first class that differs. Classes that only one side has are not compared.
  void colours() {
    const Value *then = stored_.target.find("colours"), *now = here_.target.find("colours");
    const auto is_list = [](const Value* value) { return value != nullptr && value->kind() == Value::Kind::array; };
    if (!is_list(then) || !is_list(now)) return;
    const auto [before, after] = std::ranges::mismatch(then->array(), now->array(), equal_values);
    if (before == then->array().end() || after == now->array().end()) return;  // one per class
    add(here_.classes_at, fmt::format("[{}] has", here_.graph),
        fmt::format("the colour {} for class {}", one_line(*after), after - now->array().begin()),
        fmt::format("the colour {}", one_line(*before)));
  }

  const InferenceRecipe &stored_, &here_;
  const bool own_size_;
  const std::string_view validated_;
  Diagnostics errors_;
};

Diagnostics compared(const InferenceRecipe& stored, const InferenceRecipe& here, bool other_task,
                     InferenceRecipeComparison::As as) {
  InferenceRecipeComparison comparison(stored, here, as);
  comparison.input();
  if (!other_task) comparison.network();
  comparison.precision();
  comparison.stages(stored.prepare, here.prepare);
  if (!stored.predict.empty() && !here.predict.empty()) comparison.stages(stored.predict, here.predict);
  if (!other_task) comparison.classes(), comparison.numbers();
  comparison.target(other_task);
  return comparison.take();
}

}  // namespace

Diagnostics disagreements(const InferenceRecipe& stored, const InferenceRecipe& here, bool other_task, const Registry& registry) {
  Diagnostics found = compared(stored, here, other_task, {});
  const bool photographs = restores(stored) && (here.target.table().empty() || here.paired);
  if (found.empty() || !photographs) return found;
  const bool own_size = takes_own_size(stored, registry);
  return compared(without_training_degradation(stored, registry), own_size ? without_stated_sizes(here, registry) : here,
                  other_task, {.photographs = true, .own_size = own_size});
}

}  // namespace millrace
