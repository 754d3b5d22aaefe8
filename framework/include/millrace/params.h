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
//   Range, Size                                   [low, high], [height, width] of integers; or one number for both
//   std::vector, std::array of all but these two  a list; of an array, with as many values as it has
//   std::optional of any of these                 it need not be written
//   a struct with describe(ParamSet<T>&)          a table: add(), or add_table() with a `describe` from elsewhere
//   std::vector of such a struct                  a list of tables: add(), or add_list()
//   Value                                         anything, which only the reader of the field understands
//
// Another type does not compile, and one line says why. The struct's initialisers are the defaults; or say required().
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

// Refines the parameter just added.
class ParamRef {
 public:
  explicit ParamRef(ParamInfo& info) : info_(&info) {}
  ParamRef& text(std::string_view text);
  ParamRef& unit(std::string_view unit);
  ParamRef& range(double low, double high = std::numeric_limits<double>::infinity());  // both included
  // What a text may be. An integer may also be one of these words, such as "auto", which is read as 0; so may a list of numbers,
  // such as "median-frequency", in whose place numbers stand before it is read.
  ParamRef& choices(std::initializer_list<std::string_view> names);
  ParamRef& choices(std::vector<std::string> names);
  // A list of numbers may also be a table of them, { cat = 5 }: numbers stand in its place before it is read, as for a word.
  ParamRef& by_name();
  // For a text with choices: what the message says of a wrong one that holds `word`, in any case, instead of the nearest choice.
  ParamRef& hint(std::string_view word, std::string_view says);
  ParamRef& required();
  // The parameter has an effect only where this key is written, or is one of these texts. Called again: or that one.
  ParamRef& only_with(std::string_view key, std::initializer_list<std::string_view> values = {});
  // Keys of a table that say the same exclude each other: two in one file are a mistake; one of --set, or of a file that extends
  // another, takes the other's place.
  ParamRef& alternative(std::string_view says);
  // A list may also be written as one text or number. A table may also be written as the first of its members alone, as
  // `learning_rate = 0.1` stands for `learning_rate = { initial = 0.1 }`.
  ParamRef& or_one();
  // Results do not depend on it: a run that resumes may have another value.
  ParamRef& may_change();
  // Recipes in files of weights (detail/recipes.h) may set it. REQUIRES: no value, of a table no member, names a file, a folder,
  // a URL, a program or a variable of the environment.
  ParamRef& in_recipes(RecipeEffect effect = RecipeEffect::none);

 private:
  ParamInfo* info_;
};

// The parameters of a struct. Each call declares one, and returns what refines it:
//
//   add("name", &Params::field)                             any field of the list above
//   add("name", &Params::field, {{"fast", Mode::fast}})     an enum, with all that it may be
//   add_table("name", &Params::field, describe)             a struct; of a std::optional the table says something by being there
//   add_list("name", &Params::field, describe, &T::others)  a list of structs T; `others` takes keys that are another reader's
template <class Struct>
class ParamSet;

}  // namespace millrace

#include "millrace/detail/param_set.h"
