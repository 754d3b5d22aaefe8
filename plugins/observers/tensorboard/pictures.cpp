#include "pictures.h"

#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "millrace/util/text.h"

namespace millrace::tensorboard {
namespace {

namespace fs = std::filesystem;

// Four bytes, big-endian.
std::int32_t number_at(std::string_view bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i) number = number << 8U | static_cast<unsigned char>(bytes[at + i]);
  return static_cast<std::int32_t>(number);
}

// Reads a PNG file's signature and its first chunk, IHDR (PNG specification, 5.2 and 11.2.2).
std::optional<Summary::Image> image_of(const fs::path& path) {
  constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";
  constexpr std::size_t kHeader = 33;
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file || bytes.size() < kHeader || !bytes.starts_with(kSignature)) return std::nullopt;
  Summary::Image image;
  image.set_width(number_at(bytes, 16));
  image.set_height(number_at(bytes, 20));
  image.set_channels(3);
  image.set_png(std::move(bytes));
  return image;
}

}  // namespace

void Pictures::add_changed(const fs::path& folder, Summary& summary) {
  std::set<fs::path> files;  // sorted by name
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored) && (entry.depth() > 0 || entry->path().filename() == "checkpoints")) {
      entry.disable_recursion_pending();
    }
    const bool is_picture = entry->path().extension() == ".png" && entry->path().filename() != "results.png";
    if (is_picture && entry->symlink_status(ignored).type() == fs::file_type::regular) files.insert(entry->path());
  }
  for (const fs::path& path : files) {
    std::error_code gone;
    const auto written = fs::last_write_time(path, gone);
    const std::string name = path.lexically_relative(folder).replace_extension().generic_string();
    if (gone || fs::file_size(path, gone) > kMostBytes || gone) continue;
    const auto found = seen_.find(name);
    if (found != seen_.end() && found->second == written) continue;
    std::optional<Summary::Image> image = image_of(path);
    if (!image) continue;
    seen_[name] = written;
    Summary::Value& value = *summary.add_value();
    value.set_tag(utf8_text(name));
    *value.mutable_image() = std::move(*image);
  }
}

}  // namespace millrace::tensorboard
