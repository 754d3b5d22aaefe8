// In steady state no change allocates memory per sample.
#include <atomic>
#include <cstdlib>
#include <new>

#include "host_fixture.h"

namespace {
std::atomic<std::size_t> allocations{0};
}

// Not inlined, so that the compiler matches them at every call.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace millrace {
namespace {

TEST_F(HostTest, NothingIsAllocatedForASampleOnceTheBuffersHaveGrown) {
  context_.window = {};
  params_.random_resized_crop.emplace().size = Size{20, 20};
  params_.rand_augment.emplace();
  params_.trivial_augment = true;
  params_.rotate = Range{-20, 20};
  params_.interpolation = "bicubic";
  params_.brightness = params_.contrast = params_.saturation = Range{0.5, 1.5};
  params_.hue = Range{-0.2, 0.2};
  params_.greyscale = params_.equalise = params_.autocontrast = 0.5;
  params_.sharpness.emplace().chance = params_.blur.emplace().chance = params_.noise.emplace().chance = 0.5;
  params_.erase = {0.5, 3, {0.02, 0.33}, {0.3, 3.3}, "noise"};
  const Augment stage(params_, context_);
  const Bytes pixels = pattern(kShape), labels(24 * 24, 3);
  Sample sample;
  const auto pass = [&] {
    const std::size_t before = allocations;
    for (std::uint64_t index = 0; index < 100; ++index) {
      show(sample, index, pixels, kShape, &classes_, labels);
      process(stage, sample);
    }
    return allocations - before;
  };
  EXPECT_GT(pass(), 0U);
  EXPECT_EQ(pass(), 0U);
}

}  // namespace
}  // namespace millrace
