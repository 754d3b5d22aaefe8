#include "checkpoint/checkpoint_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/thread_name.h"
#include "files/durable.h"
#include "millrace/error.h"

namespace millrace {
namespace {

constexpr int kMaxFailures = 3;  // after which only one attempt in eight is made

CheckpointWriter::Clock::duration as_duration(double seconds) {
  return std::chrono::duration_cast<CheckpointWriter::Clock::duration>(std::chrono::duration<double>(seconds));
}

double seconds_of(CheckpointWriter::Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

CheckpointWriter::CheckpointWriter(Setting setting)
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

// A missing lock on a file system without locks is not an error.
void CheckpointWriter::lock_folder(const std::filesystem::path& folder) {
  folder_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0 || ::flock(folder_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(folder_);
  fail(ErrorKind::usage, "another process writes checkpoints into '{}': its run has not ended", folder.string());
}

// Writing creates the folder again, so a removed folder would go unnoticed.
void CheckpointWriter::check_folder() {
  if (setting_.storage != nullptr || folder_ < 0 || is_still_at(folder_, setting_.folder)) return;
  ::close(std::exchange(folder_, -1));
  setting_.warn(
      fmt::format("the folder of checkpoints '{}' was moved or removed: later ones go into a new folder of this name, which "
                  "lacks the earlier ones",
                  setting_.folder.string()));
}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (folder_ >= 0) ::close(folder_);
}

bool CheckpointWriter::is_time() {
  if (setting_.seconds <= 0 || Clock::now() < next_) return false;
  const std::lock_guard lock(mutex_);
  if (job_) return false;
  next_ = Clock::now() + as_duration(setting_.seconds) * (1 << std::min(failures_, kMaxFailures));
  return true;
}

bool CheckpointWriter::backs_off() {
  const std::lock_guard lock(mutex_);
  if (left_out_ < (1 << std::min(failures_, kMaxFailures)) - 1) return ++left_out_ > 0;
  left_out_ = 0;
  return false;
}

void CheckpointWriter::wait_until_written() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !job_; });
}

void CheckpointWriter::wait() {
  wait_until_written();
  refused_.reset();
}

void CheckpointWriter::write(Checkpoint checkpoint, bool best, Clock::time_point since, Fetch fetch) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !job_; });
  job_ = std::make_shared<Job>(Job{std::move(checkpoint), best, seconds_of(Clock::now() - since), std::move(fetch)});
  changed_.notify_all();
}

void CheckpointWriter::finish() {
  wait_until_written();
  const bool is_last_one_best = best_left_ && lost_ == best_left_->checkpoint.state.step;
  if (is_last_one_best) try_best_again();
  std::string text;
  if (lost_) {
    text = fmt::format("the last checkpoint was not written: {}", failure_.what());
    if (refused_) text += rescue("latest", refused_->checkpoint);
  }
  if (is_last_one_best) best_left_ = nullptr;
  if (const std::string best = finish_best(); !best.empty()) text += (text.empty() ? "" : "; ") + best;
  if (text.empty()) return;
  fail(failure_.kind() == ErrorKind::unreachable ? ErrorKind::unreachable : ErrorKind::run, "{}", text);
}

std::string CheckpointWriter::finish_best() {
  wait_until_written();
  if (!best_left_ || try_best_again()) return {};
  const SharedJob best = std::exchange(best_left_, nullptr);
  std::string text =
      fmt::format("the best checkpoint, after step {}, was not written: {}", best->checkpoint.state.step, failure_.what());
  if (!setting_.rescue.empty()) text += rescue("best", best->checkpoint);
  return text;
}

// Returns the outcome for a message.
std::string CheckpointWriter::rescue(const char* pointer, const Checkpoint& checkpoint) {
  const std::string name = checkpoint_name(checkpoint.state.step);
  try {
    write_checkpoint(setting_.rescue, checkpoint);
    point_to(setting_.rescue, pointer, name);
    if (refused_ && &checkpoint == &refused_->checkpoint) rescued_ = setting_.rescue / name;
    return fmt::format("; it is in '{}' instead", (setting_.rescue / name).string());
  } catch (const Error& error) {
    return fmt::format("; --rescue: {}", error.what());
  }
}

void CheckpointWriter::run() {
  name_this_thread("checkpoints");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return job_ || closing_; });
    if (!job_) return;
    std::shared_ptr<Job> job = job_;
    lock.unlock();
    if (job->best) best_left_ = nullptr;
    if (best_left_) try_best_again();
    if (fetch(*job)) attempt(job);
    job = nullptr;
    lock.lock();
    job_ = nullptr;
    changed_.notify_all();
  }
}

// False if a device did not return the values; training will fail likewise.
bool CheckpointWriter::fetch(Job& job) {
  const Fetch fetch = std::exchange(job.fetch, nullptr);
  if (!fetch) return true;
  try {
    fetch(job.checkpoint.tensors);
    return true;
  } catch (...) {
    lost_ = job.checkpoint.state.step;
    refused_ = nullptr;
    failure_ = current_error();
    setting_.warn(fmt::format("no checkpoint after step {}: {}", *lost_, failure_.what()));
    return false;
  }
}

void CheckpointWriter::attempt(const SharedJob& job) {
  const std::uint64_t step = job->checkpoint.state.step;
  lost_ = step;
  refused_ = nullptr;
  if (const std::string name = not_finite(job->checkpoint.tensors); !name.empty()) {  // not a failure of the disk
    failure_ = Error(ErrorKind::run, fmt::format("'{}' has values that are not finite", name));
    return setting_.warn(fmt::format("no checkpoint after step {}: {}", step, failure_.what()));
  }
  try {
    write(*job);
    lost_.reset();
  } catch (...) {
    fail_by(current_error(), job);
  }
  report_attempted(*job);
}

// Errors of the callback must not fail the checkpoint.
void CheckpointWriter::report_attempted(const Job& job) {
  if (!setting_.attempted) return;
  try {
    setting_.attempted(job.best ? &job.checkpoint : nullptr);
  } catch (...) {
    setting_.warn(fmt::format("after the checkpoint of step {}: {}", job.checkpoint.state.step, current_error().what()));
  }
}

bool CheckpointWriter::try_best_again() {
  try {
    write(*best_left_);
  } catch (...) {
    failure_ = current_error();
    return false;
  }
  if (lost_ == best_left_->checkpoint.state.step) lost_.reset();
  best_left_ = nullptr;
  return true;
}

void CheckpointWriter::write(const Job& job) {
  const auto start = Clock::now();
  const std::uint64_t step = job.checkpoint.state.step;
  check_folder();
  const auto [name, bytes] = place_->write(job.checkpoint);
  if (setting_.sync) setting_.sync();
  if (job.best) place_->point_to("best", name);
  if (step >= newest_) {
    place_->point_to("latest", name);
    newest_ = step;
    tidy(name);
  }
  {
    const std::lock_guard lock(mutex_);
    failures_ = 0;
  }
  setting_.report({.step = step,
                   .path = setting_.folder / name,
                   .stood_still_seconds = job.stood_still_seconds,
                   .seconds = seconds_of(Clock::now() - start),
                   .bytes = bytes,
                   .best = job.best});
}

// Failing to remove old checkpoints must not fail the new one, which is written.
void CheckpointWriter::tidy(const std::string& name) {
  try {
    place_->tidy(name, setting_.keep, setting_.keep_every);
  } catch (const Error& error) {
    if (std::exchange(warned_of_old_, true)) return;
    setting_.warn(fmt::format("old checkpoints stay in '{}': {}", setting_.folder.string(), error.what()));
  }
}

// Failures are reported once.
void CheckpointWriter::fail_by(const Error& error, const SharedJob& job) {
  const std::uint64_t step = job->checkpoint.state.step;
  failure_ = error;
  if (!setting_.rescue.empty()) refused_ = job;
  int failures = 0;
  {
    const std::lock_guard lock(mutex_);
    failures = ++failures_;
  }
  if (job->best) best_left_ = job;
  if (failures > 1) return;
  const bool has_one = setting_.resumes || newest_ > 0;
  setting_.warn(fmt::format("no checkpoint after step {}: {}; {}; training continues{}", step, failure_.what(),
                            has_one ? "the previous checkpoint is kept" : "the run has none yet",
                            job->best ? "; it is the best one, and stays in memory for another attempt" : ""));
}

}  // namespace millrace
