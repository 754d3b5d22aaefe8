// A batch of decoded images for the stage `batch`, and its warnings.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "batch.h"
#include "millrace/error.h"
#include "testkit/files.h"
#include "testkit/harness.h"

namespace millrace {

inline constexpr ImageShape kShape{2, 2, 1};

class BatchTest : public testing::Test {
 protected:
  BatchTest() {
    context_.graph = "train";
    context_.name = "batch";
    context_.image = kShape;
    context_.run = &run_;
    context_.samples_per_epoch = 100;
    params_.size = 8;
  }

  // A batch whose slots hold decoded images: slot s is filled with s + 1.
  Ref<Batch> filled(std::uint32_t capacity = 8, std::uint32_t count = 8, ImageShape window = {}) {
    Ref<Batch> batch = testkit::make_batch(capacity, kShape, window);
    batch->count = count;
    batch->missing = count;
    batch->step = 5;
    for (std::uint32_t slot = 0; slot < count; ++slot) fill(*batch, slot, static_cast<std::uint8_t>(slot + 1));
    return batch;
  }
  static void fill(Batch& batch, std::uint32_t slot, std::uint8_t value) {
    Sample& sample = batch.samples[slot];
    const Image image = sample.new_image(kShape);
    std::memset(image.data, value, kShape.bytes());
    sample.set_image(image);
    sample.label = static_cast<std::int32_t>(slot);
    sample.url = "image " + std::to_string(slot);
    sample.hash = mix64(slot);
  }
  static void spoil(Batch& batch, std::uint32_t slot) { batch.samples[slot].fault = SampleFault{"decode_image", "truncated"}; }

  void feed(BatchSamples& stage, Packet packet) { stage.process(0, std::move(packet), output_); }

  Error error_of(BatchSamples& stage, const Ref<Batch>& batch) {
    try {
      feed(stage, testkit::whole(batch));
    } catch (const Error& error) {
      return error;
    }
    return Error(ErrorKind::run, "nothing was thrown");
  }
  std::string mistake() {
    return testkit::error_of(ErrorKind::usage, [&] { BatchSamples stage(params_, context_); }).message();
  }

  testkit::RecordedRun run_;
  testkit::CollectingOutput output_;
  StepContext context_;
  BatchSamples::Params params_;
};

}  // namespace millrace
