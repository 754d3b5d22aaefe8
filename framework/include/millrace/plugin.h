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

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/detail/catalogue.h"
#include "millrace/detail/function.h"
#include "millrace/detail/type_description.h"
#include "millrace/source.h"
#include "millrace/stage.h"

namespace millrace {

class Backend;
class Storage;

// What the framework keeps of each kind, made of a class by the header that declares its base.
struct StageType;
struct LayerType;
struct LossType;
struct OptimizerType;
struct ObserverType;
struct CommunicatorType;
template <class T>
LayerType layer_type();
template <class T>
LossType loss_type();
template <class T>
OptimizerType optimizer_type();
template <class T>
ObserverType observer_type();

inline constexpr std::uint32_t kAbiVersion = 21;

struct BackendType : TypeDescription {
  detail::Function<std::shared_ptr<Backend>()> create;
};

struct StorageType : TypeDescription {  // its name is the scheme of its URLs
  std::shared_ptr<Storage> storage;
};

struct PluginInfo {
  std::string name, version, text, path;
};

// Everything that can be named in a pipeline. Filled by plugins and, for the built-in ops, by the framework; read-only and
// thread-safe from then on. There is no global registry; each program makes its own.
//
//   registry.add_stage<Invert>();
//   registry.add(StorageType{{"s3", "Objects of S3"}, std::make_shared<S3>()});
class Registry {
 public:
  Registry();  // holds the built-in layer types
  Registry(Registry&& other) noexcept;
  ~Registry();

  template <class T>
  void add_stage();
  template <class T>
  void add_layer() {
    add(layer_type<T>());
  }
  template <class T>
  void add_optimizer() {
    add(optimizer_type<T>());
  }
  template <class T>
  void add_loss() {
    add(loss_type<T>());
  }
  template <class T>
  void add_observer() {
    add(observer_type<T>());
  }
  // Throws Error(usage) for a name that is taken.
  void add(StageType type);
  void add(OptimizerType type);
  void add(LossType type);
  void add(ObserverType type);
  void add(BackendType type);
  void add(CommunicatorType type);
  void add(LayerType type);
  void add(StorageType type);

  const Catalogue<StageType>& stages() const;
  const Catalogue<BackendType>& backends() const;
  const Catalogue<CommunicatorType>& communicators() const;
  const Catalogue<LayerType>& layers() const;
  const Catalogue<OptimizerType>& optimizers() const;
  const Catalogue<LossType>& losses() const;
  const Catalogue<ObserverType>& observers() const;
  const Catalogue<StorageType>& storages() const;

  // Null when there is none.
  const StageType* stage(std::string_view name) const;
  const BackendType* backend(std::string_view name) const;
  const CommunicatorType* communicator(std::string_view name) const;
  const LayerType* layer(std::string_view name) const;
  const OptimizerType* optimizer(std::string_view name) const;
  const LossType* loss(std::string_view name) const;
  const ObserverType* observer(std::string_view name) const;

  // The storage of the URL's scheme. Error(usage) when no plugin has it, with the nearest scheme that is there.
  Storage& storage(std::string_view url) const;

  const std::vector<PluginInfo>& plugins() const;

  // Opens one library and lets it register: all of its types, or none. Throws Error(usage): not a plugin, other ABI, name already
  // taken.
  void load(const std::string& path);
  // Loads every plugin in the search path: MILLRACE_PLUGIN_PATH (colon-separated folders), then the folder that belongs to this
  // build or install tree. A library that cannot be loaded is skipped, and so is a named folder without any; the reasons are kept
  // for load_errors().
  void load_all();
  const std::vector<std::string>& load_errors() const;
  // For a message that says that there is no `name`: "; skipped: REASON" for each reason that may lie after it. Often empty.
  std::string skipped_clause(std::string_view name) const;

 private:
  struct Content;
  std::unique_ptr<Content> content_;
};

}  // namespace millrace

#include "millrace/detail/plugin_descriptor.h"
#include "millrace/detail/stage_type.h"
