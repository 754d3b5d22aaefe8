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

// Collects what is wrong with a file so that several mistakes are reported in one go.
class Diagnostics {
 public:
  void add(const Position& at, std::string message);
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  std::string text() const;   // sorted by position, one "file:line:column: message" a line
  void throw_if_any() const;  // Error(ErrorKind::usage, text())

  struct Entry {
    Position at;
    std::string message;
  };
  const std::vector<Entry>& entries() const { return entries_; }  // in the order in which they were added

 private:
  std::vector<Entry> entries_;
};

// Refines the parameter just added.
class ParamRef {
 public:
  explicit ParamRef(ParamInfo& info) : info_(&info) {}
  ParamRef& text(std::string_view text);
  ParamRef& unit(std::string_view unit);
  ParamRef& range(double low, double high = std::numeric_limits<double>::infinity());  // both included
  // Of a text: the only ones it may be. Of an integer: words that it may be as well, such as "auto"; they read as 0. Of a list of
  // numbers: words that the framework replaces by numbers before it is read.
  ParamRef& choices(std::initializer_list<std::string_view> names);
  ParamRef& choices(std::vector<std::string> names);
  // Of a text with choices: what is said of a wrong one that holds `word`, in lower case or not, instead of the nearest choice.
  ParamRef& hint(std::string_view word, std::string_view says);
  ParamRef& required();
  // The parameter has an effect only where this key is written, or is one of these texts. Called again: or that one.
  ParamRef& only_with(std::string_view key, std::initializer_list<std::string_view> values = {});
  // One of the keys of its table that say the same, such as "bound", and exclude each other: two in one file are a mistake, and
  // one in a file that extends another, or in --set, takes the place of the other file's. See require_one_alternative().
  ParamRef& alternative(std::string_view says);
  // Of a list of texts or numbers: it may also be one of them. Of a table: it may also be the first of its members alone, as
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
// The parameters that a ParamSet declares, without the type of their struct.
class ParamList {
 public:
  const std::vector<ParamInfo>& infos() const { return infos_; }
  std::vector<ParamInfo> take() && { return std::move(infos_); }

 protected:
  using Read = decltype(ParamInfo::read);
  using Write = decltype(ParamInfo::write);
  // The results are valid until the next parameter is added.
  ParamRef append(std::string_view name, std::string type, Read read, Write write, std::size_t length = 0);
  ParamRef append_table(std::string_view name, std::string type, std::vector<ParamInfo> members, const void* member_defaults,
                        Read read, Write write, bool shared = false);
  static void report_no_list(const ParamInfo& self, const Value& value, Diagnostics& errors);

 private:
  std::vector<ParamInfo> infos_;
};

void require_one_alternative(const std::vector<ParamInfo>& params, const void* object, const void* defaults,
                             const std::string& owner);

template <class T>
void Field<std::optional<T>>::read(const ParamInfo& info, const Value& value, std::optional<T>& field, Diagnostics& errors) {
  T present{};
  const std::size_t before = errors.size();
  Field<T>::read(info, value, present, errors);
  if (errors.size() == before) field = std::move(present);
}
}  // namespace detail

template <class Struct>
class ParamSet : public detail::ParamList {
 public:
  template <class T, class Owner>  // Owner: Struct or a base of it
  ParamRef add(std::string_view name, T Owner::*field) {
    using Inside = detail::Inside<T>;
    if constexpr (detail::kDescribesItself<typename Inside::type>) {
      return add_described<typename Inside::type>(name, static_cast<T Struct::*>(field));
    } else if constexpr (Inside::kIsField) {
      return append(
          name, detail::Field<T>::type(),
          [field](const ParamInfo& self, void* object, const Value& value, Diagnostics& errors) {
            detail::Field<T>::read(self, value, static_cast<Struct*>(object)->*field, errors);
          },
          [field](const void* object) { return detail::Field<T>::write(static_cast<const Struct*>(object)->*field); },
          Inside::kLength);
    } else {
      detail::check_field<T>();
      return append(name, {}, {}, {});
    }
  }

  // An enum, an optional of it or a list of it. `names`: all that it may be; choices() follow from them.
  template <class T, class Owner>
  ParamRef add(std::string_view name, T Owner::*field,
               std::initializer_list<std::pair<std::string_view, typename detail::Inside<T>::type>> names) {
    using Enum = detail::EnumField<T>;
    using Text = typename Enum::Text;
    static_assert(std::is_enum_v<typename detail::Inside<T>::type>, "names are for an enum; of a text they are choices()");
    const detail::EnumNames<typename detail::Inside<T>::type> all(names.begin(), names.end());
    std::vector<std::string> choices;
    for (const auto& [choice, value] : names) choices.emplace_back(choice);
    return append(
               name, detail::Field<Text>::type(),
               [field, all](const ParamInfo& self, void* object, const Value& value, Diagnostics& errors) {
                 Text text;
                 const std::size_t before = errors.size();
                 detail::Field<Text>::read(self, value, text, errors);
                 if (errors.size() == before) static_cast<Struct*>(object)->*field = Enum::value(all, text);
               },
               [field, all](const void* object) {
                 return detail::Field<Text>::write(Enum::text(all, static_cast<const Struct*>(object)->*field));
               })
        .choices(std::move(choices));
  }

  // A nested table; `describe(ParamSet<T>&)` declares its members.
  template <class T, class Describe>
  ParamRef add_table(std::string_view name, T Struct::*field, Describe describe) {
    std::vector<ParamInfo> members = members_of<T>(describe);
    return append_defaults<T>(
        name, "table", members,
        [field](const ParamInfo& self, void* object, const Value& value, Diagnostics& errors) {
          read_params(self.members, value, &(static_cast<Struct*>(object)->*field), "'" + self.name + "'", errors);
        },
        [field, members](const void* object) { return write_params(members, &(static_cast<const Struct*>(object)->*field)); });
  }

  // A nested table that says something by being there: without it the field is empty.
  template <class T, class Describe>
  ParamRef add_table(std::string_view name, std::optional<T> Struct::*field, Describe describe) {
    std::vector<ParamInfo> members = members_of<T>(describe);
    return append_defaults<T>(
        name, "table", members,
        [field](const ParamInfo& self, void* object, const Value& value, Diagnostics& errors) {
          T& table = (static_cast<Struct*>(object)->*field).emplace();
          read_params(self.members, value, &table, "'" + self.name + "'", errors);
        },
        [field, members](const void* object) {
          const std::optional<T>& table = static_cast<const Struct*>(object)->*field;
          return table ? write_params(members, &*table) : Value();
        });
  }

  // A list of tables, one T each. `others`: takes the keys that are no members of T, which are another reader's; null: they are
  // mistakes.
  template <class T, class Describe>
  ParamRef add_list(std::string_view name, std::vector<T> Struct::*field, Describe describe, Value T::*others = nullptr) {
    std::vector<ParamInfo> members = members_of<T>(describe);
    return append_list<T>(
        name, members, others != nullptr,
        [field, others](const ParamInfo& self, void* object, const Value& value, Diagnostics& errors) {
          std::vector<T>& list = static_cast<Struct*>(object)->*field;
          if (value.kind() != Value::Kind::array) return report_no_list(self, value, errors);
          list.clear();
          for (Value entry : value.array()) {
            T& made = list.emplace_back();
            if (others != nullptr) made.*others = take_other_keys(self.members, entry);
            read_params(self.members, entry, &made, "'" + self.name + "'", errors);
          }
        },
        [field, members](const void* object) {
          Array list;
          for (const T& entry : static_cast<const Struct*>(object)->*field) list.push_back(write_params(members, &entry));
          return Value(std::move(list));
        });
  }

 private:
  template <class T, class Describe>
  static std::vector<ParamInfo> members_of(Describe describe) {
    static_assert(std::is_invocable_v<Describe&, ParamSet<T>&>,
                  "`describe` declares the members of the nested struct: it takes (millrace::ParamSet<T>&)");
    static_assert(std::is_default_constructible_v<T>, "a struct of parameters has a default for each, and takes no arguments");
    ParamSet<T> members;
    if constexpr (std::is_invocable_v<Describe&, ParamSet<T>&>) describe(members);
    return std::move(members).take();
  }
  template <class T, class Whole>
  ParamRef add_described(std::string_view name, Whole Struct::*field) {
    const auto describe = [](ParamSet<T>& members) { T::describe(members); };
    if constexpr (std::is_same_v<Whole, std::vector<T>>) {
      return add_list(name, field, describe);
    } else if constexpr (detail::kIsOneOf<Whole, T, std::optional<T>>) {
      return add_table(name, field, describe);
    } else {
      static_assert(detail::kIsOneOf<Whole, T>, "of a struct there may be one, a std::optional or a std::vector");
      return append(name, {}, {}, {});
    }
  }
  template <class T>
  ParamRef append_list(std::string_view name, std::vector<ParamInfo> members, bool shared, Read read, Write write) {
    const T defaults{};
    return append_table(name, "list of tables", std::move(members), &defaults, std::move(read), std::move(write), shared);
  }
  template <class T>
  ParamRef append_defaults(std::string_view name, std::string type, std::vector<ParamInfo> members, Read read, Write write) {
    const T defaults{};
    return append_table(name, std::move(type), std::move(members), &defaults, std::move(read), std::move(write));
  }
};

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
