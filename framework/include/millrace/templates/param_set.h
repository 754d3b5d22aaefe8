// The declaration of a struct's parameters, which reads and writes its fields. Included by params.h, which explains its use.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "millrace/detail/diagnostics.h"
#include "millrace/detail/param_fields.h"
#include "millrace/params.h"

namespace millrace {

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

template <class T>
void Field<std::optional<T>>::read(const ParamInfo& info, const Value& value, std::optional<T>& field, Diagnostics& errors) {
  T present{};
  const std::size_t before = errors.size();
  Field<T>::read(info, value, present, errors);
  if (errors.size() == before) field = std::move(present);
}
void require_one_alternative(const std::vector<ParamInfo>& params, const void* object, const void* defaults,
                             const std::string& owner);
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

  // An enum, an optional of it or a list of it. `names`: all its values; they become choices().
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

  // An optional nested table: without it the field is empty.
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

  // A list of tables, one T each. `others`: receives keys that are not members of T, for another reader; null: such keys are
  // errors.
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

// Checks an object that was not read from a table: throws Error(usage) if two of its parameters exclude each other. A parameter
// with its default value counts as not given.
template <class Struct>
void require_one_alternative(const ParamSet<Struct>& set, const Struct& object, const std::string& owner) {
  const Struct defaults{};
  detail::require_one_alternative(set.infos(), &object, &defaults, owner);
}

}  // namespace millrace
