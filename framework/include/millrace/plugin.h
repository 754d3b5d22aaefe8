// Plugins: shared libraries found at run time.
//
//   MILLRACE_PLUGIN("invert", "1.0", "Inverts colours.") { registry.add_stage<Invert>(); }  // a stage, see stage.h
//
// What a plugin registers stands in a header of its own: stage.h and source.h come with this one, layer.h, loss.h, optimizer.h,
// observer.h, storage.h and communicator.h are included beside it.
//
// A library that is made from several folders: each says, in one source,
//   MILLRACE_PART { registry.add_optimizer<Sgd>(); }
// and the library's MILLRACE_PLUGIN says register_parts(registry).
//
// A plugin exports one symbol, a versioned descriptor, which MILLRACE_PLUGIN writes; the ABI number and the toolchain tag are
// compared before anything else of the library is called. A library that has registered its types stays loaded until the program
// ends, so that objects and exceptions of it may outlive the registry.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>

#include "millrace/detail/catalogue.h"
#include "millrace/detail/type_description.h"
#include "millrace/source.h"
#include "millrace/stage.h"

namespace millrace {

class Storage;

// What the framework keeps of each kind. The header that declares a kind's base class has it, and makes it of a class.
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

struct StorageType : TypeDescription {  // its name is the scheme of its URLs
  std::shared_ptr<Storage> storage;
};

inline constexpr std::uint32_t kAbiVersion = 22;

struct RegistryContent;

// Everything that can be named in a pipeline: a catalogue of each kind. Filled by plugins (util/load_plugins.h) and, for the
// built-in layers, by the framework; read-only and thread-safe from then on. There is no global registry; each program makes its
// own.
//
//   registry.add_stage<Invert>();
//   registry.add(StorageType{{"s3", "Objects of S3"}, std::make_shared<S3>()});
//   if (const StageType* type = registry.stages().find("invert")) use(*type);
class Registry {
 public:
  Registry();  // holds the built-in layer types
  Registry(Registry&& other) noexcept = default;

  template <class T>
  void add_stage();
  template <class T>
  void add_layer() {
    add(layer_type<T>());
  }
  template <class T>
  void add_loss() {
    add(loss_type<T>());
  }
  template <class T>
  void add_optimizer() {
    add(optimizer_type<T>());
  }
  template <class T>
  void add_observer() {
    add(observer_type<T>());
  }
  // For each of the eight kinds. Throws Error(usage) for a name that is taken.
  template <std::derived_from<TypeDescription> Type>
  void add(Type type);

  const Catalogue<StageType>& stages() const;
  const Catalogue<LayerType>& layers() const;
  const Catalogue<LossType>& losses() const;
  const Catalogue<OptimizerType>& optimizers() const;
  const Catalogue<ObserverType>& observers() const;
  const Catalogue<BackendType>& backends() const;
  const Catalogue<CommunicatorType>& communicators() const;
  const Catalogue<StorageType>& storages() const;

 private:
  friend struct RegistryContent;
  std::shared_ptr<RegistryContent> content_;  // of this registry alone
};

}  // namespace millrace

#include "millrace/detail/plugin_descriptor.h"
#include "millrace/detail/stage_type.h"
