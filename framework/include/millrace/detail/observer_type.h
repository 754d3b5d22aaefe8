// How an observer's class becomes an ObserverType. Included by observer.h.
#pragma once

#include <memory>
#include <string>
#include <type_traits>

#include "millrace/error.h"
#include "millrace/observer.h"

namespace millrace {

struct ObserverMaker {
  template <class T>
  static ObserverType make() {
    using Params = typename T::Params;
    auto description = std::make_shared<ObserverDescription<Params>>();
    T::describe(*description);
    const Params defaults{};
    ObserverType type;
    type.name = description->name_;
    type.text = description->text_;
    type.delivery = description->delivery_;
    type.by_default = description->by_default_;
    type.params = description->params.infos();
    type.defaults = write_params(type.params, &defaults);
    type.check = [description](const Value& table, const std::string& owner, Diagnostics& errors) {
      read_struct(description->params, table, owner, errors);
    };
    type.create = [description](const Value& table, const std::string& owner,
                                Diagnostics& errors) -> std::shared_ptr<RunObserver> {
      const std::size_t before = errors.size();
      const Params params = read_struct(description->params, table, owner, errors);
      if (errors.size() != before) return nullptr;
      try {
        if constexpr (std::is_constructible_v<T, const Params&>)
          return std::make_shared<T>(params);
        else
          return std::make_shared<T>();
      } catch (const Error& error) {
        errors.add(table.at(), owner + ": " + error.message());
        return nullptr;
      }
    };
    return type;
  }
};

template <class T>
ObserverType observer_type() {
  return ObserverMaker::make<T>();
}

}  // namespace millrace
