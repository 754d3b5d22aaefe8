// Sums over processors of several processes, as in `local`, over MPI: for clusters with a fast network that MPI supports.
#include <dlfcn.h>

#include <filesystem>

#include "millrace/communicator.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/group.h"
#include "mpi_group.h"

namespace millrace {
namespace {

// Open MPI's components need its symbols in the global scope, and it cannot be unloaded.
MakeMpiGroup* open_wire() {
  Dl_info self{};
  ::dladdr(reinterpret_cast<const void*>(&open_wire), &self);
  const std::string path = std::filesystem::path(self.dli_fname).parent_path().parent_path() / "mpi" / "mpi_wire.so";
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  void* const make = library == nullptr ? nullptr : ::dlsym(library, kMakeMpiGroup);
  if (make == nullptr) fail(ErrorKind::usage, "MPI cannot be used here: {}", ::dlerror());
  return reinterpret_cast<MakeMpiGroup*>(make);
}

// Another communicator's sums, with MPI as transport.
class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(CommunicatorType::Setting setting, const CommunicatorType& sums) {
    if (setting.group != nullptr) {
      group_.reset(open_wire()(setting.group));
      setting.group = group_.get();
    }
    sums_ = sums.create(setting);
  }
  void all_reduce(std::span<const Ref<GradientBucket>> buckets) override { sums_->all_reduce(buckets); }
  void check() override { sums_->check(); }

 private:
  std::unique_ptr<Group> group_;
  std::unique_ptr<Communicator> sums_;  // destroyed before the group
};

CommunicatorType over_mpi(const Registry& registry, const char* name, const char* text, const char* sums) {
  const auto create = [&registry, name, sums](const CommunicatorType::Setting& setting) -> std::unique_ptr<Communicator> {
    const CommunicatorType* const type = registry.communicators().find(sums);
    if (type == nullptr) fail(ErrorKind::usage, "communicator = \"{}\" needs the plugin 'communicator_local'", name);
    return std::make_unique<MpiCommunicator>(setting, *type);
  };
  return {{name, text}, "", create};
}

}  // namespace
}  // namespace millrace

MILLRACE_PLUGIN("communicator_mpi", "1.0", "Sums over processors of several processes by MPI.") {
  registry.add(millrace::over_mpi(registry, "mpi", "as local, over MPI", "local"));
  registry.add(millrace::over_mpi(registry, "mpi_bf16", "as local_bf16, over MPI", "local_bf16"));
}
