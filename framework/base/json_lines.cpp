#include "millrace/json_lines.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/json.h"
#include "millrace/error.h"

namespace millrace {
namespace {

std::string dumped(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

void cut_incomplete_line(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::size_t whole = text.rfind('\n') + 1;  // npos + 1 is 0
  std::error_code ignored;                         // a line that nobody can read does less harm than a run that ends
  if (whole < text.size()) std::filesystem::resize_file(path, whole, ignored);
}

}  // namespace

JsonLine& JsonLine::append(std::string_view name, const std::string& value) {
  if (!members_.empty()) members_ += ',';
  members_ += dumped(name) + ":" + value;
  return *this;
}

JsonLine& JsonLine::add(std::string_view name, std::string_view value) { return append(name, dumped(value)); }
JsonLine& JsonLine::add(std::string_view name, double value) { return append(name, dumped(value)); }
JsonLine& JsonLine::add(std::string_view name, bool value) { return append(name, value ? "true" : "false"); }

LineFile::LineFile(const std::string& path, Warn warn, bool append) : path_(path), warn_(std::move(warn)) {
  if (append) cut_incomplete_line(path);
  file_.reset(std::fopen(path.c_str(), append ? "a" : "w"));
  if (!file_) fail(ErrorKind::run, "'{}' cannot be written: {}", path_, std::strerror(errno));
}

void LineFile::write(std::string_view line) {
  std::fwrite(line.data(), 1, line.size(), file_.get());
  std::fputc('\n', file_.get());
  if (std::fflush(file_.get()) == 0 || lines_are_lost_) return;
  lines_are_lost_ = true;
  warn_(fmt::format("lines of '{}' are lost: {}", path_, std::strerror(errno)));
}

}  // namespace millrace
