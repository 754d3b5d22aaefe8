// What can be named in a pipeline, and who registered it.
#include "millrace/communicator.h"
#include "millrace/observer.h"
#include "millrace/optimizer.h"
#include "millrace/plugin.h"
#include "millrace/storage.h"

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

// create() that refuses mistakes in the keys of an optimizer or a loss as it refuses those in the stage's.
auto with_checked_parts(const StageType& type) {
  return [described = std::make_shared<StageType>(type)](const Value& table, AnyContext context,
                                                         Diagnostics& errors) -> std::shared_ptr<Stage> {
    const std::size_t before = errors.size();
    const StageSite& site = context.site();
    if (site.registry) check_parts(*described, table, *site.registry, StageTypeAccess::owner_of(site), errors);
    return errors.size() == before ? described->create(table, context, errors) : nullptr;
  };
}

}  // namespace

namespace detail {

void refuse_type(std::string_view kind, const std::string& name) {
  if (name.empty()) fail(ErrorKind::usage, "a {} without a name", kind);
  fail(ErrorKind::usage, "the {} '{}' is registered already", kind, name);
}

}  // namespace detail

Registry::Registry() : content_(std::make_unique<Content>()) { register_native_layers(*this); }
Registry::Registry(Registry&& other) noexcept = default;
Registry::~Registry() = default;

void Registry::add(StageType type) {
  if (type.takes_optimizer || type.takes_loss) type.create = with_checked_parts(type);
  content_->add(content_->stages, std::move(type));
}

void Registry::add(LayerType type) {
  if (type.examples.empty())
    fail(ErrorKind::usage, "the layer type '{}' has no examples, which its tests are made from", type.name);
  content_->add(content_->layers, with_parameter_keys(std::move(type)));
}

void Registry::add(LossType type) {
  if (type.examples.empty()) fail(ErrorKind::usage, "the loss '{}' has no examples, which its tests are made from", type.name);
  content_->add(content_->losses, std::move(type));
}

void Registry::add(OptimizerType type) { content_->add(content_->optimizers, std::move(type)); }
void Registry::add(ObserverType type) { content_->add(content_->observers, std::move(type)); }
void Registry::add(BackendType type) { content_->add(content_->backends, std::move(type)); }
void Registry::add(CommunicatorType type) { content_->add(content_->communicators, std::move(type)); }
void Registry::add(StorageType type) { content_->add(content_->storages, std::move(type)); }

const Catalogue<StageType>& Registry::stages() const { return content_->stages; }
const Catalogue<BackendType>& Registry::backends() const { return content_->backends; }
const Catalogue<CommunicatorType>& Registry::communicators() const { return content_->communicators; }
const Catalogue<LayerType>& Registry::layers() const { return content_->layers; }
const Catalogue<OptimizerType>& Registry::optimizers() const { return content_->optimizers; }
const Catalogue<LossType>& Registry::losses() const { return content_->losses; }
const Catalogue<ObserverType>& Registry::observers() const { return content_->observers; }
const Catalogue<StorageType>& Registry::storages() const { return content_->storages; }
const StageType* Registry::stage(std::string_view name) const { return stages().find(name); }
const BackendType* Registry::backend(std::string_view name) const { return backends().find(name); }
const CommunicatorType* Registry::communicator(std::string_view name) const { return communicators().find(name); }
const LayerType* Registry::layer(std::string_view name) const { return layers().find(name); }
const OptimizerType* Registry::optimizer(std::string_view name) const { return optimizers().find(name); }
const LossType* Registry::loss(std::string_view name) const { return losses().find(name); }
const ObserverType* Registry::observer(std::string_view name) const { return observers().find(name); }

const std::vector<PluginInfo>& Registry::plugins() const { return content_->plugins; }
const std::vector<std::string>& Registry::load_errors() const { return content_->skipped; }

Storage& Registry::storage(std::string_view url) const {
  const std::string scheme(url_scheme(url));
  if (const StorageType* type = storages().find(scheme)) return *type->storage;
  const std::vector<std::string> names = storages().names();
  const auto near = storages().nearest(scheme);
  fail(ErrorKind::usage, "'{}': no plugin reads '{}://'{}; there {} {}", url, scheme,
       near ? fmt::format(" (nearest is '{}')", *near) : "", names.size() == 1 ? "is" : "are", fmt::join(names, ", "));
}

}  // namespace millrace
