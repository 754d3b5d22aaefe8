#include "testkit/optimizers.h"

#include "base/library_folder.h"
#include "millrace/backend/network.h"
#include "millrace/batch.h"
#include "millrace/error.h"
#include "millrace/optimizer.h"
#include "millrace/util/load_plugins.h"

namespace millrace::testkit {

const Registry& optimizer_registry() {
  static const Registry registry = [] {
    Registry made;
    load_plugin(made, (library_folder() / "millrace/plugins/optimizers.so").string());
    return made;
  }();
  return registry;
}

std::shared_ptr<const Optimizer> make_optimizer(const std::string& name, const Value& parameters) {
  const OptimizerType* type = optimizer_registry().optimizers().find(name);
  if (type == nullptr) fail(ErrorKind::usage, "unknown optimizer '{}'", name);
  Diagnostics errors;
  std::shared_ptr<const Optimizer> optimizer = type->create(parameters, name, errors);
  errors.throw_if_any();
  return optimizer;
}

OptimizerSpec sgd(const Network& network, double momentum, double decay, bool nesterov) {
  Value parameters;
  parameters.set("momentum", Value(momentum));
  parameters.set("nesterov", Value(nesterov));
  OptimizerSpec update;
  update.optimizers = {make_optimizer("sgd", parameters)};
  update.decay.assign(network.parameters.size(), decay);
  return update;
}

}  // namespace millrace::testkit
