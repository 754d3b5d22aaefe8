#include "testkit/losses.h"

#include <map>
#include <mutex>

#include "base/library_folder.h"
#include "config/document.h"
#include "millrace/error.h"
#include "millrace/util/load_plugins.h"

namespace millrace::testkit {

const Registry& loss_registry() {
  static const Registry registry = [] {
    Registry made;
    load_plugin(made, (library_folder() / "millrace/plugins/losses.so").string());
    return made;
  }();
  return registry;
}

std::shared_ptr<const Loss> make_loss(const std::string& name, const Value& parameters) {
  const LossType* type = loss_registry().losses().find(name);
  if (type == nullptr) fail(ErrorKind::usage, "unknown loss '{}'", name);
  Diagnostics errors;
  std::shared_ptr<const Loss> loss = type->create(parameters, name, errors);
  errors.throw_if_any();
  return loss;
}

std::shared_ptr<const Loss> example_loss(const LossType& type, const LossExample& example) {
  Diagnostics errors;
  const std::optional<Value> table = parse_toml(example.table, "example", errors);
  errors.throw_if_any();
  std::shared_ptr<const Loss> loss = type.create(*table, type.name, errors);
  errors.throw_if_any();
  return loss;
}

std::shared_ptr<const Loss> cross_entropy(double label_smoothing) {
  static std::mutex mutex;
  static std::map<double, std::shared_ptr<const Loss>> made;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const Loss>& loss = made[label_smoothing];
  if (!loss) {
    Value parameters;
    parameters.set("label_smoothing", Value(label_smoothing));
    loss = make_loss("cross_entropy", parameters);
  }
  return loss;
}

}  // namespace millrace::testkit
