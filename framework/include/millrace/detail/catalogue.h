// The types of one kind, by name. A registry has one catalogue for each kind.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/detail/type_description.h"

namespace millrace {

namespace detail {
[[noreturn]] void refuse_type(std::string_view kind, const std::string& name);
}

// Ordered by name. Pointers to types stay valid. Thread-safe once it is filled.
template <class Type>
class Catalogue {
 public:
  explicit Catalogue(std::string_view kind) : kind_(kind) {}  // "optimizer", for messages

  const Type* find(std::string_view name) const {  // null if there is none
    const auto found = types_.find(name);
    return found == types_.end() ? nullptr : &found->second;
  }
  std::optional<std::string> nearest(std::string_view name) const { return nearest_name(name, names()); }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, type] : types_) names.push_back(name);
    return names;
  }

  // Pairs of name and type.
  auto begin() const { return types_.begin(); }
  auto end() const { return types_.end(); }
  std::size_t size() const { return types_.size(); }
  bool empty() const { return types_.empty(); }

  // Throws Error(usage) for a type without a name, or with a name already taken.
  void add(Type type) {
    const std::string name = type.name;
    if (name.empty() || !types_.emplace(name, std::move(type)).second) detail::refuse_type(kind_, name);
  }
  void remove_those_of(std::string_view plugin) {
    std::erase_if(types_, [&](const auto& entry) { return entry.second.plugin == plugin; });
  }

 private:
  std::string kind_;
  std::map<std::string, Type, std::less<>> types_;
};

}  // namespace millrace
