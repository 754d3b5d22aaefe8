#include "../mpi_group.h"

#include <mpi.h>
#include <pthread.h>

#include <chrono>
#include <climits>
#include <cstring>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <thread>

#include "millrace/error.h"

namespace millrace {
namespace {

constexpr std::uint32_t kNever = Group::kFirstFree + 31;  // a channel without a sender: waiting on it is waiting for a loss
// Time for all processes to reach the end: rank 0's observers may be slow. After a failure some may never arrive.
constexpr std::chrono::seconds kEnd{60}, kEndOfFailed{2};

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(ErrorKind::peer, "{} failed: {}", call, text);
}

// Detects that the run has lost a process, for which MPI would wait forever.
class LossWatch {
 public:
  explicit LossWatch(Group& group)
      : thread_([this, &group] {
          pthread_setname_np(pthread_self(), "mpi peers");
          std::vector<std::byte> nothing;
          try {
            group.receive((group.rank() + 1) % group.size(), kNever, nothing);
          } catch (...) {
            const std::lock_guard lock(mutex_);
            lost_ = current_error();
          }
        }) {}
  // REQUIRES: the group was left, or has lost a process.
  ~LossWatch() { thread_.join(); }
  void require_all() const {
    const std::lock_guard lock(mutex_);
    if (lost_) throw Error(*lost_);
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Error> lost_;
  std::thread thread_;
};

// Polls without a pause at first, because fast networks respond within microseconds.
class Patience {
 public:
  void wait() {
    if (++polls_ < kWithoutPause) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  bool is_time_to_check() const { return polls_ % 64 == 0; }

 private:
  static constexpr int kWithoutPause = 2000;
  int polls_ = 0;
};

// For exchanges in which each process sends to all others, then receives from them in order of rank. Many MPIs send a large
// message only while its sender is in a call: the last receive() completes all sends.
class MpiGroup final : public Group {
 public:
  explicit MpiGroup(Group& group) : group_(group), watch_(group) {
    try {
      start();
    } catch (...) {
      const Error error = current_error();
      group.leave(&error);  // ends the watch's wait
      throw Error(error);
    }
  }
  ~MpiGroup() override { end(std::uncaught_exceptions() > 0 ? kEndOfFailed : kEnd); }

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  void send(int to, std::uint32_t channel, std::span<const std::byte> bytes) override;
  void receive(int from, std::uint32_t channel, std::vector<std::byte>& into) override;
  void leave(const Error*) noexcept override {}  // done by the run's group

 private:
  struct Sending {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  void start();
  void end(std::chrono::seconds limit) noexcept;
  void forget_sent();
  void await(const std::function<bool()>& is_done);
  int at(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }

  Group& group_;
  const LossWatch watch_;
  MPI_Comm world_ = MPI_COMM_NULL;
  std::vector<int> ranks_;              // MPI ranks by rank of the run
  std::list<Sending> sending_, spare_;  // MPI reads the bytes until the send completes
};

// All processes get the same result, because they exchange it before any of them waits in MPI.
void MpiGroup::start() {
  int is_there = 0, provided = 0, size = 0, mine = -1;
  MPI_Finalized(&is_there);
  if (is_there == 0) {
    MPI_Initialized(&is_there);
    if (is_there == 0) MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    MPI_Query_thread(&provided);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size == group_.size() && provided >= MPI_THREAD_SERIALIZED) MPI_Comm_rank(MPI_COMM_WORLD, &mine);
  }
  for (const auto& each : group_.all_gather(kGradients, std::as_bytes(std::span(&mine, 1)))) {
    int theirs = -1;
    if (each.size() == sizeof theirs) std::memcpy(&theirs, each.data(), sizeof theirs);
    ranks_.push_back(theirs);
  }
  for (const int each : ranks_) {
    if (each >= 0) continue;
    fail(ErrorKind::usage,
         "sums by MPI: MPI has {} process{} and the run has {}: start all of them with one mpirun, or with srun --mpi=pmix, or "
         "set communicator = \"auto\"",
         size, size == 1 ? "" : "es", group_.size());
  }
  check(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN);
}

// MPI_Finalize waits for all processes; skipped if one is lost.
void MpiGroup::end(std::chrono::seconds limit) noexcept {
  MPI_Request all_here = MPI_REQUEST_NULL;
  if (world_ == MPI_COMM_NULL || MPI_Ibarrier(world_, &all_here) != MPI_SUCCESS) return;
  Patience patience;
  const auto last = std::chrono::steady_clock::now() + limit;
  for (int is_done = 0; is_done == 0; patience.wait()) {
    if (MPI_Test(&all_here, &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS || std::chrono::steady_clock::now() > last) return;
  }
  for (Sending& each : sending_) MPI_Wait(&each.request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&world_);
  MPI_Finalize();
}

void MpiGroup::forget_sent() {
  for (auto each = sending_.begin(); each != sending_.end();) {
    int is_done = 0;
    check(MPI_Test(&each->request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    const auto next = std::next(each);
    if (is_done != 0) spare_.splice(spare_.end(), sending_, each);
    each = next;
  }
}

void MpiGroup::send(int to, std::uint32_t channel, std::span<const std::byte> bytes) {
  watch_.require_all();
  if (bytes.size() > INT_MAX) fail(ErrorKind::run, "MPI sends at most 2 GiB at once, not {} bytes", bytes.size());
  forget_sent();
  if (spare_.empty()) spare_.emplace_back();
  sending_.splice(sending_.end(), spare_, spare_.begin());
  Sending& message = sending_.back();
  message.bytes.assign(bytes.begin(), bytes.end());
  check(MPI_Isend(message.bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, at(to), static_cast<int>(channel), world_,
                  &message.request),
        "MPI_Isend");
}

// Polls, and throws if the run has lost a process.
void MpiGroup::await(const std::function<bool()>& is_done) {
  Patience patience;
  while (!is_done()) {
    if (patience.is_time_to_check()) watch_.require_all();
    patience.wait();
  }
}

void MpiGroup::receive(int from, std::uint32_t channel, std::vector<std::byte>& into) {
  int flag = 0, bytes = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  await([&] {
    check(MPI_Improbe(at(from), static_cast<int>(channel), world_, &flag, &message, &status), "MPI_Improbe");
    return flag != 0;
  });
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  into.resize(static_cast<std::size_t>(bytes));
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Imrecv(into.data(), bytes, MPI_BYTE, &message, &request), "MPI_Imrecv");
  await([&] {
    check(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), "MPI_Test");
    return flag != 0;
  });
  const int last = rank() == size() - 1 ? size() - 2 : size() - 1;
  if (from != last) return;
  await([&] {
    forget_sent();
    return sending_.empty();
  });
}

}  // namespace
}  // namespace millrace

extern "C" __attribute__((visibility("default"))) millrace::Group* millrace_make_mpi_group(millrace::Group* group) {
  return new millrace::MpiGroup(*group);
}
