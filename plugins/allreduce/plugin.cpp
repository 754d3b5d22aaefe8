#include "millrace/plugin.h"
#include "allreduce.h"
#include "local_communicator.h"

MILLRACE_PLUGIN("allreduce", "1.0", "Sums of gradients over the replicas of a run.") {
  registry.add_stage<millrace::Allreduce>();
  registry.add(millrace::CommunicatorType{
      .name = "local",
      .text = "replicas of one process whose devices can read each other's memory",
      .backend = "",
      .create = [](std::span<millrace::Device* const> devices) -> std::unique_ptr<millrace::Communicator> {
        return std::make_unique<millrace::LocalCommunicator>(devices);
      }});
}
