// For tests of stages that take predictions: a network, a run's folder, and predictions with given values.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "millrace/backend/network.h"
#include "millrace/batch.h"
#include "testkit/files.h"
#include "testkit/harness.h"
#include "testkit/plain.h"
#include "testkit/plain_stream.h"

namespace millrace::testkit {

class PredictionsTest : public testing::Test {
 protected:
  // The network's input and its output.
  PredictionsTest(ImageShape input, Shape output) : network_(small_network(input, 4, 3)) {
    run_.set_folder(folder_.path());
    network_.layers.back().output = std::move(output);
    context_.graph = "predict";
    context_.network = &network_;
    context_.window = input;
    context_.run = &run_;
  }

  // The stage, opened.
  template <class S>
  std::unique_ptr<Harness> made(std::initializer_list<std::pair<const char*, Value>> keys = {}) {
    auto harness = std::make_unique<Harness>(StageTypeAccess::make<S>(), table(keys), context_);
    harness->stage().open();
    return harness;
  }

  // A share of samples "photos/0.jpg", "photos/1.jpg" ..., starting at the source's 40th; the last of its pass. Positions
  // continue from the previous share.
  Ref<Predictions> share(const std::vector<std::vector<float>>& outputs) {
    Ref<Predictions> made = make_ref<Predictions>();
    made->count = static_cast<std::uint32_t>(outputs.size());
    made->last = true;
    auto& values = values_.emplace_back();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      made->samples.emplace_back().url = fmt::format("photos/{}.jpg", i);
      made->samples.back().key.index = 40 + i;
      made->samples.back().key.position = position_++;
      values.insert(values.end(), outputs[i].begin(), outputs[i].end());
    }
    made->outputs = {{network_.result(), network_.output(), values.data()}};
    made->ready = make_ref<Done>();
    return made;
  }

  // Errors reported while writing.
  static std::vector<Error> write(Harness& harness, const Ref<Predictions>& share) {
    harness.feed(packet(share, share->step));
    harness.output().wait_until_free();
    return harness.output().errors();
  }

  // The content of a file in the run's folder; empty if there is none.
  std::string text_of(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name, std::ios::binary).rdbuf();
    return text.str();
  }

  TestFolder folder_;
  RecordedRun run_;
  Network network_;
  StepContext context_;
  std::deque<std::vector<float>> values_;
  std::uint64_t position_ = 0;
};

}  // namespace millrace::testkit
