#include "shard_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "millrace/error.h"
#include "millrace/util/output_file.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kBlock = 512;
constexpr std::string_view kClasses = "classes.txt";
constexpr std::string_view kPart = ".part", kWhole = ".whole";

// Positions of the fields: POSIX.1-2017, pax, "ustar Interchange Format".
struct Field {
  std::size_t offset;
  std::string_view text;
};

[[noreturn]] void cannot(const char* what, const fs::path& path, int error) {
  fail(ErrorKind::storage, "cannot {} '{}': {}", what, path.string(), std::strerror(error));
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
  for (const fs::path& part : all_hidden(kPart)) fs::remove(part, error);  // from a killed pack
  if (!fs::is_empty(folder_, error) && !force) {
    fail(ErrorKind::usage, "'{}' is not empty{}: name another folder, or give --force to replace the shards in it",
         folder_.string(),
         all_hidden(kWhole).empty() ? "" : " (.shard-*.whole are shards of a pack that ended while it replaced others)");
  }
}

ShardWriter::~ShardWriter() {
  file_.reset();
  if (is_whole_) return;
  std::error_code ignored;
  for (const std::string& name : names_) {
    for (const std::string_view ending : {kPart, kWhole}) fs::remove(hidden(name, ending), ignored);
  }
  for (const fs::path& path : made_) fs::remove(path, ignored);  // only if it is empty
}

fs::path ShardWriter::hidden(const std::string& name, std::string_view ending) const {
  return folder_ / fmt::format(".{}{}", name, ending);
}

std::vector<fs::path> ShardWriter::all_hidden(std::string_view ending) const {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(ending) && (name.starts_with(".shard-") || name.find(kClasses) == 1)) found.push_back(entry.path());
  }
  return found;
}

void ShardWriter::add(std::string_view members) {
  if (!file_) open(fmt::format("shard-{:06}.tar", shards_));
  write(members);
  in_shard_ += members.size();
  if (in_shard_ >= most_) end();
}

void ShardWriter::open(std::string name) {
  names_.push_back(std::move(name));
  const fs::path path = hidden(names_.back(), kPart);
  file_.reset(std::fopen(path.c_str(), "wb"));
  if (!file_) cannot("write", path, errno);
}

void ShardWriter::close() {
  if (std::fclose(file_.release()) != 0) cannot("write", hidden(names_.back(), kPart), errno);
}

void ShardWriter::end() {
  if (!file_) return;
  write(std::string(2 * kBlock, '\0'));
  close();
  ++shards_;
  in_shard_ = 0;
}

void ShardWriter::write(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size())
    cannot("write", hidden(names_.back(), kPart), errno);
  total_ += bytes.size();
}

void ShardWriter::finish(const std::vector<std::string>& classes) {
  end();
  if (!classes.empty()) {
    open(std::string(kClasses));
    write(fmt::format("{}\n", fmt::join(classes, "\n")));
    close();
  }
  for (const std::string& name : names_) rename(hidden(name, kPart), hidden(name, kWhole));
  sync_files(folder_.string());
  is_whole_ = true;
  try {
    replace_earlier();
  } catch (const Error& error) {
    fail(error.kind(), "{}; the new set is complete nevertheless: rename '{}', ... to '{}', ...", error.message(),
         hidden(names_.front(), kWhole).string(), names_.front());
  }
}

void ShardWriter::rename(const fs::path& from, const fs::path& to) const {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) cannot("write", to, error.value());
}

void ShardWriter::replace_earlier() const {
  remove_earlier();
  for (const std::string& name : names_) rename(hidden(name, kWhole), folder_ / name);
}

void ShardWriter::remove_earlier() const {
  std::vector<fs::path> earlier = all_hidden(kWhole);
  std::erase_if(earlier, [this](const fs::path& path) {
    return std::ranges::any_of(names_, [&](const std::string& name) { return path == hidden(name, kWhole); });
  });
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
