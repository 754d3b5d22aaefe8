// The framework's record of a stage type, and how a class becomes one. Included by plugin.h.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "millrace/detail/function.h"
#include "millrace/detail/type_description.h"
#include "millrace/plugin.h"
#include "millrace/source.h"
#include "millrace/stage.h"

namespace millrace {

class Batcher;           // util/batcher.h
struct LossParams;       // loss.h
struct OptimizerParams;  // optimizer.h

// A stage's context: a site, and more if more is available. Lives as long as its original.
class AnyContext {
 public:
  AnyContext(const StageSite& site) : site_(&site) {}                                // NOLINT: each context is one
  AnyContext(const DataContext& data) : site_(&data), data_(&data) {}                // NOLINT
  AnyContext(const StepContext& step) : site_(&step), data_(&step), step_(&step) {}  // NOLINT

  const StageSite& site() const { return *site_; }
  bool has_data() const { return data_ != nullptr; }
  // Both throw Error(usage) if the stage comes too early for that context.
  const DataContext& data() const;
  const StepContext& step() const;

 private:
  const StageSite* site_;
  const DataContext* data_ = nullptr;
  const StepContext* step_ = nullptr;
};

struct StageType : TypeDescription, StageTraits {
  StageType();
  StageType(const StageType&);
  StageType(StageType&&) noexcept;
  StageType& operator=(const StageType&);
  StageType& operator=(StageType&&) noexcept;
  ~StageType();

  bool takes_optimizer = false;  // its table also holds the parameters of the optimizer named by its key `type`
  bool takes_loss = false;       // its key `loss` is the table of a loss
  enum class Role { stage, source, sample_transform, batcher } role = Role::stage;
  // Reads the table like create() but constructs nothing. `owner` names the table in messages: "[train.augment]".
  detail::Function<void(const Value& table, const std::string& owner, Diagnostics& errors)> check;
  // Adds the stage's requests to the network before that is compiled; may be empty. Throws Error(usage).
  detail::Function<void(const Value& table, const DataContext& context, CompileRequest& request)> request;
  // Reads the table (mistakes go to `errors`, and the result is then null) and constructs the stage.
  detail::Function<std::shared_ptr<Stage>(const Value& table, AnyContext context, Diagnostics& errors)> create;
};

struct StageTypeAccess {
  // Sets the stage's shape, seed and name.
  static void place(SampleTransform& transform, const StageAttributes& attributes, const DataContext& context);
  // Throws ErrorKind::usage for images that the stage does not accept.
  static void check_image(const StageAttributes& attributes, const ImageShape& image);
  static std::string owner_of(const StageSite& site) { return "[" + site.graph + "." + site.name + "]"; }
  // Fills all but check and create. `defaults`: the struct from which `params` were declared.
  static StageType described(const StageAttributes& attributes, StageType::Role role, const std::vector<ParamInfo>& params,
                             const void* defaults);

  template <class Params>
  static Params read(const ParamSet<Params>& set, const Value& table, const std::string& owner, Diagnostics& errors) {
    if constexpr (std::is_base_of_v<OptimizerParams, Params>) {
      Value own = table;
      Value optimizer_table = take_other_keys(set.infos(), own);
      Params params = read_struct(set, own, owner, errors);
      params.optimizer_table = std::move(optimizer_table);
      return params;
    } else {
      return read_struct(set, table, owner, errors);
    }
  }

  template <class T>
  static constexpr StageType::Role role_of() {
    return std::is_base_of_v<SampleTransform, T> ? StageType::Role::sample_transform
           : std::is_base_of_v<Source, T>        ? StageType::Role::source
           : std::is_base_of_v<Batcher, T>       ? StageType::Role::batcher
                                                 : StageType::Role::stage;
  }

  // Whether T's constructor needs no more than `Context`.
  template <class T, class Context>
  static constexpr bool kTakes = std::is_constructible_v<T, const typename T::Params&, const Context&>;

  template <class T>
  static constexpr void check_class() {
    constexpr StageType::Role kRole = role_of<T>();
    static_assert(!std::is_abstract_v<T>, "the stage lacks a function that its base class declares as `= 0`");
    static_assert(
        std::is_abstract_v<T> || kRole != StageType::Role::source || kTakes<T, StageSite>,
        "a source is made before its data are known: its constructor takes (const Params&, const millrace::StageSite&)");
    constexpr bool kInFront = kRole == StageType::Role::sample_transform || kRole == StageType::Role::batcher;
    static_assert(std::is_abstract_v<T> || !kInFront || kTakes<T, DataContext>,
                  "replicas and steps are known after `batch` alone: the constructor of a SampleTransform or a Batcher takes "
                  "(const Params&, const millrace::StageSite&) or (const Params&, const millrace::DataContext&)");
    static_assert(std::is_abstract_v<T> || kTakes<T, StepContext>,
                  "a stage is made from (const Params&, const millrace::StageSite&), or with DataContext or StepContext instead");
  }

  template <class T>
  static std::shared_ptr<T> construct(const typename T::Params& params, const AnyContext& context) {
    if constexpr (kTakes<T, StageSite>) {
      return std::make_shared<T>(params, context.site());
    } else if constexpr (kTakes<T, DataContext>) {
      return std::make_shared<T>(params, context.data());
    } else {
      return std::make_shared<T>(params, context.step());
    }
  }

  template <class T>
  static StageType make() {
    check_class<T>();
    using Params = typename T::Params;
    auto description = std::make_shared<StageDescription<Params>>();
    T::describe(*description);
    const Params defaults{};
    StageType type = described(*description, role_of<T>(), description->params.infos(), &defaults);
    type.takes_optimizer = std::is_base_of_v<OptimizerParams, Params>;
    type.takes_loss = std::is_base_of_v<LossParams, Params>;
    constexpr bool kRequests = requires(const DataContext& context, CompileRequest& request) {
      T::request(defaults, context, request);
    };
    if constexpr (kRequests || requires { &T::request; }) {
      static_assert(kRequests,
                    "request() is called before the network is compiled: it takes (const Params&, const millrace::StageSite&, "
                    "millrace::CompileRequest&), or DataContext instead of StageSite");
      type.request = [description](const Value& table, const DataContext& context, CompileRequest& request) {
        Diagnostics errors;
        const Params params = read(description->params, table, owner_of(context), errors);
        errors.throw_if_any();
        T::request(params, context, request);
      };
    }
    type.check = [description](const Value& table, const std::string& owner, Diagnostics& errors) {
      read(description->params, table, owner, errors);
    };
    type.create = [description](const Value& table, AnyContext context, Diagnostics& errors) -> std::shared_ptr<Stage> {
      const std::size_t before = errors.size();
      Params params = read(description->params, table, owner_of(context.site()), errors);
      if (errors.size() != before) return nullptr;
      if (context.has_data()) check_image(*description, context.data().image);
      auto stage = construct<T>(params, context);
      if constexpr (std::is_base_of_v<SampleTransform, T>) place(*stage, *description, context.data());
      return stage;
    };
    return type;
  }
};

template <class T>
void Registry::add_stage() {
  add(StageTypeAccess::make<T>());
}
template <class T>
void Registry::add_layer() {
  add(layer_type<T>());
}
template <class T>
void Registry::add_loss() {
  add(loss_type<T>());
}
template <class T>
void Registry::add_optimizer() {
  add(optimizer_type<T>());
}
template <class T>
void Registry::add_observer() {
  add(observer_type<T>());
}

}  // namespace millrace
