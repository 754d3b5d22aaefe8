#include "journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <sstream>

#include "millrace/error.h"

namespace millrace::gpu {
namespace {

namespace fs = std::filesystem;

double now() {
  const double seconds = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return std::round(seconds * 1000) / 1000;
}

bool ends_in_a_line(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream || stream.tellg() == 0) return true;
  stream.seekg(-1, std::ios::end);
  return stream.get() == '\n';
}

}  // namespace

Journal::Journal(const fs::path& file) {
  const bool whole = ends_in_a_line(file);
  file_ = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0) fail(ErrorKind::run, "the journal '{}' cannot be written", file.string());
  if (!whole && ::write(file_, "\n", 1) != 1) fail(ErrorKind::run, "the journal '{}' cannot be written", file.string());
}

Journal::~Journal() { close(file_); }

void Journal::add(Json event) {
  event["time"] = now();
  // What programs print need not be UTF-8.
  const std::string line = event.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  const std::lock_guard lock(mutex_);
  if (::write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    fmt::print(stderr, "the journal cannot be written: is the disk full? {}", line);  // the run is worth more than a line of it
  }
}

std::vector<Json> read_events(const fs::path& file, std::uintmax_t& offset) {
  std::vector<Json> events;
  std::ifstream stream(file, std::ios::binary);
  if (!stream.seekg(static_cast<std::streamoff>(offset))) return events;
  for (std::string line; std::getline(stream, line) && !stream.eof();) {
    offset += line.size() + 1;
    Json event = Json::parse(line, nullptr, false);
    if (event.is_object()) events.push_back(std::move(event));
  }
  return events;
}

std::vector<Json> read_events(const fs::path& file) {
  std::uintmax_t offset = 0;
  return read_events(file, offset);
}

void Report::row(const std::string& what, const std::string& figure, const std::string& remark) {
  add("row", {{"what", what}, {"figure", figure}, {"remark", remark}});
}

void Report::add(const std::string& event, Json more) {
  Json entry = {{"event", event}, {"part", part_}};
  entry.update(more);
  journal_.add(std::move(entry));
}

}  // namespace millrace::gpu
