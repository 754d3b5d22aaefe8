// The eight kinds of types that a registry holds. Part of plugin.h.
#pragma once

#include <memory>

#include "millrace/detail/type_description.h"

namespace millrace {

class Storage;

// The header with a kind's base class defines the kind's type, and makes it from a class.
struct StageType;
struct LayerType;
struct LossType;
struct OptimizerType;
struct ObserverType;
struct BackendType;
struct CommunicatorType;
template <class T>
LayerType layer_type();
template <class T>
LossType loss_type();
template <class T>
OptimizerType optimizer_type();
template <class T>
ObserverType observer_type();

struct StorageType : TypeDescription {  // its name is the URL scheme
  std::shared_ptr<Storage> storage;
};

}  // namespace millrace
