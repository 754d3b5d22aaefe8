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
// Field types: bool, std::int64_t, double, std::string, Range, Size, std::vector of the first four, std::optional of any,
// a nested struct (add_table), an optional of it, a list of structs (add_list), and Value for what only the reader of the field
// understands.
// Defaults are the struct's own initialisers. A parameter without a meaningful default is marked required().
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  // Of a text: the only ones it may be. Of an integer: words that it may be as well, such as "auto"; they read as 0.
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
  ParamRef& or_one();  // of a list of texts or numbers: it may also be one of them
  // A run that goes on from a checkpoint may have another value and is not asked about it: results do not depend on it.
  ParamRef& may_change();
  // Recipes in files of weights (stage.h, RecipeRole) may set it. REQUIRES: no value names a file, a folder, a URL, a program or
  // a variable of the environment. Of a table: neither does any member.
  ParamRef& in_recipes();

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
  using Read = std::function<void(const ParamInfo& self, void* object, const Value& value, Diagnostics& errors)>;
  using Write = std::function<Value(const void* object)>;
  // The results are valid until the next parameter is added.
  ParamRef append(std::string_view name, std::string type, Read read, Write write);
  ParamRef append_table(std::string_view name, std::string type, std::vector<ParamInfo> members, const void* member_defaults,
                        Read read, Write write, bool shared = false);
  static void report_no_list(const ParamInfo& self, const Value& value, Diagnostics& errors);

 private:
  std::vector<ParamInfo> infos_;
};

void require_one_alternative(const std::vector<ParamInfo>& params, const void* object, const void* defaults,
                             const std::string& owner);

// One specialisation for each field type listed above; they are compiled in config/fields.cpp.
template <class T>
struct Field {
  static std::string type();
  static void read(const ParamInfo& info, const Value& value, T& field, Diagnostics& errors);
  static Value write(const T& field);
};
}  // namespace detail

template <class Struct>
class ParamSet : public detail::ParamList {
 public:
  template <class T, class Owner>  // Owner: Struct or a base of it
  ParamRef add(std::string_view name, T Owner::*field) {
    return append(
        name, detail::Field<T>::type(),
        [field](const ParamInfo& self, void* object, const Value& value, Diagnostics& errors) {
          detail::Field<T>::read(self, value, static_cast<Struct*>(object)->*field, errors);
        },
        [field](const void* object) { return detail::Field<T>::write(static_cast<const Struct*>(object)->*field); });
  }

  // A nested table; `describe(ParamSet<T>&)` declares its members. `shorthand`: the member that a value which is no table
  // stands for, as `learning_rate = 0.1` for `learning_rate = { initial = 0.1 }`.
  template <class T, class Describe>
  ParamRef add_table(std::string_view name, T Struct::*field, Describe describe, std::string shorthand = {}) {
    std::vector<ParamInfo> members = members_of<T>(describe);
    return append_defaults<T>(
        name, "table", members,
        [field, shorthand = std::move(shorthand)](const ParamInfo& self, void* object, const Value& value, Diagnostics& errors) {
          Value table = value;
          if (!shorthand.empty() && value.kind() != Value::Kind::table) {
            table = Value(Table{{shorthand, value.at(), value}}, value.at());
          }
          read_params(self.members, table, &(static_cast<Struct*>(object)->*field), "'" + self.name + "'", errors);
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
    ParamSet<T> members;
    describe(members);
    return std::move(members).take();
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
