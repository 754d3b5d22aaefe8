// Counts and logs the calls, and makes selected ones fail.
#include "fault_files.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <map>

namespace fault_files {
namespace {

constexpr int kKilled = 137;           // a shell's code for SIGKILL
constexpr useconds_t kPause = 20'000;  // microseconds

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Fault fault_of(const std::string& name) {
  static const std::map<std::string, Fault> kFaults = {{"ENOSPC", {Action::fail, ENOSPC}},
                                                       {"EDQUOT", {Action::fail, EDQUOT}},
                                                       {"EIO", {Action::fail, EIO}},
                                                       {"EROFS", {Action::fail, EROFS}},
                                                       {"EINVAL", {Action::fail, EINVAL}},
                                                       {"full", {Action::fill, ENOSPC}},
                                                       {"short", {Action::halve}},
                                                       {"slow", {Action::slow}},
                                                       {"exit-before", {Action::end_before}},
                                                       {"exit-after", {Action::end_after}},
                                                       {"exit-within", {Action::end_within}}};
  const auto found = kFaults.find(name);
  return found == kFaults.end() ? Fault{} : found->second;
}

// The text of a file; "" if there is none.
std::string text_of(const std::string& file) {
  static auto* const real_open = reinterpret_cast<decltype(&::open)>(::dlsym(RTLD_NEXT, "open"));
  static auto* const real_close = reinterpret_cast<decltype(&::close)>(::dlsym(RTLD_NEXT, "close"));
  std::array<char, 32> text{};
  const int descriptor = real_open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return {};
  const ssize_t size = ::read(descriptor, text.data(), text.size());
  real_close(descriptor);
  return {text.data(), size < 0 ? 0 : static_cast<std::size_t>(size)};
}

}  // namespace

Faults::Faults()
    : folder_(variable("FAULT_FILES_FOLDER")),
      name_(variable("FAULT_FILES_NAME")),
      control_(variable("FAULT_FILES_CONTROL")),
      fault_(fault_of(variable("FAULT_FILES_DO"))) {
  const std::string at = variable("FAULT_FILES_AT"), log = variable("FAULT_FILES_LOG");
  if (!at.empty()) {
    char* rest = nullptr;
    first_ = last_ = std::strtol(at.c_str(), &rest, 10);
    if (*rest == '-') last_ = rest[1] == '\0' ? LONG_MAX : std::strtol(rest + 1, nullptr, 10);
  }
  REAL(open);
  if (!log.empty()) log_ = real(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

// The fault for the last counted call.
Fault Faults::fault_now() {
  if (!control_.empty()) return fault_of(text_of(control_));
  return count_ >= first_ && count_ <= last_ ? fault_ : Fault{};
}

// The whole path, or "" if it is not watched.
std::string Faults::watched(int folder, const char* path) const {
  if (folder_.empty() || path == nullptr) return {};
  std::string whole = path;
  if (!whole.starts_with('/')) {
    std::array<char, PATH_MAX> base{};
    std::string link = "/proc/self/";
    link.append(folder == AT_FDCWD ? "cwd" : "fd/");
    if (folder != AT_FDCWD) link.append(std::to_string(folder));
    if (::readlink(link.c_str(), base.data(), base.size() - 1) < 0) return {};
    std::string joined = base.data();
    joined.append("/").append(whole);
    whole = joined;
  }
  whole = std::filesystem::path(whole).lexically_normal().string();
  if (whole.ends_with('/')) whole.pop_back();
  const bool inside = whole == folder_ || (whole.starts_with(folder_) && whole[folder_.size()] == '/');
  return inside && whole.find(name_) != std::string::npos ? whole : std::string();
}

// Whether a real system could fail this call with this error.
bool Faults::can_fail(const Call& call, int error) const {
  if (error == EIO) return true;
  if (error == EROFS) return !call.reads() && call.name != "close";
  if (error == EINVAL) return call.name == "renameat2";
  return !call.reads() && !call.frees();  // full
}

void Faults::log(const Call& call, int error) const {
  if (log_ < 0) return;
  std::string record = std::to_string(count_);
  record.append(" ").append(call.name);
  for (const std::int64_t number : {std::int64_t{error}, std::int64_t{call.descriptor}, call.offset,
                                    static_cast<std::int64_t>(error == 0 ? call.data.size() : 0), std::int64_t{call.flags}}) {
    record.append(" ").append(std::to_string(number));
  }
  record.append("\t").append(relative(call.path)).append("\t").append(relative(call.second)).append("\n");
  if (error == 0 && !call.data.empty()) record.append(call.data).append("\n");
  REAL(write);
  if (real(log_, record.data(), record.size()) < 0) ::_exit(kKilled + 1);
}

ssize_t Faults::handle(Call call, const std::function<ssize_t(std::string_view data)>& make) {
  const std::lock_guard lock(mutex_);
  ++count_;
  const Fault fault = fault_now();
  const Action action = fault.action;
  if (action != Action::fill) filled_ = false;
  const bool fills = action == Action::fill && !filled_ && call.data.size() > 1;
  const bool halves = fills || (call.data.size() > 1 && (action == Action::halve || action == Action::end_within));
  if (action == Action::slow) ::usleep(kPause);
  if (action == Action::end_before || (action == Action::end_within && !halves)) ::_exit(kKilled);
  if ((action == Action::fail || (action == Action::fill && filled_)) && can_fail(call, fault.error)) {
    if (call.name == "close") make(call.data);  // the descriptor is closed all the same
    log(call, fault.error);
    errno = fault.error;
    return -1;
  }
  filled_ = filled_ || fills;
  if (halves) call.data = call.data.substr(0, call.data.size() / 2);
  const ssize_t result = make(call.data);
  const int error = result < 0 ? errno : 0;
  if (result >= 0 && !call.data.empty()) call.data = call.data.substr(0, static_cast<std::size_t>(result));
  if (call.name == "open") call.descriptor = static_cast<int>(result);
  log(call, error);
  if (action == Action::end_after || action == Action::end_within) ::_exit(kKilled);
  errno = error == 0 ? errno : error;
  return result;
}

}  // namespace fault_files
