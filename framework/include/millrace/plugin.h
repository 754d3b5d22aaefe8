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
// A library that has registered its types stays loaded until the program ends, so that objects and exceptions of it may outlive
// the registry.
#pragma once

#include <concepts>
#include <memory>

#include "millrace/detail/catalogue.h"
#include "millrace/detail/registered_types.h"
#include "millrace/source.h"
#include "millrace/stage.h"

namespace millrace {

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

  // All throw Error(usage) for a name that is taken.
  template <class T>
  void add_stage();
  template <class T>
  void add_layer();
  template <class T>
  void add_loss();
  template <class T>
  void add_optimizer();
  template <class T>
  void add_observer();
  template <std::derived_from<TypeDescription> Type>
  void add(Type type);  // of any of the eight kinds

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
