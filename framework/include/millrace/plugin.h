// Plugins: shared libraries found at run time.
//
//   MILLRACE_PLUGIN("invert", "1.0", "Inverts colours.") { registry.add_stage<Invert>(); }  // a stage, see stage.h
//
// stage.h and source.h come with this header; include layer.h, loss.h, optimizer.h, observer.h, storage.h or communicator.h for
// other types. In a library of several folders, one source of each contains MILLRACE_PART { registry.add_optimizer<Sgd>(); }, and
// MILLRACE_PLUGIN calls register_parts(registry).
//
// A library that registered types stays loaded until the program ends, since its objects and exceptions may outlive the registry.
#pragma once

#include <concepts>
#include <memory>

#include "millrace/detail/catalogue.h"
#include "millrace/detail/registered_types.h"
#include "millrace/source.h"
#include "millrace/stage.h"

namespace millrace {

struct RegistryContent;

// One catalogue for each kind of type that a pipeline can name. Plugins fill it (util/load_plugins.h); afterwards it is read-only
// and thread-safe. Each program makes its own registry; none is global.
//
//   registry.add(StorageType{{"s3", "Objects of S3"}, std::make_shared<S3>()});
//   if (const StageType* type = registry.stages().find("invert")) use(*type);
class Registry {
 public:
  Registry();  // holds the built-in layer types
  Registry(Registry&& other) noexcept = default;

  // All throw Error(usage) if the name is taken.
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
  void add(Type type);  // any of the eight kinds

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
  std::shared_ptr<RegistryContent> content_;  // not shared with other registries
};

}  // namespace millrace

#include "millrace/detail/plugin_descriptor.h"
#include "millrace/templates/stage_type.h"
