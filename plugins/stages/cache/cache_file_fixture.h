// A cache with a file, and samples for it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

#include "cache.h"
#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/graph_fixture.h"

namespace millrace {

namespace fs = std::filesystem;

inline std::string error_of(const std::function<void()>& work) {
  return testkit::error_of([&] { work(); }).message();
}

class CacheFileTest : public testing::Test {
 protected:
  CacheFileTest() : folder_(fs::temp_directory_path() / ("millrace_cache_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    context_.samples_per_epoch = 5;
    context_.fingerprint = 42;
    context_.run = &run_;
    params_.file = (folder_ / "deep" / "set.cache").string();
  }
  ~CacheFileTest() override { fs::remove_all(folder_); }

  // Fills it like the source and the earlier stages.
  void fill(std::uint64_t index) {
    sample_.reset({.epoch = 0, .position = index, .index = index}, {}, target_spec_);
    sample_.url = "u" + std::to_string(index);
    sample_.member = "m";
    sample_.offset = 99;
    sample_.label = static_cast<std::int32_t>(index);
    sample_.numbers = {0.5F, static_cast<float>(index)};
    sample_.content = 1000 + index;
    const Image image = sample_.new_image({2, static_cast<std::int32_t>(index) + 1, 3});
    std::memset(image.data, static_cast<int>(index), image.shape.bytes());
    sample_.set_image(image, map_of(index));
    const Image target = sample_.new_target({2, image.shape.width, 1});
    std::memset(target.data, static_cast<int>(100 + index), target.shape.bytes());
    sample_.set_target(target);
  }
  static SourceMap map_of(std::uint64_t index) { return {40, 50, AffineMap::translation(static_cast<double>(index), 3.5)}; }
  bool fetch(ImageCache& cache, std::uint64_t index) {
    sample_.reset({.epoch = 1, .position = 0, .index = index}, {}, target_spec_);
    return cache.fetch(sample_);
  }
  void pass(ImageCache& cache, std::uint64_t count) {
    Draw draw(1, {}, 0);
    for (std::uint64_t index = 0; index < count; ++index) {
      fill(index);
      static_cast<SampleTransform&>(cache).process(sample_, draw);
    }
  }
  void write_file() {
    ImageCache cache(params_, context_);
    cache.open();
    pass(cache, 5);
  }

  static TargetSpec classes() {
    TargetSpec spec;
    spec.kind = TargetSpec::Kind::classes;
    return spec;
  }

  fs::path folder_;
  testkit::RecordedRun run_;
  StepContext context_;
  Cache::Params params_;
  TargetSpec target_spec_ = classes();
  Sample sample_;
};

}  // namespace millrace
