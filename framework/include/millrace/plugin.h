// Plugins: shared libraries found at run time. A plugin exports one symbol, a versioned descriptor, which MILLRACE_PLUGIN
// writes; the ABI number and the toolchain tag are compared before anything else of the library is called. Objects that a
// plugin's types create keep its library loaded.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "millrace/backend.h"
#include "millrace/communicator.h"
#include "millrace/digest.h"
#include "millrace/loss.h"
#include "millrace/network.h"
#include "millrace/observer.h"
#include "millrace/rule.h"
#include "millrace/stage.h"
#include "millrace/storage.h"

namespace millrace {

inline constexpr std::uint32_t kAbiVersion = 18;
inline constexpr std::uint32_t kPluginMagic = 0x4d4c5250;  // "MLRP"

// Compiler, its ABI-relevant settings and the standard library, as one text.
#define MILLRACE_TEXT_(x) #x
#define MILLRACE_TEXT(x) MILLRACE_TEXT_(x)
#define MILLRACE_TOOLCHAIN "gxx-abi" MILLRACE_TEXT(__GXX_ABI_VERSION) "-cxx11abi" MILLRACE_TEXT(_GLIBCXX_USE_CXX11_ABI)

struct StageType {
  StageType();
  StageType(const StageType&);
  StageType(StageType&&) noexcept;
  StageType& operator=(const StageType&);
  StageType& operator=(StageType&&) noexcept;
  ~StageType();

  std::string name, text, plugin;
  std::vector<Port> inputs, outputs;
  Concurrency concurrency = Concurrency::parallel;
  bool per_replica = false;
  bool stepwise = false;
  bool takes_rule = false;  // its table also holds the parameters of the update rule that its key `rule` names
  bool takes_loss = false;  // its key `loss` is the table of a loss
  RecipeRole recipe_role = RecipeRole::none;
  std::vector<ParamInfo> params;
  Value defaults;  // of params, as a table
  enum class Role { stage, source, sample_transform, batcher } role = Role::stage;
  // Reads the table as create() does and constructs nothing. `owner` names the table in messages: "[train.augment]".
  std::function<void(const Value& table, const std::string& owner, Diagnostics& errors)> check;
  // Adds what the stage wants of the network before that is compiled; empty: nothing. Throws Error(usage).
  std::function<void(const Value& table, const StageContext& context, CompileRequest& request)> request;
  // Reads the table (mistakes go to `errors`; then null) and constructs.
  std::function<std::shared_ptr<Stage>(const Value& table, const StageContext& context, Diagnostics& errors)> create;
};

struct BackendType {
  std::string name, text, plugin;
  std::function<std::shared_ptr<Backend>()> create;
};

struct PluginInfo {
  std::string name, version, text, path;
};

// Everything that can be named in a pipeline. Filled by plugins and, for the built-in ops, by the framework; read-only and
// thread-safe from then on. There is no global registry; each program makes its own.
class Registry {
 public:
  Registry();  // holds the built-in layer types

  template <class T>
  void add_stage();
  template <class T>
  void add_layer();  // defined in layer.h
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
  void add(StageType type);
  void add(RuleType type);
  void add(LossType type);
  void add(ObserverType type);
  void add(BackendType type);
  void add(CommunicatorType type);
  void add(LayerType type);
  void add(StorageType type);
  void add(DigestType type);

  // Null when there is none.
  const StageType* stage(std::string_view name) const;
  const BackendType* backend(std::string_view name) const;
  const CommunicatorType* communicator(std::string_view name) const;
  const LayerType* layer(std::string_view name) const;
  const RuleType* rule(std::string_view name) const;
  const LossType* loss(std::string_view name) const;
  const ObserverType* observer(std::string_view name) const;
  const DigestType* digest(std::string_view name) const;

  // The storage of the URL's scheme. Error(usage) when no plugin has it, with the nearest scheme that is there.
  Storage& storage(std::string_view url) const;

  const std::map<std::string, StageType, std::less<>>& stages() const { return stages_; }
  const std::map<std::string, BackendType, std::less<>>& backends() const { return backends_; }
  const std::map<std::string, CommunicatorType, std::less<>>& communicators() const { return communicators_; }
  const std::map<std::string, LayerType, std::less<>>& layers() const { return layers_; }
  const std::map<std::string, RuleType, std::less<>>& rules() const { return rules_; }
  const std::map<std::string, LossType, std::less<>>& losses() const { return losses_; }
  const std::map<std::string, ObserverType, std::less<>>& observers() const { return observers_; }
  const std::map<std::string, StorageType, std::less<>>& storages() const { return storages_; }
  const std::map<std::string, DigestType, std::less<>>& digests() const { return digests_; }
  const std::vector<PluginInfo>& plugins() const { return plugins_; }

  // Opens one library and lets it register. Throws Error(usage): not a plugin, other ABI, name already taken.
  void load(const std::string& path);
  // Loads every plugin in the search path: MILLRACE_PLUGIN_PATH (colon-separated folders), then the folder that belongs to this
  // build or install tree. A library that cannot be loaded is skipped, and so is a named folder without any; the reasons are kept
  // for why_not().
  void load_all();
  const std::vector<std::string>& why_not() const { return skipped_; }
  // For a message that says that there is no `name`: "; skipped: REASON" for each reason that may lie behind it. Often empty.
  std::string skipped_clause(std::string_view name) const;

 private:
  std::vector<std::shared_ptr<void>> libraries_;  // first, so that it is destroyed after everything whose code lies there
  std::map<std::string, StageType, std::less<>> stages_;
  std::map<std::string, BackendType, std::less<>> backends_;
  std::map<std::string, CommunicatorType, std::less<>> communicators_;
  std::map<std::string, LayerType, std::less<>> layers_;
  std::map<std::string, RuleType, std::less<>> rules_;
  std::map<std::string, LossType, std::less<>> losses_;
  std::map<std::string, ObserverType, std::less<>> observers_;
  std::map<std::string, StorageType, std::less<>> storages_;
  std::vector<PluginInfo> plugins_;
  std::vector<std::string> skipped_;
  std::shared_ptr<void> loading_;  // the library whose registration runs; types added meanwhile hold it
  std::string loading_name_;
  std::map<std::string, DigestType, std::less<>> digests_;  // holds its libraries by itself, so it may be last
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

// ---- implementation of add_stage ----

struct StageTypeAccess {
  // Shape, seed and name of the stage.
  static void place(SampleTransform& transform, const StageAttributes& attributes, const StageContext& context);
  // ErrorKind::usage when images arrive that the stage does not take.
  static void check_image(const StageAttributes& attributes, const ImageShape& image);
  static std::string owner_of(const StageContext& context) { return "[" + context.graph + "." + context.name + "]"; }
  // All but check and create. `defaults`: the struct that `params` were declared of.
  static StageType described(const StageAttributes& attributes, StageType::Role role, const std::vector<ParamInfo>& params,
                             const void* defaults);

  template <class Params>
  static Params read(const ParamSet<Params>& set, const Value& table, const std::string& owner, Diagnostics& errors) {
    if constexpr (std::is_base_of_v<RuleParams, Params>) {
      Value own = table;
      Value rule_table = take_other_keys(set.infos(), own);
      Params params = read_struct(set, own, owner, errors);
      params.rule_table = std::move(rule_table);
      return params;
    } else {
      return read_struct(set, table, owner, errors);
    }
  }

  template <class T>
  static StageType make() {
    using Params = typename T::Params;
    auto description = std::make_shared<StageDescription<Params>>();
    T::describe(*description);
    const Params defaults{};
    constexpr StageType::Role kRole = std::is_base_of_v<SampleTransform, T> ? StageType::Role::sample_transform
                                      : std::is_base_of_v<Source, T>        ? StageType::Role::source
                                      : std::is_base_of_v<Batcher, T>       ? StageType::Role::batcher
                                                                            : StageType::Role::stage;
    StageType type = described(*description, kRole, description->params.infos(), &defaults);
    type.takes_rule = std::is_base_of_v<RuleParams, Params>;
    type.takes_loss = std::is_base_of_v<LossParams, Params>;
    if constexpr (requires(const StageContext& context, CompileRequest& request) { T::request(defaults, context, request); }) {
      type.request = [description](const Value& table, const StageContext& context, CompileRequest& request) {
        Diagnostics errors;
        const Params params = read(description->params, table, owner_of(context), errors);
        errors.throw_if_any();
        T::request(params, context, request);
      };
    }
    type.check = [description](const Value& table, const std::string& owner, Diagnostics& errors) {
      read(description->params, table, owner, errors);
    };
    type.create = [description](const Value& table, const StageContext& context, Diagnostics& errors) -> std::shared_ptr<Stage> {
      const std::size_t before = errors.size();
      Params params = read(description->params, table, owner_of(context), errors);
      if (errors.size() != before) return nullptr;
      check_image(*description, context.image);
      auto stage = std::make_shared<T>(params, context);
      if constexpr (std::is_base_of_v<SampleTransform, T>) place(*stage, *description, context);
      return stage;
    };
    return type;
  }
};

template <class T>
void Registry::add_stage() {
  add(StageTypeAccess::make<T>());
}

}  // namespace millrace
