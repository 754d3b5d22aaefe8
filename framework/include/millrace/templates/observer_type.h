// Makes an ObserverType from an observer's class. Included by observer.h.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "millrace/detail/type_description.h"
#include "millrace/observer.h"
#include "millrace/templates/make_from_table.h"

namespace millrace {

const char* to_string(Delivery delivery);

struct ObserverType : TypeDescription {
  Delivery delivery = Delivery::all;
  bool by_default = false;  // enabled unless `observe.NAME = false`
  // Reads the table like create() but constructs nothing. `owner` names the table in messages: "[observe.metrics]".
  std::function<void(const Value& table, const std::string& owner, Diagnostics& errors)> check;
  // Mistakes go to `errors`, including those of the constructor; the result is then null.
  std::function<std::shared_ptr<RunObserver>(const Value& table, const std::string& owner, Diagnostics& errors)> create;
};

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
