// How an observer's class becomes an ObserverType. Included by observer.h.
#pragma once

#include <memory>
#include <string>

#include "millrace/detail/type_description.h"
#include "millrace/observer.h"

namespace millrace {

struct ObserverMaker {
  template <class T>
  static ObserverType make() {
    using Params = typename T::Params;
    auto description = std::make_shared<ObserverDescription<Params>>();
    T::describe(*description);
    ObserverType type{detail::description_of(description->name_, description->text_, description->params),
                      description->delivery_,
                      description->by_default_,
                      {},
                      {}};
    type.check = [description](const Value& table, const std::string& owner, Diagnostics& errors) {
      read_struct(description->params, table, owner, errors);
    };
    type.create = [description](const Value& table, const std::string& owner,
                                Diagnostics& errors) -> std::shared_ptr<RunObserver> {
      return detail::make_from_table(description->params, table, owner, errors, &detail::constructed<T, Params>);
    };
    return type;
  }
};

template <class T>
ObserverType observer_type() {
  return ObserverMaker::make<T>();
}

}  // namespace millrace
