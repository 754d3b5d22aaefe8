#include "ranks/group_all_gather.h"

#include <algorithm>
#include <cstring>

namespace millrace {

GroupAllGather::GroupAllGather(std::size_t first, std::size_t here, std::size_t all, Group* group)
    : first_(first), here_(here), all_(all), group_(group) {}

void GroupAllGather::gather(std::size_t replica, std::span<const double> mine, std::span<double> all) {
  Lock lock(mutex_);
  if (error_) throw Error(*error_);
  const std::shared_ptr<Round> round = round_;
  round->mine.resize(here_ * mine.size());
  std::copy(mine.begin(), mine.end(), round->mine.begin() + static_cast<std::ptrdiff_t>((replica - first_) * mine.size()));
  if (++round->arrived < here_) {
    while (!round->done && !error_) lock.wait(changed_);
    if (!round->done) throw Error(*error_);
  } else {
    round_ = std::make_shared<Round>();  // no call reaches the new round before this one is done
    lock.unlock();
    try {
      finish(*round);
    } catch (...) {
      lock.lock();
      if (!error_) error_ = current_error();
      changed_.notify_all();
      throw Error(*error_);
    }
    lock.lock();
    round->done = true;
    changed_.notify_all();
  }
  std::copy(round->all.begin(), round->all.end(), all.begin());
}

void GroupAllGather::finish(Round& round) {
  if (group_ == nullptr) {
    round.all = round.mine;
    return;
  }
  for (const std::vector<std::byte>& bytes : group_->all_gather(Group::kExchange, std::as_bytes(std::span(round.mine)))) {
    const std::size_t before = round.all.size();
    round.all.resize(before + bytes.size() / sizeof(double));
    if (!bytes.empty()) std::memcpy(round.all.data() + before, bytes.data(), bytes.size());
  }
  if (round.all.size() * here_ != round.mine.size() * all_) {
    fail(ErrorKind::usage, "the replicas of the processes exchanged different numbers of values: they run different networks");
  }
}

void GroupAllGather::give_up() {
  const Lock lock(mutex_);
  if (!error_) error_ = Error(ErrorKind::run, "another replica has failed");
  changed_.notify_all();
}

}  // namespace millrace
