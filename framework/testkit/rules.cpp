#include "testkit/rules.h"

#include "base/library_folder.h"
#include "millrace/backend/network.h"
#include "millrace/batch.h"
#include "millrace/error.h"
#include "millrace/optimizer.h"

namespace millrace::testkit {

const Registry& rule_registry() {
  static const Registry registry = [] {
    Registry made;
    made.load((library_folder() / "millrace/plugins/rules.so").string());
    return made;
  }();
  return registry;
}

std::shared_ptr<const Rule> make_rule(const std::string& name, const Value& parameters) {
  const RuleType* type = rule_registry().rule(name);
  if (type == nullptr) fail(ErrorKind::usage, "there is no update rule '{}'", name);
  Diagnostics errors;
  std::shared_ptr<const Rule> rule = type->create(parameters, name, errors);
  errors.throw_if_any();
  return rule;
}

UpdateRule sgd(const Network& network, double momentum, double decay, bool nesterov) {
  Value parameters;
  parameters.set("momentum", Value(momentum));
  parameters.set("nesterov", Value(nesterov));
  UpdateRule update;
  update.rules = {make_rule("sgd", parameters)};
  update.decay.assign(network.parameters.size(), decay);
  return update;
}

}  // namespace millrace::testkit
