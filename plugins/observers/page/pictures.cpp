#include "pictures.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace millrace::page {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMaxPictures = 60;
constexpr int kMaxDeep = 1;

std::string base64(const std::string& bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (int shift = 18; shift >= 0; shift -= 6) text += kDigits[group >> shift & 63];
  }
  for (std::size_t i = bytes.size() % 3; i != 0 && i < 3; ++i) text[text.size() - 3 + i] = '=';
  return text;
}

}  // namespace

std::vector<Picture> pictures_in(const fs::path& folder) {
  std::vector<Picture> pictures;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const fs::path name = entry->path().lexically_relative(folder);
    std::error_code ignored;
    if (entry->is_directory(ignored) && (entry.depth() >= kMaxDeep || name == "checkpoints")) {
      entry.disable_recursion_pending();
    }
    if (name.extension() != ".png" && name.extension() != ".svg") continue;
    struct stat file {};
    if (::lstat(entry->path().c_str(), &file) != 0 || !S_ISREG(file.st_mode)) continue;
    pictures.push_back({name.generic_string(), static_cast<std::uint64_t>(file.st_size),
                        file.st_mtim.tv_sec * 1'000'000 + file.st_mtim.tv_nsec / 1000});
  }
  std::ranges::sort(pictures, {}, &Picture::name);
  // If a picture exists as SVG and PNG, the SVG is shown.
  std::erase_if(pictures, [&](const Picture& picture) {
    return picture.name.ends_with(".png") && std::ranges::find(pictures, picture.name.substr(0, picture.name.size() - 4) + ".svg",
                                                               &Picture::name) != pictures.end();
  });
  if (pictures.size() > kMaxPictures) pictures.resize(kMaxPictures);
  return pictures;
}

int open_picture(const fs::path& folder, const Picture& picture) {
  const int file = ::open((folder / picture.name).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat status {};
  if (file >= 0 && ::fstat(file, &status) == 0 && S_ISREG(status.st_mode)) return file;
  if (file >= 0) ::close(file);
  return -1;
}

const char* content_type(const Picture& picture) { return picture.name.ends_with(".svg") ? "image/svg+xml" : "image/png"; }

std::string data_url(const fs::path& folder, const Picture& picture, std::size_t most) {
  const int file = open_picture(folder, picture);
  if (file < 0) return {};
  std::string bytes(std::min(most + 1, static_cast<std::size_t>(picture.bytes) + 1), '\0');
  std::size_t filled = 0;
  for (ssize_t got = 1; got > 0 && filled < bytes.size();) {
    got = ::read(file, bytes.data() + filled, bytes.size() - filled);
    if (got > 0) filled += static_cast<std::size_t>(got);
  }
  ::close(file);
  bytes.resize(filled);
  if (filled == 0 || filled > most || filled > picture.bytes) return {};  // it grows: it is being written
  return fmt::format("data:{};base64,{}", content_type(picture), base64(bytes));
}

}  // namespace millrace::page
