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

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "millrace/value.h"

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
  std::string text() const;        // sorted by position, one "file:line:column: message" a line
  void throw_if_any() const;       // Error(ErrorKind::usage, text())

 private:
  struct Entry {
    Position at;
    std::string message;
  };
  std::vector<Entry> entries_;
};

// One declared parameter, with the owner's type erased. `object` points to the struct that declared it.
struct ParamInfo {
  std::string name;
  std::string type;          // "number", "integer", "true or false", "text", "[low, high]", "table", "list of tables", ...
  std::string unit;          // "", "pixels", "epochs", ...
  std::string text;
  std::optional<double> low, high;
  std::vector<std::string> choices;
  bool required = false;
  std::vector<ParamInfo> members;  // of a table, or of each table of a list
  Value member_defaults;           // theirs, in a table that is written down

  // Reads `value` into the field; reports what is wrong and leaves the field alone otherwise.
  std::function<void(const ParamInfo& self, void* object, const Value& value, Diagnostics& errors)> read;
  // The field as a value; with a default-constructed object this is the default.
  std::function<Value(const void* object)> write;
};

// Reads a table into `object`: unknown keys (with the nearest known one), wrong types, values out of range and missing
// required parameters are reported at their positions. `owner` names the table in messages, such as "[train.augment]".
void read_params(const std::vector<ParamInfo>& params, const Value& table, void* object, const std::string& owner,
                 Diagnostics& errors);

// Every parameter with its present value, as a table.
Value write_params(const std::vector<ParamInfo>& params, const void* object);

// Refines the parameter just added.
class ParamRef {
 public:
  explicit ParamRef(ParamInfo& info) : info_(&info) {}
  ParamRef& text(std::string text);
  ParamRef& unit(std::string unit);
  ParamRef& range(double low, double high = std::numeric_limits<double>::infinity());  // both included
  // Of a text: the only ones it may be. Of an integer: words that it may be as well, such as "auto"; they read as 0.
  ParamRef& choices(std::vector<std::string> names);
  ParamRef& required();

 private:
  ParamInfo* info_;
};

namespace detail {
// One specialisation for each field type listed above; they are compiled in config/fields.cpp.
template <class T>
struct Field {
  static std::string type();
  static void read(const ParamInfo& info, const Value& value, T& field, Diagnostics& errors);
  static Value write(const T& field);
};
}  // namespace detail

template <class Struct>
class ParamSet {
 public:
  template <class T, class Owner>  // Owner: Struct or a base of it
  ParamRef add(std::string name, T Owner::*field) {
    ParamInfo info;
    info.name = std::move(name);
    info.type = detail::Field<T>::type();
    info.read = [field](const ParamInfo& self, void* object, const Value& value, Diagnostics& errors) {
      detail::Field<T>::read(self, value, static_cast<Struct*>(object)->*field, errors);
    };
    info.write = [field](const void* object) { return detail::Field<T>::write(static_cast<const Struct*>(object)->*field); };
    return append(std::move(info));
  }

  // A nested table; `describe(ParamSet<T>&)` declares its members. `shorthand`: the member that a value which is no table
  // stands for, as `learning_rate = 0.1` for `learning_rate = { initial = 0.1 }`.
  template <class T, class Describe>
  ParamRef add_table(std::string name, T Struct::*field, Describe describe, std::string shorthand = {}) {
    ParamInfo info = table_info<T>(std::move(name), "table", describe);
    info.read = [field, shorthand = std::move(shorthand)](const ParamInfo& self, void* object, const Value& value,
                                                          Diagnostics& errors) {
      Value table = value;
      if (!shorthand.empty() && value.kind() != Value::Kind::table) {
        table = Value(Table{{shorthand, value.at(), value}}, value.at());
      }
      read_params(self.members, table, &(static_cast<Struct*>(object)->*field), "'" + self.name + "'", errors);
    };
    info.write = [field, members = info.members](const void* object) {
      return write_params(members, &(static_cast<const Struct*>(object)->*field));
    };
    return append(std::move(info));
  }

  // A nested table that says something by being there: without it the field is empty.
  template <class T, class Describe>
  ParamRef add_table(std::string name, std::optional<T> Struct::*field, Describe describe) {
    ParamInfo info = table_info<T>(std::move(name), "table", describe);
    info.read = [field](const ParamInfo& self, void* object, const Value& value, Diagnostics& errors) {
      T& table = (static_cast<Struct*>(object)->*field).emplace();
      read_params(self.members, value, &table, "'" + self.name + "'", errors);
    };
    info.write = [field, members = info.members](const void* object) {
      const std::optional<T>& table = static_cast<const Struct*>(object)->*field;
      return table ? write_params(members, &*table) : Value();
    };
    return append(std::move(info));
  }

  // A list of tables, one T each.
  template <class T, class Describe>
  ParamRef add_list(std::string name, std::vector<T> Struct::*field, Describe describe) {
    ParamInfo info = table_info<T>(std::move(name), "list of tables", describe);
    info.read = [field](const ParamInfo& self, void* object, const Value& value, Diagnostics& errors) {
      std::vector<T>& list = static_cast<Struct*>(object)->*field;
      if (value.kind() != Value::Kind::array) {
        errors.add(value.at(), fmt::format("'{}' must be a list of tables, found {}", self.name, found(value)));
        return;
      }
      list.clear();
      const std::string owner = "'" + self.name + "'";
      for (const Value& entry : value.array()) read_params(self.members, entry, &list.emplace_back(), owner, errors);
    };
    info.write = [field, members = info.members](const void* object) {
      Array list;
      for (const T& entry : static_cast<const Struct*>(object)->*field) list.push_back(write_params(members, &entry));
      return Value(std::move(list));
    };
    return append(std::move(info));
  }

  const std::vector<ParamInfo>& infos() const { return infos_; }
  std::vector<ParamInfo> take() && { return std::move(infos_); }

 private:
  ParamRef append(ParamInfo info) {
    infos_.push_back(std::move(info));
    return ParamRef(infos_.back());  // valid until the next parameter is added
  }
  template <class T, class Describe>
  static ParamInfo table_info(std::string name, std::string type, Describe describe) {
    ParamSet<T> members;
    describe(members);
    ParamInfo info;
    info.name = std::move(name);
    info.type = std::move(type);
    info.members = std::move(members).take();
    const T defaults{};
    info.member_defaults = write_params(info.members, &defaults);
    return info;
  }
  std::vector<ParamInfo> infos_;
};

// Reads `table` into a default-constructed Struct.
template <class Struct>
Struct read_struct(const ParamSet<Struct>& set, const Value& table, const std::string& owner, Diagnostics& errors) {
  Struct object{};
  read_params(set.infos(), table, &object, owner, errors);
  return object;
}

}  // namespace millrace
