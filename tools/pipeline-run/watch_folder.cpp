#include "watch_folder.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "millrace/error.h"
#include "millrace/util/files.h"
#include "millrace/util/standard_error.h"
#include "predict_images.h"
#include "watch_journal.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kRest{3};              // a file that is unchanged for so long is whole
constexpr std::chrono::milliseconds kTick{100};       // the longest wait before a signal is seen
constexpr std::chrono::milliseconds kResolution{20};  // more than that of any file system's clock
constexpr int kPause = 5;                             // between two listings, in their own durations
constexpr std::size_t kMaxWaiting = 100'000;          // files; more are found by the next listing

class FolderWatch {
 public:
  FolderWatch(const WatchRequest& request, const ImageAnswers& answers, FileStates& states, WatchJournal& journal,
              const std::atomic<int>& signal)
      : folder_(absolute_path(request.folder)), answers_(answers), states_(states), journal_(journal), signal_(signal) {
    inotify_ = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (inotify_ < 0) warn_of_limit();
    if (!request.answers.notice) return;
    request.answers.notice(fmt::format("watching '{}' for {}: {} answered before, in '{}'", folder_, usual_images().text(),
                                       journal_.size(), request.out));
  }
  ~FolderWatch() {
    if (inotify_ >= 0) ::close(inotify_);
  }
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;

  void run() {
    while (signal_ == 0) {
      if (Clock::now() >= next_listing_) list_all();
      take_rested();
      if (signal_ == 0 && !wait()) journal_.sync();
      take_events();
    }
    journal_.sync();
  }

 private:
  enum class Arrival { renamed, closed, unknown };
  struct Waiting {
    FileState state{};
    Clock::time_point since;
  };

  // False if nothing happened for a while.
  bool wait() const {
    pollfd files[] = {{inotify_, POLLIN, 0}, {STDOUT_FILENO, 0, 0}};
    const int ready = ::poll(files, 2, static_cast<int>(kTick.count()));
    if (ready > 0 && (files[1].revents & (POLLERR | POLLHUP)) != 0)
      fail(ErrorKind::storage, "standard output cannot be written: {}", std::strerror(EPIPE));
    return ready > 0;
  }

  void list_all() {
    struct stat now {};
    if (::stat(folder_.c_str(), &now) != 0 || !S_ISDIR(now.st_mode)) {
      if (!std::exchange(is_gone_, true)) print_to_stderr("warning: '{}' is gone: waiting for it\n", folder_);
      unwatch(folder_);
      next_listing_ = Clock::now() + kRest / 3;
      return;
    }
    if (std::exchange(is_gone_, false)) print_to_stderr("'{}' is back\n", folder_);
    if (const std::pair place(now.st_dev, now.st_ino); place != place_) {
      place_ = place;
      unwatch(folder_);
      journal_.begin(folder_, now.st_ino);
    }
    const Clock::time_point begun = Clock::now();
    answering_ = {};
    list(folder_, Arrival::unknown);
    next_listing_ = Clock::now() + std::max<Clock::duration>(kRest, kPause * (Clock::now() - begun - answering_));
    journal_.compact_if_doubled();
  }

  // It is watched first, so that nothing arrives unseen in between.
  void list(const std::string& folder, Arrival arrival) {
    watch(folder);
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end && signal_ == 0; entry.increment(error)) {
      const std::string path = entry->path().string(), name = entry->path().filename().string();
      std::error_code gone;
      if (name.starts_with('.')) continue;
      if (fs::is_directory(entry->symlink_status(gone))) {
        list(path, arrival);
      } else if (usual_images().match(name)) {
        consider(path, arrival);
      }
      take_events();
    }
    if (error && error != std::errc::no_such_file_or_directory && failed_.insert(folder).second)
      print_to_stderr("warning: cannot list '{}': {}\n", folder, error.message());
  }

  void watch(const std::string& folder) {
    if (inotify_ < 0) return;
    constexpr std::uint32_t kEvents = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_MOVE_SELF | IN_ONLYDIR;
    const int number = ::inotify_add_watch(inotify_, folder.c_str(), kEvents);
    if (number >= 0) {
      watched_[number] = folder;
    } else if (errno == ENOSPC || errno == ENOMEM) {
      warn_of_limit();
    }
  }

  // The folder and those below it.
  void unwatch(const std::string& folder) {
    std::erase_if(watched_, [&](const auto& each) {
      const auto& [number, path] = each;
      if (path != folder && !path.starts_with(folder + "/")) return false;
      ::inotify_rm_watch(inotify_, number);
      return true;
    });
  }

  void warn_of_limit() {
    if (std::exchange(warned_of_limit_, true)) return;
    print_to_stderr(
        "warning: inotify: {}: files in other folders are found later, by listing them; "
        "sysctl fs.inotify.max_user_watches raises the limit\n",
        std::strerror(errno));
  }

  void take_events() {
    if (inotify_ < 0 || in_events_) return;
    in_events_ = true;
    const ssize_t bytes = ::read(inotify_, events_, sizeof events_);
    for (ssize_t at = 0; at < bytes && signal_ == 0;) {
      inotify_event event{};
      std::memcpy(&event, events_ + at, sizeof event);
      take(event, events_ + at + sizeof event);
      at += static_cast<ssize_t>(sizeof event + event.len);
    }
    in_events_ = false;
  }

  void take(const inotify_event& event, const char* entry) {
    const auto found = watched_.find(event.wd);
    if (found == watched_.end()) {
      if ((event.mask & IN_Q_OVERFLOW) != 0) next_listing_ = Clock::now();
      return;
    }
    if (event.len == 0) {  // of the folder itself
      if (found->second == folder_) next_listing_ = Clock::now();
      if ((event.mask & IN_IGNORED) != 0) watched_.erase(found);
      return;
    }
    const std::string name = entry, path = found->second + "/" + name;
    const bool is_renamed = (event.mask & IN_MOVED_TO) != 0;
    if (name.starts_with('.')) return;
    if ((event.mask & IN_ISDIR) == 0) {
      if ((event.mask & IN_MOVED_FROM) != 0 || !usual_images().match(name)) return;
      consider(path, is_renamed ? Arrival::renamed : (event.mask & IN_CLOSE_WRITE) != 0 ? Arrival::closed : Arrival::unknown);
    } else if ((event.mask & IN_MOVED_FROM) != 0) {
      unwatch(path);
    } else {
      list(path, is_renamed ? Arrival::renamed : Arrival::unknown);
    }
  }

  void consider(const std::string& path, Arrival arrival) {
    struct stat info {};
    std::optional<FileState> state = states_.of(path, &info);
    if (state && arrival == Arrival::closed && is_young(info)) {
      std::this_thread::sleep_for(kResolution);  // or a later change could leave the same time
      state = states_.of(path, &info);
    }
    if (!state || journal_.has(*state)) {
      waiting_.erase(path);
      return;
    }
    const bool is_whole = arrival != Arrival::unknown && info.st_size > 0;  // an empty one may have been made to be filled
    if (!is_whole && !has_rested(path, *state)) return;
    if (states_.is_being_written(path, info.st_dev)) return wait_for(path, *state);
    answer(path, *state);
  }

  static bool is_young(const struct stat& info) {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    const std::chrono::nanoseconds age =
        std::chrono::seconds(now.tv_sec - info.st_mtim.tv_sec) + std::chrono::nanoseconds(now.tv_nsec - info.st_mtim.tv_nsec);
    return age.count() >= 0 && age < kResolution;
  }

  // Notes files that it sees for the first time.
  bool has_rested(const std::string& path, const FileState& state) {
    const auto found = waiting_.find(path);
    if (found != waiting_.end() && found->second.state == state) return Clock::now() - found->second.since >= kRest;
    wait_for(path, state);
    return false;
  }

  void wait_for(const std::string& path, const FileState& state) {
    if (waiting_.size() < kMaxWaiting || waiting_.contains(path)) {
      waiting_[path] = {state, Clock::now()};
    } else {
      has_more_ = true;
    }
  }

  void take_rested() {
    const Clock::time_point now = Clock::now();
    if (now < next_rested_) return;
    next_rested_ = now + kTick;
    std::vector<std::string> rested;
    for (const auto& [path, file] : waiting_) {
      if (now - file.since >= kRest) rested.push_back(path);
    }
    for (const std::string& path : rested) {
      if (signal_ != 0) return;
      consider(path, Arrival::unknown);
      take_events();
    }
    if (waiting_.empty() && std::exchange(has_more_, false)) next_listing_ = now;
  }

  void answer(const std::string& path, const FileState& state) {
    const Clock::time_point begun = Clock::now();
    const std::string members = answers_.members(path, [&] { return states_.of(path) == state; });
    if (members.empty()) {  // changed meanwhile
      waiting_.erase(path);
      if (const auto now = states_.of(path)) wait_for(path, *now);
      return;
    }
    waiting_.erase(path);
    const std::string line = fmt::format(R"({{"id":"{}",{}}})", to_string(state), members);
    print_answer(line);
    journal_.add(state, line);
    answering_ += Clock::now() - begun;
  }

  const std::string folder_;
  const ImageAnswers& answers_;
  FileStates& states_;
  WatchJournal& journal_;
  const std::atomic<int>& signal_;
  int inotify_ = -1;
  std::pair<dev_t, ino_t> place_{};         // of the folder
  std::map<int, std::string> watched_;      // folders by inotify's numbers
  std::map<std::string, Waiting> waiting_;  // files that may not be whole
  std::set<std::string> failed_;            // folders that cannot be listed
  bool has_more_ = false, is_gone_ = false, in_events_ = false, warned_of_limit_ = false;
  Clock::time_point next_listing_, next_rested_;
  Clock::duration answering_{};  // during a listing
  char events_[16 << 10];
};

}  // namespace

void watch_folder(const WatchRequest& request, const std::atomic<int>& signal, Activity& activity, const Registry& registry) {
  std::error_code ignored;
  if (!fs::is_directory(request.folder, ignored)) fail(ErrorKind::usage, "--watch: '{}' is not a folder", request.folder);
  activity.set("reading the journal", false);
  FileStates states;
  WatchJournal journal(request.out, states);
  activity.set("opening the weights", false);
  const ImageAnswers answers(request.answers, registry);
  activity.set("the current image", true);
  FolderWatch(request, answers, states, journal, signal).run();
}

}  // namespace millrace
