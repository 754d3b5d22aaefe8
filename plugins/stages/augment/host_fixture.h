#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "augment.h"

namespace millrace {

using Bytes = std::vector<std::uint8_t>;
inline constexpr ImageShape kShape{24, 24, 3};

// Samples processed by an augment stage.
class HostTest : public testing::Test {
 protected:
  HostTest() {
    context_.seed = 1;
    context_.name = "augment";
    context_.image = context_.window = kShape;
    for (std::size_t value = 0; value < classes_.classes.size(); ++value) {
      classes_.classes[value] = static_cast<std::uint8_t>(value);
    }
    classes_.kind = TargetSpec::Kind::classes;
    classes_.ignored = 250;
  }

  static Bytes pattern(ImageShape shape) {
    Bytes pixels(shape.bytes());
    for (std::size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = static_cast<std::uint8_t>((i * i * 7 + i * 13 + (i >> 3) * 5) % 240);
    return pixels;
  }

  void show(Sample& sample, std::uint64_t index, const Bytes& pixels, ImageShape shape = kShape,
            const TargetSpec* target = nullptr, const Bytes& target_pixels = {}) {
    target ? sample.reset({0, index, index, 0}, {}, *target) : sample.reset({0, index, index, 0}, {});
    const Image image = sample.new_image(shape);
    std::memcpy(image.data, pixels.data(), pixels.size());
    sample.set_image(image);
    if (!target) return;
    const Image second = sample.new_target({shape.height, shape.width, target->channels(shape.channels)});
    std::memcpy(second.data, target_pixels.data(), second.shape.bytes());
    sample.set_target(second);
  }

  std::uint64_t process(const Augment& stage, Sample& sample) const {
    Draw draw(context_.seed, sample.key, hash_text(context_.name));
    const_cast<Augment&>(stage).process(sample, draw);
    return draw.hash();
  }

  // The network's view of it.
  static Bytes seen(const ImageView& image, const AugmentationRecord& record, ImageShape window) {
    Bytes out(window.bytes());
    apply_record(record, image, window, out.data());
    return out;
  }
  Bytes run(std::uint64_t index = 0, ImageShape shape = kShape) {
    Sample sample;
    show(sample, index, pattern(shape), shape);
    process(Augment(params_, context_), sample);
    EXPECT_EQ(sample.image().shape, shape);
    place_window(sample, context_.window);
    return seen(sample.image(), sample.record, context_.window);
  }

  StepContext context_;
  Augment::Params params_;
  TargetSpec classes_;
};

}  // namespace millrace
