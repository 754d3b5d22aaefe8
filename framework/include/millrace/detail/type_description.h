// The common description of all types that a pipeline can name: stages, layers, losses, optimizers, observers, backends,
// communicators and storages. Each kind adds the means to make objects.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "millrace/detail/param_info.h"

namespace millrace {

template <class Struct>
class ParamSet;

struct TypeDescription {
  std::string name = {}, text = {};
  std::string plugin = {};             // plugin that registered it, set by the registry; empty for built-in types
  std::vector<ParamInfo> params = {};  // empty for types made without a table
  Value defaults = {};                 // of params, as a table
};

namespace detail {

template <class Params>
TypeDescription description_of(std::string_view name, std::string_view text, const ParamSet<Params>& set) {
  const Params defaults{};
  return {std::string(name), std::string(text), {}, set.infos(), write_params(set.infos(), &defaults)};
}

// A class without parameters may omit the argument.
template <class T, class Params>
std::shared_ptr<T> constructed(const Params& params) {
  if constexpr (std::is_constructible_v<T, const Params&>)
    return std::make_shared<T>(params);
  else
    return std::make_shared<T>();
}

}  // namespace detail
}  // namespace millrace
