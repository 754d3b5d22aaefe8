#include "run/checkpoints.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/durable.h"
#include "millrace/error.h"

namespace millrace {
namespace {

constexpr int kMostFailures = 6;  // that make the wait for the next attempt longer

Checkpoints::Clock::duration as_duration(double seconds) {
  return std::chrono::duration_cast<Checkpoints::Clock::duration>(std::chrono::duration<double>(seconds));
}

double seconds_of(Checkpoints::Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Checkpoints::Checkpoints(Setting setting)
    : setting_(std::move(setting)),
      place_(checkpoint_place(setting_.folder, setting_.storage)),
      next_(Clock::now() + as_duration(setting_.seconds)) {
  const std::filesystem::path& here = setting_.storage == nullptr ? setting_.folder : setting_.lock;
  std::error_code error;
  make_folder(here, error);
  if (error) {
    fail(ErrorKind::usage, "the folder of checkpoints '{}' cannot be made: {}; choose another with checkpoint.folder",
         here.string(), error.message());
  }
  lock_folder(here);
  try {
    place_->open();
  } catch (...) {
    if (folder_ >= 0) ::close(folder_);
    throw;
  }
  thread_ = std::thread([this] { run(); });
}

// A file system that has no locks is no reason to fail.
void Checkpoints::lock_folder(const std::filesystem::path& folder) {
  folder_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0 || ::flock(folder_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(folder_);
  fail(ErrorKind::usage, "another process writes checkpoints into '{}': its run has not ended", folder.string());
}

Checkpoints::~Checkpoints() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (folder_ >= 0) ::close(folder_);
}

bool Checkpoints::is_time() {
  if (setting_.seconds <= 0 || Clock::now() < next_) return false;
  const std::lock_guard lock(mutex_);
  if (job_) return false;
  next_ = Clock::now() + as_duration(setting_.seconds) * (1 << std::min(failures_, kMostFailures));
  return true;
}

bool Checkpoints::backs_off() {
  const std::lock_guard lock(mutex_);
  if (left_out_ < (1 << std::min(failures_, kMostFailures)) - 1) return ++left_out_ > 0;
  left_out_ = 0;
  return false;
}

void Checkpoints::wait_until_written() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !job_; });
}

void Checkpoints::wait() {
  wait_until_written();
  refused_.reset();
}

void Checkpoints::write(Checkpoint checkpoint, bool best, Clock::time_point since) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !job_; });
  job_ = Job{std::move(checkpoint), best, seconds_of(Clock::now() - since)};
  changed_.notify_all();
}

void Checkpoints::finish() {
  wait_until_written();
  if (failures_ == 0) return;
  std::string rescued;
  if (refused_) {
    const std::string name = checkpoint_name(refused_->state.step);
    try {
      write_checkpoint(setting_.rescue, *refused_);
      point_to(setting_.rescue, "latest", name);
      rescued = fmt::format("; it is in '{}' instead", (setting_.rescue / name).string());
    } catch (const Error& error) {
      rescued = fmt::format("; --rescue: {}", error.what());
    }
  }
  fail(ErrorKind::run, "the last checkpoint is not written: {}{}", failure_, rescued);
}

void Checkpoints::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return job_ || closing_; });
    if (!job_) return;
    lock.unlock();
    std::optional<Error> error;
    try {
      write(*job_);
    } catch (...) {
      error = current_error();
    }
    if (error) fail_by(*error, job_->checkpoint.state.step);
    lock.lock();
    if (!error) failures_ = 0;
    if (error && !setting_.rescue.empty()) refused_ = std::move(job_->checkpoint);
    job_.reset();
    changed_.notify_all();
  }
}

void Checkpoints::write(const Job& job) {
  const auto start = Clock::now();
  const std::uint64_t step = job.checkpoint.state.step;
  if (const std::string name = not_finite(job.checkpoint.tensors); !name.empty()) {
    return setting_.warn(fmt::format("no checkpoint after step {}: '{}' has values that are not finite", step, name));
  }
  const auto [name, bytes] = place_->write(job.checkpoint);
  if (job.best) place_->point_to("best", name);
  place_->point_to("latest", name);
  tidy(name);
  setting_.tell({.step = step,
                 .path = setting_.folder / name,
                 .stood_still_seconds = job.stood_still_seconds,
                 .seconds = seconds_of(Clock::now() - start),
                 .bytes = bytes,
                 .best = job.best});
}

// Old ones that stay are no reason to give up the new one, which is written.
void Checkpoints::tidy(const std::string& name) {
  try {
    place_->tidy(name, setting_.keep, setting_.keep_every);
  } catch (const Error& error) {
    if (std::exchange(told_of_old_ones_, true)) return;
    setting_.warn(fmt::format("old checkpoints stay in '{}': {}", setting_.folder.string(), error.what()));
  }
}

// Said once, however often it fails.
void Checkpoints::fail_by(const Error& error, std::uint64_t step) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = error.what();
    if (++failures_ > 1) return;
  }
  setting_.warn(fmt::format("no checkpoint after step {}: {}; the one before is still the newest, and training goes on", step,
                            error.what()));
}

}  // namespace millrace
