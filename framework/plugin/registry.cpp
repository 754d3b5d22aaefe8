// Types that a pipeline can name, and the plugins that registered them.
#include "millrace/plugin.h"

#include <fmt/format.h>

#include "layers/native_layers.h"
#include "plugin/loss_params.h"
#include "plugin/optimizer_params.h"
#include "plugin/parameter_keys.h"
#include "plugin/registry_content.h"

namespace millrace {
namespace {

void check_parts(const StageType& type, const Value& table, const Registry& registry, const std::string& owner,
                 Diagnostics& errors) {
  if (type.takes_optimizer) check_optimizer(type, table, registry, owner, errors);
  if (type.takes_loss) check_loss_table(table, registry, owner, errors);
}

// Wraps create() so that mistakes in keys of an optimizer or a loss are refused like those in the stage's.
auto with_checked_parts(const StageType& type) {
  return [described = std::make_shared<StageType>(type)](const Value& table, AnyContext context,
                                                         Diagnostics& errors) -> std::shared_ptr<Stage> {
    const std::size_t before = errors.size();
    const StageSite& site = context.site();
    if (site.registry) check_parts(*described, table, *site.registry, StageTypeAccess::owner_of(site), errors);
    return errors.size() == before ? described->create(table, context, errors) : nullptr;
  };
}

// Validates and completes a type that is added.
template <class Type>
Type checked(Type type) {
  return type;
}

StageType checked(StageType type) {
  if (type.takes_optimizer || type.takes_loss) type.create = with_checked_parts(type);
  return type;
}

LayerType checked(LayerType type) {
  if (type.examples.empty())
    fail(ErrorKind::usage, "the layer type '{}' has no examples, which its tests are made from", type.name);
  return with_parameter_keys(std::move(type));
}

LossType checked(LossType type) {
  if (type.examples.empty()) fail(ErrorKind::usage, "the loss '{}' has no examples, which its tests are made from", type.name);
  return type;
}

}  // namespace

void detail::refuse_type(std::string_view kind, const std::string& name) {
  if (name.empty()) fail(ErrorKind::usage, "a {} without a name", kind);
  fail(ErrorKind::usage, "the {} '{}' is registered already", kind, name);
}

Registry::Registry() : content_(std::make_shared<RegistryContent>()) { register_native_layers(*this); }

template <std::derived_from<TypeDescription> Type>
void Registry::add(Type type) {
  content_->add(checked(std::move(type)));
}
template void Registry::add(StageType type);
template void Registry::add(LayerType type);
template void Registry::add(LossType type);
template void Registry::add(OptimizerType type);
template void Registry::add(ObserverType type);
template void Registry::add(BackendType type);
template void Registry::add(CommunicatorType type);
template void Registry::add(StorageType type);

const Catalogue<StageType>& Registry::stages() const { return content_->catalogue<StageType>(); }
const Catalogue<LayerType>& Registry::layers() const { return content_->catalogue<LayerType>(); }
const Catalogue<LossType>& Registry::losses() const { return content_->catalogue<LossType>(); }
const Catalogue<OptimizerType>& Registry::optimizers() const { return content_->catalogue<OptimizerType>(); }
const Catalogue<ObserverType>& Registry::observers() const { return content_->catalogue<ObserverType>(); }
const Catalogue<BackendType>& Registry::backends() const { return content_->catalogue<BackendType>(); }
const Catalogue<CommunicatorType>& Registry::communicators() const { return content_->catalogue<CommunicatorType>(); }
const Catalogue<StorageType>& Registry::storages() const { return content_->catalogue<StorageType>(); }

Storage& storage_of(const Registry& registry, std::string_view url) {
  const std::string scheme(url_scheme(url));
  if (const StorageType* type = registry.storages().find(scheme)) return *type->storage;
  const std::vector<std::string> names = registry.storages().names();
  const auto near = registry.storages().nearest(scheme);
  fail(ErrorKind::usage, "'{}': no plugin reads '{}://'{}; there {} {}", url, scheme,
       near ? fmt::format(" (nearest is '{}')", *near) : "", names.size() == 1 ? "is" : "are", fmt::join(names, ", "));
}

}  // namespace millrace
