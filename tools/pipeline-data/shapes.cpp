#include "shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <thread>
#include <vector>

#include "common/arguments.h"
#include "image_bytes.h"
#include "millrace/error.h"
#include "millrace/util/paths.h"
#include "shape_image.h"
#include "stages/data_line.h"
#include "verbs.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

constexpr int kQuality = 90;
constexpr std::int64_t kMaxImages = 10'000'000;  // per split
constexpr std::int64_t kShapes = static_cast<std::int64_t>(kShapeNames.size());

std::string file_name(std::int64_t of_class) { return fmt::format("{:05}.jpg", of_class); }

// Removes images of a class left by an earlier call beyond those drawn now, for a split of `count`.
void remove_beyond(const fs::path& folder, std::int64_t shape, std::int64_t count) {
  std::vector<fs::path> beyond;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    std::int64_t number = -1;
    std::from_chars(name.data(), name.data() + name.size(), number);
    const bool is_drawn = number >= 0 && name == file_name(number) && fs::is_regular_file(entry.symlink_status());
    if (is_drawn && (number > kMaxImages || number * kShapes + shape >= count)) beyond.push_back(entry.path());
  }
  for (const fs::path& path : beyond) fs::remove(path);
}

// Image `number` of a split; classes alternate, so that counts differ by at most one.
void make_image(const ShapesOptions& options, std::uint64_t split, std::int64_t number) {
  const auto shape = static_cast<std::size_t>(number % kShapes);
  SampleKey key;
  key.epoch = split;
  key.position = static_cast<std::uint64_t>(number);
  Draw draw(static_cast<std::uint64_t>(options.seed), key, hash_text("pipeline-data shapes"));
  const int size = static_cast<int>(options.size);
  const auto pixels = draw_shape(static_cast<int>(shape), size, draw);
  const std::string path = fmt::format("{}/{}/{}/{}", options.destination, split == 0 ? "train" : "test", kShapeNames[shape],
                                       file_name(number / kShapes));
  write_jpeg(path, pixels, size, size, kQuality);
}

}  // namespace

void make_shapes(const ShapesOptions& options) {
  std::error_code ignored;
  const fs::path root(options.destination);
  if (fs::exists(root, ignored) && !(fs::is_directory(root, ignored) && fs::is_empty(root, ignored)) && !options.force) {
    fail(ErrorKind::usage, "'{}' exists and is not empty: name another folder, or give --force to write into this one",
         options.destination);
  }
  for (const char* split : {"train", "test"}) {
    const std::int64_t count = split == std::string_view("train") ? options.count : options.validation;
    for (std::int64_t shape = 0; shape < kShapes; ++shape) {
      const fs::path folder = root / split / kShapeNames[static_cast<std::size_t>(shape)];
      std::error_code error;
      fs::create_directories(folder, error);
      if (error) fail(ErrorKind::storage, "cannot make folder '{}': {}", folder.string(), error.message());
      remove_beyond(folder, shape, count);
    }
  }

  const unsigned threads = options.threads > 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
  for_each_sample(static_cast<std::uint64_t>(options.count + options.validation), threads, [&](std::uint64_t at, unsigned) {
    const auto i = static_cast<std::int64_t>(at);
    const bool training = i < options.count;
    make_image(options, training ? 0 : 1, training ? i : i - options.count);
  });
}

int shapes_verb(int count, const char* const* arguments) {
  ShapesOptions options;
  std::string images = "5000", validation = "1000", size = "32", seed = "1";
  std::vector<std::string> rest;
  Arguments reader(
      "pipeline-data shapes", "DEST [options]",
      "Draws a small labelled data set: DEST/train/<class>/*.jpg and DEST/test/<class>/*.jpg. Ten classes of shapes\n"
      "and textures, blurred and noisy, with colours, sizes, positions and angles independent of the class.");
  reader.option("--count", "N", "training images, in total (5000)", images)
      .option("--validation", "N", "test images, in total (1000)", validation)
      .option("--size", "PIXELS", "height and width (32)", size)
      .option("--seed", "N", "equal seeds draw equal images (1)", seed)
      .flag("--force", "write into a folder that is not empty; replaces or removes images of earlier calls", options.force);
  if (!reader.read(count, arguments, rest)) return 0;
  if (rest.size() != 1)
    fail(ErrorKind::usage, "expected one folder to write into, found {}; see pipeline-data shapes --help", rest.size());
  options.destination = local_path("shapes", rest[0]);
  options.count = integer("--count", images, kShapes, kMaxImages);
  options.validation = integer("--validation", validation, 0, kMaxImages);
  options.size = integer("--size", size, 8, 4096);
  options.seed = integer("--seed", seed, 0, std::int64_t{1} << 62);
  make_shapes(options);
  fmt::print("{} training and {} test images of {} classes in {}\n", options.count, options.validation, kShapes,
             options.destination);
  return 0;
}

}  // namespace millrace
