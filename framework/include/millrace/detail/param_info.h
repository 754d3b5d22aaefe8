// What a ParamSet declares, as the framework sees it. Part of params.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/detail/function.h"
#include "millrace/detail/value.h"

namespace millrace {

class Diagnostics;
enum class RecipeEffect : std::uint8_t;

// One declared parameter, with the owner's type erased. `object` points to the struct that declared it.
struct ParamInfo {
  ParamInfo();
  ParamInfo(const ParamInfo&);
  ParamInfo(ParamInfo&&) noexcept;
  ParamInfo& operator=(const ParamInfo&);
  ParamInfo& operator=(ParamInfo&&) noexcept;
  ~ParamInfo();

  std::string name;
  std::string type;  // "number", "integer", "true or false", "text", "[low, high]", "table", "list of tables", ...
  std::string unit;  // "", "pixels", "epochs", ...
  std::string text;
  std::optional<double> low, high;
  std::vector<std::string> choices;
  std::vector<std::pair<std::string, std::string>> hints;  // see ParamRef::hint()
  bool required = false;
  std::size_t length = 0;   // of a list: how many values it must have; 0: any number
  bool or_one = false;      // a value that is no list stands for a list of it, and one that is no table for its first member
  bool by_name = false;     // of a list of numbers: see ParamRef::by_name()
  bool shared = false;      // of a list of tables: keys that no member has belong to another reader
  bool may_change = false;  // see ParamRef::may_change()
  std::optional<RecipeEffect> in_recipes;  // see ParamRef::in_recipes()
  // The key has no effect without one of these, and is then a mistake.
  struct Companion {
    std::string key;                  // of the same table
    std::vector<std::string> values;  // texts, one of which it must have; empty: it must be written
  };
  std::vector<Companion> companions;
  std::string alternative;         // what it says; keys of one table that say the same exclude each other; "": none does
  std::vector<ParamInfo> members;  // of a table, or of each table of a list
  Value member_defaults;           // theirs, in a table that is written down

  // Reads `value` into the field; reports what is wrong and leaves the field alone otherwise.
  detail::Function<void(const ParamInfo& self, void* object, const Value& value, Diagnostics& errors)> read;
  // The field as a value; with a default-constructed object this is the default.
  detail::Function<Value(const void* object)> write;
};

// Reads a table into `object`: unknown keys (with the nearest known one), wrong types, values out of range, keys without effect,
// keys that exclude each other and missing required parameters are reported at their positions. `owner` names the table in
// messages, such as "[train.augment]".
void read_params(const std::vector<ParamInfo>& params, const Value& table, void* object, const std::string& owner,
                 Diagnostics& errors);

// Takes keys out of the table, and out of tables in it, that have no effect beside a text which overrules them: one of a file
// that extends theirs, or of --set.
using Overrules = detail::Function<bool(const Position& text, const Position& key)>;
void drop_overruled(const std::vector<ParamInfo>& params, Value& table, const Overrules& overrules);

// Takes the keys that are no parameters out of the table; they are another reader's.
Value take_other_keys(const std::vector<ParamInfo>& params, Value& table);

// Every parameter with its present value, as a table.
Value write_params(const std::vector<ParamInfo>& params, const void* object);

}  // namespace millrace
