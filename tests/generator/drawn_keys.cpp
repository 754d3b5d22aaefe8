#include "drawn_keys.h"

#include <algorithm>
#include <cmath>

namespace millrace::generator {

namespace {

constexpr std::int64_t kFewMore = 8;  // above the least integer: small values run fast
constexpr double kLargest = 1000;     // maximum bound to draw; larger ones mean no limit

const Meaning* meaning_of(const Meanings& meanings, const std::string& owner, const std::string& key) {
  for (const std::string& name : {owner + "." + key, "*." + key}) {
    if (const auto found = meanings.find(name); found != meanings.end()) return &found->second;
  }
  return nullptr;
}

double drawn_number(const ParamInfo& info, const Value* by_default, Draw& draw) {
  const double low = info.low.value_or(-3), high = std::min(info.high.value_or(std::max(low, 0.0) + 3), kLargest);
  const auto how = draw.integer(0, 9);
  if (how == 0 && info.low) return low;
  if (how == 1 && info.high && *info.high <= kLargest) return high;
  if (how < 6 && by_default != nullptr && by_default->is_number() && by_default->number() != 0)
    return std::clamp(by_default->number() * std::exp2(draw.uniform(-2, 2)), low, high);
  return draw.uniform(low, high);
}

std::int64_t drawn_integer(const ParamInfo& info, Draw& draw) {
  const auto low = static_cast<std::int64_t>(info.low.value_or(0));
  const auto high = static_cast<std::int64_t>(std::min(info.high.value_or(1e9), 1e9));
  return draw.integer(low, std::min(high, low + kFewMore));
}

// Within the declared range; else near the default.
Value drawn_range(const ParamInfo& info, const Value* by_default, Draw& draw) {
  double low = info.low.value_or(0), high = std::min(info.high.value_or(low + 3), kLargest);
  if (!info.low && by_default != nullptr && by_default->kind() == Value::Kind::array) {
    low = by_default->array()[0].number();
    high = by_default->array()[1].number();
    if (low == high) low = -4, high = 4;
  }
  if (draw.chance(0.15)) return Value(draw.uniform(low, high));
  const double from = draw.chance(0.15) ? low : draw.uniform(low, high);
  const double to = draw.chance(0.15) ? high : draw.uniform(low, high);
  return Value(Array{Value(std::min(from, to)), Value(std::max(from, to))});
}

template <class Element>
Value drawn_list(Draw& draw, const Element& element) {
  Array list;
  for (std::int64_t count = draw.integer(0, 3); count > 0; --count) list.push_back(element());
  return Value(std::move(list));
}

std::optional<Value> drawn_value(const ParamInfo& info, const Value* by_default, const std::string& owner,
                                 const Meanings& meanings, double share, Draw& draw) {
  if (const Meaning* meaning = meaning_of(meanings, owner, info.name)) return (*meaning)(draw);
  const auto number = [&] { return Value(drawn_number(info, by_default, draw)); };
  const auto integer = [&] { return Value(drawn_integer(info, draw)); };
  const auto table = [&] {
    return drawn_table(info.members, info.member_defaults, owner + "." + info.name, meanings, std::max(share, 0.4), draw);
  };
  if (info.type == "true or false") return Value(draw.chance(0.5));
  if (info.type == "number") return number();
  if (info.type == "integer") return !info.choices.empty() && draw.chance(0.2) ? Value(pick(draw, info.choices)) : integer();
  if (info.type == "[low, high]") return drawn_range(info, by_default, draw);
  if (info.type == "[height, width]") return draw.chance(0.3) ? integer() : Value(Array{integer(), integer()});
  if (info.type == "table") return table();
  if (info.type == "list of tables") return Value(Array{table()});
  if (info.type == "list of numbers") return drawn_list(draw, number);
  if (info.type == "list of integers") return drawn_list(draw, integer);
  if (!info.choices.empty()) return Value(pick(draw, info.choices));
  return std::nullopt;
}

bool is_said(const Value& table, const ParamInfo::Companion& companion) {
  const Value* value = table.find(companion.key);
  if (value == nullptr || companion.values.empty()) return value != nullptr;
  return value->kind() == Value::Kind::text &&
         std::find(companion.values.begin(), companion.values.end(), value->text()) != companion.values.end();
}

const ParamInfo* find(const std::vector<ParamInfo>& params, const std::string& name) {
  const auto found = std::find_if(params.begin(), params.end(), [&](const ParamInfo& info) { return info.name == name; });
  return found == params.end() ? nullptr : &*found;
}

// Usually adds the other key that a key needs.
void bring_companion(const ParamInfo& info, const std::vector<ParamInfo>& params, Value& table, Draw& draw) {
  if (info.companions.empty() || draw.chance(0.2)) return;
  for (const ParamInfo::Companion& each : info.companions) {
    if (is_said(table, each)) return;
  }
  const ParamInfo::Companion& one = pick(draw, info.companions);
  if (!one.values.empty() && find(params, one.key) != nullptr) table.set(one.key, Value(pick(draw, one.values)));
}

// Removes mistakes: keys without their companions, and all but one of those that exclude each other.
void mend(const std::vector<ParamInfo>& params, Value& table) {
  std::vector<std::string> said;
  for (const ParamInfo& info : params) {
    if (table.find(info.name) == nullptr) continue;
    const bool alone = !info.companions.empty() && std::none_of(info.companions.begin(), info.companions.end(),
                                                                [&](const auto& each) { return is_said(table, each); });
    const bool twice = !info.alternative.empty() && std::find(said.begin(), said.end(), info.alternative) != said.end();
    if (alone || twice) {
      table.erase(info.name);
    } else if (!info.alternative.empty()) {
      said.push_back(info.alternative);
    }
  }
}

}  // namespace

Value list_of(const std::vector<std::string>& texts) {
  Array list;
  for (const std::string& text : texts) list.emplace_back(text);
  return Value(std::move(list));
}

Value pair_of(std::int64_t first, std::int64_t second) { return Value(Array{Value(first), Value(second)}); }

Value drawn_table(const std::vector<ParamInfo>& params, const Value& defaults, const std::string& owner, const Meanings& meanings,
                  double share, Draw& draw) {
  Value table;
  for (const ParamInfo& info : params) {
    if (!info.required && !draw.chance(share)) continue;
    const Value* by_default = defaults.kind() == Value::Kind::table ? defaults.find(info.name) : nullptr;
    std::optional<Value> value = drawn_value(info, by_default, owner, meanings, share, draw);
    if (!value) continue;
    bring_companion(info, params, table, draw);
    table.set(info.name, std::move(*value));
  }
  mend(params, table);
  return table;
}

void list_keys(const std::vector<ParamInfo>& params, const std::string& owner, std::vector<std::string>& keys) {
  for (const ParamInfo& info : params) {
    const std::string name = owner + "." + info.name;
    keys.push_back(name);
    list_keys(info.members, name, keys);
  }
}

}  // namespace millrace::generator
