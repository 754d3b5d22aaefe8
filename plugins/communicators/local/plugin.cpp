#include "millrace/plugin.h"
#include "local_communicator.h"

MILLRACE_PLUGIN("communicator_local", "1.0", "Sums over replicas of one process.") {
  registry.add(millrace::CommunicatorType{
      {"local", "replicas whose devices can read each other's memory; and processors of several processes"},
      "",
      [](const millrace::CommunicatorType::Setting& setting) -> std::unique_ptr<millrace::Communicator> {
        return std::make_unique<millrace::LocalCommunicator>(setting);
      }});
}
