#include "millrace/plugin.h"
#include "local_communicator.h"

namespace {

millrace::CommunicatorType type(const char* name, const char* text, millrace::LocalCommunicator::Wire wire) {
  return {
      {name, text}, "", [wire](const millrace::CommunicatorType::Setting& setting) -> std::unique_ptr<millrace::Communicator> {
        return std::make_unique<millrace::LocalCommunicator>(setting, wire);
      }};
}

}  // namespace

MILLRACE_PLUGIN("communicator_local", "1.0", "Sums over replicas of one process, or processors of several.") {
  using Wire = millrace::LocalCommunicator::Wire;
  registry.add(
      type("local", "replicas whose devices can read each other's memory; and processors of several processes", Wire::fp32));
  registry.add(type("local_bf16", "processors of several processes, which send gradients in half precision", Wire::bf16));
}
