#include "archive.h"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <cstring>
#include <ctime>

#include "millrace/error.h"

namespace millrace::gpu {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = 512;  // of tar

std::string compressed(const std::string& bytes) {
  constexpr int kGzip = 16;  // added to the window's bits: gzip's header instead of zlib's
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzip, MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK) {
    fail(ErrorKind::run, "zlib does not start");
  }
  std::string out(deflateBound(&stream, static_cast<uLong>(bytes.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // which zlib only reads
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// POSIX ustar: a regular file of ours.
std::string tar_header(const std::string& name, std::size_t size) {
  std::array<char, kBlock> block{};
  const auto put = [&](std::size_t at, const std::string& text) { std::memcpy(block.data() + at, text.data(), text.size()); };
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", size));
  put(136, fmt::format("{:011o}", std::time(nullptr)));
  put(148, "        ");  // the checksum counts itself as spaces
  put(156, "0");
  put(257, std::string("ustar\0", 6) + "00");
  unsigned sum = 0;
  for (const char byte : block) sum += static_cast<unsigned char>(byte);
  put(148, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return {block.data(), block.size()};
}

std::string padding(std::size_t size) { return std::string((kBlock - size % kBlock) % kBlock, '\0'); }

// Two empty blocks end an archive.
const std::string& tail_of_archive() {
  static const std::string bytes = compressed(std::string(2 * kBlock, '\0'));
  return bytes;
}

}  // namespace

Archive::Archive(fs::path file, std::size_t most_bytes)
    : file_(std::move(file)), part_(file_.string() + ".part"), most_bytes_(most_bytes), stream_(part_, std::ios::binary) {}

bool Archive::add(const std::string& name, const std::string& bytes) {
  const std::string member = compressed(tar_header(name, bytes.size()) + bytes + padding(bytes.size()));
  if (bytes_ + member.size() + tail_of_archive().size() > most_bytes_) {
    left_out_.push_back(name);
    return false;
  }
  bytes_ += member.size();
  stream_.write(member.data(), static_cast<std::streamsize>(member.size()));
  return true;
}

void Archive::finish() {
  stream_.write(tail_of_archive().data(), static_cast<std::streamsize>(tail_of_archive().size()));
  stream_.close();
  if (!stream_) fail(ErrorKind::run, "'{}' cannot be written", part_.string());
  fs::rename(part_, file_);
}

std::string cut_file(const fs::path& file, std::size_t most) {
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream) return {};
  const auto size = static_cast<std::size_t>(stream.tellg());
  const auto read = [&](std::size_t at, std::size_t count) {
    std::string bytes(count, '\0');
    stream.clear();
    stream.seekg(static_cast<std::streamoff>(at));
    stream.read(bytes.data(), static_cast<std::streamsize>(count));
    bytes.resize(static_cast<std::size_t>(stream.gcount()));
    return bytes;
  };
  if (size <= most) return read(0, size);
  const std::size_t head = most / 4, end = most - head;
  return read(0, head) + fmt::format("\n[... {} bytes left out ...]\n", size - most) + read(size - end, end);
}

}  // namespace millrace::gpu
