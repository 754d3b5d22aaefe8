#include "peers.h"

#include <pthread.h>

#include <cstring>

#include "millrace/error.h"

namespace millrace::cuda {
namespace {

constexpr std::uint32_t kNever = Group::kFirstFree + 30;  // a channel without a sender: waiting on it is waiting for a loss

}  // namespace

PeerWatch::PeerWatch(Group& group)
    : thread_([this, &group] {
        pthread_setname_np(pthread_self(), "nccl peers");
        std::vector<std::byte> nothing;
        try {
          group.receive((group.rank() + 1) % group.size(), kNever, nothing);
        } catch (...) {
          const std::lock_guard lock(mutex_);
          lost_ = current_error().message();
        }
      }) {}

PeerWatch::~PeerWatch() { thread_.join(); }

std::optional<std::string> PeerWatch::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

NcclWorld nccl_world(const NcclApi& api, const CommunicatorType::Setting& setting,
                     std::function<std::optional<std::string>()> lost) {
  NcclWorld world{
      .ranks = static_cast<int>(setting.replicas), .first = static_cast<int>(setting.first_replica), .lost = std::move(lost)};
  std::vector<std::byte> id(sizeof world.id);
  if (setting.group->rank() == 0) {
    world.id = NcclGroup::make_id(api);
    std::memcpy(id.data(), &world.id, id.size());
  }
  setting.group->broadcast(Group::kGradients, 0, id);
  if (id.size() != sizeof world.id) fail(ErrorKind::peer, "the processes of this run have different versions of NCCL");
  std::memcpy(&world.id, id.data(), id.size());
  return world;
}

}  // namespace millrace::cuda
