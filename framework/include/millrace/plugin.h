// Plugins: shared libraries found at run time.
//
//   MILLRACE_PLUGIN("invert", "1.0", "Inverts colours.") { registry.add_stage<Invert>(); }  // a stage, see stage.h
//
// What a plugin registers stands in a header of its own: stage.h and source.h come with this one, layer.h, loss.h, optimizer.h,
// observer.h, storage.h and communicator.h are included beside it.
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
struct RuleType;
struct ObserverType;
struct CommunicatorType;
template <class T>
LayerType layer_type();
template <class T>
LossType loss_type();
template <class T>
RuleType rule_type();
template <class T>
ObserverType observer_type();

inline constexpr std::uint32_t kAbiVersion = 20;
inline constexpr std::uint32_t kPluginMagic = 0x4d4c5250;  // "MLRP"

// Compiler, its ABI-relevant settings and the standard library, as one text.
#define MILLRACE_TEXT_(x) #x
#define MILLRACE_TEXT(x) MILLRACE_TEXT_(x)
#define MILLRACE_TOOLCHAIN "gxx-abi" MILLRACE_TEXT(__GXX_ABI_VERSION) "-cxx11abi" MILLRACE_TEXT(_GLIBCXX_USE_CXX11_ABI)

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
  void add_rule() {
    add(rule_type<T>());
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
  void add(RuleType type);
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
  const Catalogue<RuleType>& rules() const;
  const Catalogue<LossType>& losses() const;
  const Catalogue<ObserverType>& observers() const;
  const Catalogue<StorageType>& storages() const;

  // Null when there is none.
  const StageType* stage(std::string_view name) const;
  const BackendType* backend(std::string_view name) const;
  const CommunicatorType* communicator(std::string_view name) const;
  const LayerType* layer(std::string_view name) const;
  const RuleType* rule(std::string_view name) const;
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
  // for why_not().
  void load_all();
  const std::vector<std::string>& why_not() const;
  // For a message that says that there is no `name`: "; skipped: REASON" for each reason that may lie behind it. Often empty.
  std::string skipped_clause(std::string_view name) const;

 private:
  struct Content;
  std::unique_ptr<Content> content_;
};

struct PluginDescriptor {  // the exported symbol `millrace_plugin`; only fields at the end may ever be added
  std::uint32_t magic;
  std::uint32_t abi;
  const char* toolchain;
  const char* name;
  const char* version;
  const char* text;
  void (*register_types)(Registry& registry);
};

#define MILLRACE_PLUGIN(name, version, text)                                                                             \
  static void millrace_register_types(millrace::Registry& registry);                                                     \
  extern "C" __attribute__((visibility("default"))) const millrace::PluginDescriptor millrace_plugin;                    \
  const millrace::PluginDescriptor millrace_plugin = {                                                                   \
      millrace::kPluginMagic, millrace::kAbiVersion, MILLRACE_TOOLCHAIN, name, version, text, &millrace_register_types}; \
  static void millrace_register_types([[maybe_unused]] millrace::Registry& registry)

// A library that is made from several folders. Each folder says, in one source,
//   MILLRACE_PART { registry.add_rule<Sgd>(); }
// and the library's MILLRACE_PLUGIN says register_parts(registry).
struct __attribute__((visibility("hidden"))) PluginPart {
  explicit PluginPart(void (*types)(Registry& registry)) : register_types(types), next(std::exchange(first(), this)) {}
  static PluginPart*& first() {
    static PluginPart* part = nullptr;
    return part;
  }
  void (*register_types)(Registry& registry);
  PluginPart* next;
};
inline __attribute__((visibility("hidden"))) void register_parts(Registry& registry) {
  for (const PluginPart* part = PluginPart::first(); part != nullptr; part = part->next) part->register_types(registry);
}

#define MILLRACE_PART                                                              \
  static void millrace_register_part(millrace::Registry& registry);                \
  static const millrace::PluginPart millrace_plugin_part(&millrace_register_part); \
  static void millrace_register_part([[maybe_unused]] millrace::Registry& registry)

}  // namespace millrace

#include "millrace/detail/stage_type.h"
