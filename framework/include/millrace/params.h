// Parameters, declared once. From one declaration come: reading TOML, every error message, `pipeline-inspect`, and the JSON
// schema for editors.
//
//   struct Params {
//     double flip_x = 0.0;
//     std::string border = "reflect";
//   };
//   static void describe(ParamSet<Params>& set) {
//     set.add("flip_x", &Params::flip_x).range(0, 1).text("chance of mirroring left and right");
//     set.add("border", &Params::border).choices({"reflect", "constant"}).text("what lies outside the image");
//   }
//
// What a field may be, and what stands for it in TOML:
//
//   bool, std::string                             true, "text"
//   int, std::uint32_t, std::(u)int64_t           an integer; what does not fit is refused
//   float, double                                 a number
//   an enum                                       one of its names: add("mode", &Params::mode, {{"fast", Mode::fast}, ...})
//   Range, Size                                   [low, high] or one number; [height, width] or one integer
//   std::vector, std::array of all but these two  a list; of an array, with as many values as it has
//   std::optional of any of these                 it need not be written
//   a struct with describe(ParamSet<T>&)          a table: add(), or add_table() with a `describe` from elsewhere
//   std::vector of such a struct                  a list of tables: add(), or add_list()
//   Value                                         anything, which only the reader of the field understands
//
// Another type does not compile, and one line says why. Defaults are the struct's own initialisers. A parameter without a
// meaningful default is marked required().
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "millrace/detail/diagnostics.h"
#include "millrace/detail/param_fields.h"
#include "millrace/detail/param_info.h"
#include "millrace/detail/value.h"

namespace millrace {

// A closed interval. In TOML: [low, high], or one number for both.
struct Range {
  double low = 0;
  double high = 0;
};

// In TOML: [height, width], or one integer for both.
struct Size {
  std::int64_t height = 0;
  std::int64_t width = 0;
};

// What a stage of role preparation (stage.h, RecipeRole), or a value of its key that is not the default, does to inputs of a
// network that restores images. Such a network is trained on images that are made of their targets, and cut to one size; a user's
// photographs are inputs as they are, and have sizes of their own.
enum class RecipeEffect : std::uint8_t {
  none,         // photographs get it as well
  spoils,       // makes an input of its target, such as noise: photographs go without it
  cuts,         // cuts to the size of training: photographs that keep their size go without it
  states_size,  // says which size images have: photographs that keep their size have it in place of that
  resizes,      // makes all images one size, which photographs then get too
};

// Refines the parameter just added.
class ParamRef {
 public:
  explicit ParamRef(ParamInfo& info) : info_(&info) {}
  ParamRef& text(std::string_view text);
  ParamRef& unit(std::string_view unit);
  ParamRef& range(double low, double high = std::numeric_limits<double>::infinity());  // both included
  // A text may be one of these alone. An integer may be one of these words as well, such as "auto", which is read as 0. In a
  // list of numbers these are words that become numbers before it is read.
  ParamRef& choices(std::initializer_list<std::string_view> names);
  ParamRef& choices(std::vector<std::string> names);
  // For a text with choices: what the message says of a wrong one that holds `word`, in any case, instead of the nearest choice.
  ParamRef& hint(std::string_view word, std::string_view says);
  ParamRef& required();
  // The parameter has an effect only where this key is written, or is one of these texts. Called again: or that one.
  ParamRef& only_with(std::string_view key, std::initializer_list<std::string_view> values = {});
  // One of the keys of its table that say the same and exclude each other: two in one file are a mistake; one of a file that
  // extends another, or of --set, takes the other's place. See require_one_alternative().
  ParamRef& alternative(std::string_view says);
  // A list may also be written as one text or number. A table may also be written as the first of its members alone, as
  // `learning_rate = 0.1` stands for `learning_rate = { initial = 0.1 }`.
  ParamRef& or_one();
  // A run that goes on from a checkpoint may have another value and is not asked about it: results do not depend on it.
  ParamRef& may_change();
  // Recipes in files of weights (stage.h, RecipeRole) may set it. REQUIRES: no value names a file, a folder, a URL, a program or
  // a variable of the environment. Of a table: neither does any member.
  ParamRef& in_recipes(RecipeEffect effect = RecipeEffect::none);

 private:
  ParamInfo* info_;
};

namespace detail {
void require_one_alternative(const std::vector<ParamInfo>& params, const void* object, const void* defaults,
                             const std::string& owner);
}

// The parameters of a struct. Each call declares one, and returns what refines it:
//
//   add("name", &Params::field)                             any field of the list above
//   add("name", &Params::field, {{"fast", Mode::fast}})     an enum, with all that it may be
//   add_table("name", &Params::field, describe)             a struct; of a std::optional the table says something by being there
//   add_list("name", &Params::field, describe, &T::others)  a list of structs T; `others` takes keys that are another reader's
template <class Struct>
class ParamSet;

// Reads `table` into a default-constructed Struct.
template <class Struct>
Struct read_struct(const ParamSet<Struct>& set, const Value& table, const std::string& owner, Diagnostics& errors) {
  Struct object{};
  read_params(set.infos(), table, &object, owner, errors);
  return object;
}

// For an object that no table was read into: throws Error(usage) where two of its parameters exclude each other. One that has its
// default counts as not given.
template <class Struct>
void require_one_alternative(const ParamSet<Struct>& set, const Struct& object, const std::string& owner) {
  const Struct defaults{};
  detail::require_one_alternative(set.infos(), &object, &defaults, owner);
}

}  // namespace millrace

#include "millrace/detail/param_set.h"
