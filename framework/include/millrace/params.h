// Parameters are declared once. The declaration drives the TOML reader, its error messages, `pipeline-inspect` and the JSON
// schema for editors.
//
//   struct Params {
//     double flip_x = 0.0;
//     std::string border = "reflect";
//   };
//   static void describe(ParamSet<Params>& set) {
//     set.add("flip_x", &Params::flip_x).range(0, 1).text("probability of mirroring left to right");
//     set.add("border", &Params::border).choices({"reflect", "constant"}).text("what lies outside the image");
//   }
//
// Field types, and how they are written in TOML:
//
//   bool, std::string                             true, "text"
//   int, std::uint32_t, std::(u)int64_t           an integer; values that do not fit are refused
//   float, double                                 a number
//   an enum                                       one of its names: add("mode", &Params::mode, {{"fast", Mode::fast}, ...})
//   Range, Size                                   [low, high], [height, width] of integers; or one number for both
//   std::vector, std::array of all but these two  a list; an array's list must have the array's size
//   std::optional of any of these                 may be left out
//   a struct with describe(ParamSet<T>&)          a table: add(), or add_table() with a `describe` from elsewhere
//   std::vector of such a struct                  a list of tables: add(), or add_list()
//   Value                                         anything; interpreted by the code that reads the field
//
// Other types do not compile, with a one-line reason. The struct's initialisers are the defaults, unless the field is required().
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/detail/param_info.h"
#include "millrace/detail/recipes.h"

namespace millrace {

struct Range {  // a closed interval
  double low = 0, high = 0;
};
struct Size {
  std::int64_t height = 0, width = 0;
};

// Refines the parameter that was just added.
class ParamRef {
 public:
  explicit ParamRef(ParamInfo& info) : info_(&info) {}
  ParamRef& text(std::string_view text);
  ParamRef& unit(std::string_view unit);
  ParamRef& range(double low, double high = std::numeric_limits<double>::infinity());  // both ends included
  // The texts allowed. An integer may also be one of these words, such as "auto", and is then read as 0; so may a list of
  // numbers, such as "median-frequency", which is replaced by numbers before it is read.
  ParamRef& choices(std::initializer_list<std::string_view> names);
  ParamRef& choices(std::vector<std::string> names);
  // A list of numbers may also be written as a table, { cat = 5 }, which is replaced by numbers before it is read.
  ParamRef& by_name();
  // For a text with choices: the message for a wrong text that contains `word`, in any case, instead of the nearest choice.
  ParamRef& hint(std::string_view word, std::string_view text);
  ParamRef& required();
  // The parameter has an effect only if `key` is written, or has one of these values. Further calls add alternatives.
  ParamRef& only_with(std::string_view key, std::initializer_list<std::string_view> values = {});
  // Keys of a table with the same `purpose` exclude each other: two in one file are an error; one from --set, or from a file that
  // extends another, replaces the other.
  ParamRef& alternative(std::string_view purpose);
  // A list may also be written as one text or number. A table may also be written as its first member alone: `learning_rate =
  // 0.1` means `learning_rate = { initial = 0.1 }`.
  ParamRef& or_one();
  // Results do not depend on it: a resumed run may use another value.
  ParamRef& may_change();
  // Recipes in weight files (detail/recipes.h) may set it. REQUIRES: no value, and no member of a table, names a file, a folder,
  // a URL, a program or an environment variable.
  ParamRef& in_recipes(RecipeEffect effect = RecipeEffect::none);

 private:
  ParamInfo* info_;
};

// The parameters of a struct. Each call declares one and returns a ParamRef:
//
//   add("name", &Params::field)                             any field of the list above
//   add("name", &Params::field, {{"fast", Mode::fast}})     an enum, with all its values
//   add_table("name", &Params::field, describe)             a struct; for a std::optional, writing the table sets it
//   add_list("name", &Params::field, describe, &T::others)  a list of structs T; `others` receives keys for other readers
template <class Struct>
class ParamSet;

}  // namespace millrace

#include "millrace/templates/param_set.h"
