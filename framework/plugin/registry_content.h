// Content of a registry.
#pragma once

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "millrace/annotation.h"
#include "millrace/backend/backend.h"
#include "millrace/communicator.h"
#include "millrace/detail/types.h"
#include "millrace/error.h"
#include "millrace/observer.h"
#include "millrace/optimizer.h"
#include "millrace/plugin.h"
#include "millrace/storage.h"
#include "millrace/util/load_plugins.h"

namespace millrace {

struct RegistryContent {
  std::tuple<Catalogue<StageType>, Catalogue<LayerType>, Catalogue<LossType>, Catalogue<OptimizerType>, Catalogue<ObserverType>,
             Catalogue<BackendType>, Catalogue<CommunicatorType>, Catalogue<StorageType>, Catalogue<AnnotationType>>
      catalogues{"stage",   "layer type",   "loss",    "optimizer",        "observer",
                 "backend", "communicator", "storage", "annotation format"};
  std::vector<PluginInfo> plugins;
  std::vector<std::string> load_errors;
  std::string loading;  // the plugin being registered, which owns all types added meanwhile

  static RegistryContent& of(const Registry& registry) { return *registry.content_; }

  template <class Type>
  Catalogue<Type>& catalogue() {
    return std::get<Catalogue<Type>>(catalogues);
  }

  template <class Type>
  void add(Type type) {
    if (!loading.empty()) type.plugin = loading;
    const Type* const taken = catalogue<Type>().find(type.name);
    const std::string owner = taken != nullptr ? taken->plugin : std::string();
    try {
      catalogue<Type>().add(std::move(type));
    } catch (const Error& error) {
      if (owner.empty()) throw;
      fail(error.kind(), "{}, by plugin '{}'", error.what(), owner);
    }
  }

  void remove_those_of(std::string_view plugin) {
    std::apply([&](auto&... each) { (each.remove_those_of(plugin), ...); }, catalogues);
  }
};

}  // namespace millrace
