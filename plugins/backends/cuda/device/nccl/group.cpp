#include "group.h"

#include <algorithm>
#include <system_error>
#include <thread>

#include "millrace/error.h"

namespace millrace::cuda {
namespace {

using Clock = std::chrono::steady_clock;

bool is_failure(ncclResult_t status) { return status != ncclSuccess && status != ncclInProgress; }

std::string text_of(const NcclApi& api, ncclResult_t status, ncclComm_t comm) {
  const char* more = comm == nullptr ? nullptr : api.last_error(comm);
  return fmt::format("{}{}", api.error_string(status), more == nullptr || *more == '\0' ? "" : fmt::format(" ({})", more));
}

// Submitting takes some tens of microseconds, connecting a second: polls often at first, then rarely.
void pause(int looks) {
  if (looks < 100) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(std::min(looks - 50, 1000)));
  }
}

// Ending a communicator is a collective call: it may wait for all others of its machine. A single thread could group such calls,
// but with non-blocking communicators it never learns when they finish; so each runs on a separate thread.
void for_all_at_once(const std::vector<ncclComm_t>& comms, ncclResult_t (*call)(ncclComm_t)) {
  std::vector<std::jthread> threads;
  for (ncclComm_t comm : comms) {
    if (comm == nullptr) continue;
    try {
      threads.emplace_back(call, comm);
    } catch (const std::system_error&) {  // no thread available: sequential is better than nothing
      call(comm);
    }
  }
}

}  // namespace

ncclUniqueId NcclGroup::make_id(const NcclApi& api) {
  ncclUniqueId id;
  const ncclResult_t status = api.get_unique_id(&id);
  if (is_failure(status)) fail(ErrorKind::device, "ncclGetUniqueId failed: {}", text_of(api, status, nullptr));
  return id;
}

NcclGroup::NcclGroup(const NcclApi& api, const NcclWorld& world, std::vector<NcclRank> own, std::chrono::milliseconds limit)
    : api_(api), own_(std::move(own)), limit_(limit), lost_(world.lost) {
  try {
    connect(world);
    wait_until_submitted("ncclCommInitRankConfig");
  } catch (...) {
    give_up();
    throw;
  }
}

NcclGroup::~NcclGroup() { for_all_at_once(comms_, api_.comm_destroy); }

void NcclGroup::connect(const NcclWorld& world) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const std::lock_guard lock(mutex_);
  comms_.assign(own_.size(), nullptr);
  check(api_.group_start(), "ncclGroupStart", 0);
  ncclResult_t bad = ncclSuccess;
  std::size_t where = 0;
  for (std::size_t r = 0; r < own_.size() && !is_failure(bad); ++r) {
    where = r;
    if (api_.set_device(own_[r].device) != cudaSuccess) {
      bad = ncclUnhandledCudaError;
    } else {
      bad = api_.comm_init(&comms_[r], world.ranks, world.id, world.first + static_cast<int>(r), &config);
    }
  }
  const ncclResult_t end = api_.group_end();  // also ends a failed group
  check(bad, "ncclCommInitRankConfig", where);
  check(end, "ncclGroupEnd", 0);
}

void NcclGroup::all_reduce(std::span<void* const> data, std::size_t elements, ncclDataType_t type,
                           std::span<const cudaStream_t> streams) {
  {
    const std::lock_guard lock(mutex_);
    if (comms_.empty()) fail(ErrorKind::device, "communication between the devices was ended");
    check(api_.group_start(), "ncclGroupStart", 0);
    ncclResult_t bad = ncclSuccess;
    std::size_t where = 0;
    for (std::size_t r = 0; r < comms_.size() && !is_failure(bad); ++r) {
      where = r;
      bad = api_.all_reduce(data[r], data[r], elements, type, ncclSum, comms_[r], streams[r]);
    }
    const ncclResult_t end = api_.group_end();
    check(bad, "ncclAllReduce", where);
    check(end, "ncclGroupEnd", 0);
  }
  wait_until_submitted("ncclAllReduce");
}

// Only then is the work in the streams, so that a mark after it is meaningful.
void NcclGroup::wait_until_submitted(const char* call) {
  const Clock::time_point begin = Clock::now();
  std::size_t rank = 0;
  for (int looks = 0; rank < own_.size(); ++looks) {
    ncclResult_t state = ncclSuccess;
    {
      const std::lock_guard lock(mutex_);
      if (comms_.empty()) fail(ErrorKind::device, "communication between the devices was ended");
      check(api_.comm_state(comms_[rank], &state), "ncclCommGetAsyncError", rank);
      check(state, call, rank);
    }
    if (state == ncclSuccess) {
      ++rank;
      continue;
    }
    if (const auto lost = lost_ ? lost_() : std::nullopt) throw Error(ErrorKind::peer, *lost);
    if (Clock::now() - begin > limit_) {
      fail(ErrorKind::device, "{} on {} was not done within {:g} s", call, own_[rank].name,
           std::chrono::duration<double>(limit_).count());
    }
    pause(looks);
  }
}

std::optional<NcclGroup::Trouble> NcclGroup::trouble() {
  const std::lock_guard lock(mutex_);
  for (std::size_t r = 0; r < comms_.size(); ++r) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t status = api_.comm_state(comms_[r], &state);
    if (is_failure(status)) state = status;
    if (is_failure(state)) return Trouble{r, text_of(api_, state, comms_[r])};
  }
  return std::nullopt;
}

// Releases the lock first: while the devices finish, others must be able to see the end.
void NcclGroup::give_up() noexcept {
  const std::lock_guard ending(ending_);  // a second caller waits for the first
  std::vector<ncclComm_t> comms;
  {
    const std::lock_guard lock(mutex_);
    comms.swap(comms_);
  }
  for_all_at_once(comms, api_.comm_abort);
}

void NcclGroup::check(ncclResult_t status, const char* call, std::size_t rank) const {
  if (!is_failure(status)) return;
  fail(ErrorKind::device, "{} on {} failed: {}", call, own_[rank].name,
       text_of(api_, status, rank < comms_.size() ? comms_[rank] : nullptr));
}

}  // namespace millrace::cuda
