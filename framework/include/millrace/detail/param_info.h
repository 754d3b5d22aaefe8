// Declarations of a ParamSet, as the framework uses them. Part of params.h.
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

// One declared parameter, with its owner's type erased. `object` points to the struct that declared it.
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
  std::size_t length = 0;   // number of values that a list must have; 0: any
  bool or_one = false;      // a value that is not a list is read as a list of one, and one that is not a table as the table's
                            // first member
  bool by_name = false;     // for a list of numbers: see ParamRef::by_name()
  bool shared = false;      // for a list of tables: other readers use keys that are not members
  bool may_change = false;  // see ParamRef::may_change()
  std::optional<RecipeEffect> in_recipes;  // see ParamRef::in_recipes()
  // Without one of these the key has no effect, and is an error.
  struct Companion {
    std::string key;                  // in the same table
    std::vector<std::string> values;  // texts, one of which it must have; empty: any value
  };
  std::vector<Companion> companions;
  std::string alternative;         // keys of one table with the same text exclude each other; "": none
  std::vector<ParamInfo> members;  // of a table, or of each table of a list
  Value member_defaults;           // the members' defaults, as a table

  // Reads `value` into the field; on a mistake, reports it and leaves the field unchanged.
  detail::Function<void(const ParamInfo& self, void* object, const Value& value, Diagnostics& errors)> read;
  // The field as a value; for a default-constructed object this is the default.
  detail::Function<Value(const void* object)> write;
};

// Reads a table into `object`. Reports at their positions: unknown keys (with the nearest known one), wrong types, values out of
// range, keys without effect, keys that exclude each other, and missing required parameters. `owner` names the table in messages,
// such as "[train.augment]".
void read_params(const std::vector<ParamInfo>& params, const Value& table, void* object, const std::string& owner,
                 Diagnostics& errors);

// Removes keys from the table, and from tables in it, that have no effect because an overruling text, from a file that extends
// theirs or from --set, disables them.
using Overrules = detail::Function<bool(const Position& text, const Position& key)>;
void drop_overruled(const std::vector<ParamInfo>& params, Value& table, const Overrules& overrules);

// Removes the keys that are not parameters from the table and returns them, for another reader.
Value take_other_keys(const std::vector<ParamInfo>& params, Value& table);

// All parameters with their present values, as a table.
Value write_params(const std::vector<ParamInfo>& params, const void* object);

}  // namespace millrace
