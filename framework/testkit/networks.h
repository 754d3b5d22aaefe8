// Networks for tests and benchmarks of backends, without a pipeline. Both throw Error(usage) that lists the mistakes.
#pragma once

#include <memory>
#include <string>

#include "millrace/backend/network.h"
#include "millrace/plugin.h"

namespace millrace::testkit {

std::shared_ptr<const Network> network_from_file(const std::string& path);
std::shared_ptr<const Network> network_from_file(const std::string& path, const Registry& registry);
std::shared_ptr<const Network> network_from_text(const std::string& toml);
std::shared_ptr<const Network> network_from_text(const std::string& toml, const Registry& registry);

}  // namespace millrace::testkit
