#include "testkit/networks.h"

#include <optional>

#include "millrace/backend/network.h"
#include "network/load.h"
#include "toml/document.h"

namespace millrace::testkit {

std::shared_ptr<const Network> network_from_file(const std::string& path) { return network_from_file(path, Registry()); }

std::shared_ptr<const Network> network_from_file(const std::string& path, const Registry& registry) {
  Diagnostics errors;
  std::shared_ptr<const Network> network = load_network(path, Value(), registry, errors);
  errors.throw_if_any();
  return network;
}

std::shared_ptr<const Network> network_from_text(const std::string& toml) { return network_from_text(toml, Registry()); }

std::shared_ptr<const Network> network_from_text(const std::string& toml, const Registry& registry) {
  Diagnostics errors;
  const std::optional<Value> document = parse_toml(toml, "text", errors);
  errors.throw_if_any();
  std::shared_ptr<const Network> network = build_network(*document, "text", Value(), registry, errors);
  errors.throw_if_any();
  return network;
}

}  // namespace millrace::testkit
