#include "shard_writer.h"

#include <fmt/format.h>

#include <cassert>
#include <cerrno>
#include <cstring>

#include "millrace/error.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kBlock = 512;
constexpr std::string_view kClasses = "classes.txt";
constexpr const char* kPart = ".part";

// Where the fields lie: POSIX.1-2017, pax, "ustar Interchange Format".
struct Field {
  std::size_t offset;
  std::string_view text;
};

[[noreturn]] void cannot(const char* what, const fs::path& path, int error) {
  fail(ErrorKind::run, "cannot {} '{}': {}", what, path.string(), std::strerror(error));
}

}  // namespace

void append_member(std::string& archive, std::string_view name, std::string_view content) {
  assert(name.size() <= 100 && content.size() < std::size_t{1} << 33U);
  const std::string size = fmt::format("{:011o}", content.size());
  char header[kBlock] = {};
  const Field fields[] = {{0, name},         {100, "0000644"}, {108, "0000000"},
                          {116, "0000000"},  {124, size},      {136, "00000000000"},  // no time
                          {148, "        "},                                          // the checksum counts as spaces
                          {156, "0"},                                                 // a plain file
                          {257, "ustar"},    {263, "00"}};
  for (const Field& field : fields) std::memcpy(header + field.offset, field.text.data(), field.text.size());
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::memcpy(header + 148, fmt::format("{:06o}", sum).c_str(), 7);
  archive.append(header, kBlock).append(content).append((kBlock - content.size() % kBlock) % kBlock, '\0');
}

ShardWriter::ShardWriter(fs::path folder, std::uint64_t bytes, bool force) : folder_(std::move(folder)), most_(bytes) {
  std::error_code error;
  for (fs::path path = fs::absolute(folder_); !fs::exists(path, error); path = path.parent_path()) made_.push_back(path);
  fs::create_directories(folder_, error);
  if (error) cannot("make folder", folder_, error.value());
  remove_parts();
  if (!fs::is_empty(folder_, error) && !force) {
    fail(ErrorKind::usage, "'{}' is not empty: name another folder, or give --force to replace the shards in it",
         folder_.string());
  }
}

ShardWriter::~ShardWriter() {
  file_.reset();
  std::error_code ignored;
  for (const std::string& name : names_) {
    if (!finished_) fs::remove(temporary(name), ignored);
  }
  for (const fs::path& path : made_) {
    if (!finished_) fs::remove(path, ignored);  // only when it is empty
  }
}

// Removes what a pack that was killed has left.
void ShardWriter::remove_parts() const {
  std::vector<fs::path> parts;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(kPart) && (name.starts_with(".shard-") || name.find(kClasses) == 1)) {
      parts.push_back(entry.path());
    }
  }
  std::error_code ignored;
  for (const fs::path& part : parts) fs::remove(part, ignored);
}

fs::path ShardWriter::temporary(const std::string& name) const { return folder_ / ("." + name + kPart); }

void ShardWriter::add(std::string_view members) {
  if (!file_) open(fmt::format("shard-{:06}.tar", shards_));
  write(members);
  in_shard_ += members.size();
  if (in_shard_ >= most_) end();
}

void ShardWriter::open(std::string name) {
  names_.push_back(std::move(name));
  const fs::path path = temporary(names_.back());
  file_.reset(std::fopen(path.c_str(), "wb"));
  if (!file_) cannot("write", path, errno);
}

void ShardWriter::close() {
  if (std::fclose(file_.release()) != 0) cannot("write", temporary(names_.back()), errno);
}

void ShardWriter::end() {
  if (!file_) return;
  write(std::string(2 * kBlock, '\0'));
  close();
  ++shards_;
  in_shard_ = 0;
}

void ShardWriter::write(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) cannot("write", temporary(names_.back()), errno);
  total_ += bytes.size();
}

void ShardWriter::finish(const std::vector<std::string>& classes) {
  end();
  if (!classes.empty()) {
    open(std::string(kClasses));
    write(fmt::format("{}\n", fmt::join(classes, "\n")));
    close();
  }
  remove_earlier();
  for (const std::string& name : names_) {
    std::error_code error;
    fs::rename(temporary(name), folder_ / name, error);
    if (error) cannot("write", folder_ / name, error.value());
  }
  finished_ = true;
}

void ShardWriter::remove_earlier() const {
  std::vector<fs::path> earlier;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    const bool shard = name.starts_with("shard-") && (name.ends_with(".tar") || name.ends_with(".tar.index"));
    if (shard || name == kClasses) earlier.push_back(entry.path());
  }
  for (const fs::path& path : earlier) {
    std::error_code error;
    if (!fs::remove(path, error) && error) cannot("remove", path, error.value());
  }
}

}  // namespace millrace
