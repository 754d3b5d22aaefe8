// What a registry holds.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "millrace/communicator.h"
#include "millrace/detail/types.h"
#include "millrace/error.h"
#include "millrace/observer.h"
#include "millrace/optimizer.h"
#include "millrace/plugin.h"

namespace millrace {

struct Registry::Content {
  Catalogue<StageType> stages{"stage"};
  Catalogue<BackendType> backends{"backend"};
  Catalogue<CommunicatorType> communicators{"communicator"};
  Catalogue<LayerType> layers{"layer type"};
  Catalogue<OptimizerType> optimizers{"optimizer"};
  Catalogue<LossType> losses{"loss"};
  Catalogue<ObserverType> observers{"observer"};
  Catalogue<StorageType> storages{"storage"};
  std::vector<PluginInfo> plugins;
  std::vector<std::string> skipped;
  std::string loading;  // the plugin whose registration runs: types that are added meanwhile are its own

  template <class Type>
  void add(Catalogue<Type>& types, Type type) {
    if (!loading.empty()) type.plugin = loading;
    const Type* const taken = types.find(type.name);
    const std::string owner = taken != nullptr ? taken->plugin : std::string();
    try {
      types.add(std::move(type));
    } catch (const Error& error) {
      if (owner.empty()) throw;
      fail(error.kind(), "{}, by plugin '{}'", error.what(), owner);
    }
  }

  void remove_those_of(std::string_view plugin) {
    const auto remove = [&](auto&... all) { (all.remove_those_of(plugin), ...); };
    remove(stages, backends, communicators, layers, optimizers, losses, observers, storages);
  }
};

}  // namespace millrace
