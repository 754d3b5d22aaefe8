// Lack of memory is not an error of a file, whichever allocation fails.
#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <string>

#include "image_file_fixture.h"
#include "jpeg_images_fixture.h"
#include "millrace/error.h"
#include "png_images_fixture.h"

// glibc's own entry, which stays accessible when `malloc` is replaced.
extern "C" void* __libc_malloc(std::size_t size);  // NOLINT

namespace {
thread_local int until_failure = -1;  // allocations of this thread; negative: none fails
}

extern "C" __attribute__((visibility("default"))) void* malloc(std::size_t size) {
  if (until_failure >= 0 && until_failure-- == 0) {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_malloc(size);
}

namespace millrace {
namespace {

Pixels png(bool interlaced) {
  testing_png::Recipe recipe{.height = 90, .width = 90, .interlaced = interlaced, .text = true};
  recipe.values = random_values(recipe, 1);
  return encode(recipe);
}

Pixels jpeg(testing_jpeg::Recipe recipe) {
  recipe.pixels = testing_jpeg::noise(recipe.height, recipe.width, components(recipe.kind), 1);
  return encode(recipe);
}

struct Case {
  const char* name;
  Pixels bytes;
};

std::vector<Case> cases() {
  using testing_jpeg::Kind;
  return {{"JPEG", jpeg({.height = 40, .width = 40})},
          {"larger JPEG", jpeg({.height = 250, .width = 250})},
          {"progressive JPEG", jpeg({.height = 90, .width = 90, .progressive = true})},
          {"inks", jpeg({.height = 40, .width = 40, .kind = Kind::cmyk})},
          {"turned JPEG", jpeg({.height = 40, .width = 40, .orientation = 6})},
          {"PNG", png(false)},
          {"interlaced PNG", png(true)}};
}

Pixels decode_with(ImageFile& file, const Pixels& bytes, bool reduced) {
  const ImageShape shape = file.open(bytes, 3, {}, true);
  const Region all{0, 0, shape.height, shape.width};
  return render(file, reduced ? Excerpt{all, box_of(all), shape.height / 4, shape.width / 4, true} : cut(all), 3);
}

// Ends when nothing failed. The decoders keep their memory, and are new in the first round.
void expect_all_failures_named(const Case& example, bool reduced) {
  ImageFile reference;
  const Pixels expected = decode_with(reference, example.bytes, reduced);
  for (const bool is_new : {true, false}) {
    ImageFile kept;
    int failures = 0;
    for (int number = 0;; ++number) {
      ASSERT_LT(number, 1000) << example.name;
      ImageFile fresh;
      ImageFile& file = is_new ? fresh : kept;
      Pixels pixels;
      std::string error;
      until_failure = number;
      try {
        pixels = decode_with(file, example.bytes, reduced);
      } catch (const std::bad_alloc&) {
        ++failures;
      } catch (const Error& wrong) {
        until_failure = -1;
        error = wrong.what();
      }
      const bool has_failed = until_failure < 0;
      until_failure = -1;
      ASSERT_EQ(error, "") << example.name << ", allocation " << number;
      ASSERT_TRUE(pixels.empty() || pixels == expected) << example.name << ", allocation " << number;
      ASSERT_TRUE(decode_with(file, example.bytes, reduced) == expected) << example.name << ": it can be used again";
      if (!has_failed) break;
    }
    EXPECT_GT(failures, 0) << example.name;
  }
}

TEST(LackOfMemory, IsNoFaultOfAnImage) {
  for (const Case& example : cases()) {
    for (const bool reduced : {false, true}) expect_all_failures_named(example, reduced);
  }
}

}  // namespace
}  // namespace millrace
