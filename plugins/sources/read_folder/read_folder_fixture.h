// A folder filled by a test and read by a source.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "millrace/plugin.h"
#include "millrace/util/load_plugins.h"
#include "read_folder.h"
#include "testkit/files.h"
#include "testkit/harness.h"

namespace millrace {

class ReadFolderTest : public testing::Test {
 protected:
  ReadFolderTest() {
    load_plugin(registry_, MILLRACE_PLUGINS "/storage_file.so");
    context_.run = &warnings_;
    context_.registry = &registry_;
  }

  void write(const std::string& name, const std::string& bytes = "bytes") { root_.write(name, bytes); }
  ReadFolder::Params params() const {
    ReadFolder::Params result;
    result.path = root_.path().string();
    return result;
  }
  ReadFolder::Params labelled(const std::string& pattern) const {
    ReadFolder::Params result = params();
    result.label = pattern;
    return result;
  }
  std::shared_ptr<ReadFolder> opened(const ReadFolder::Params& params) {
    auto source = std::make_shared<ReadFolder>(params, context_);
    source->open();
    return source;
  }
  Error error_of(const ReadFolder::Params& params) {
    return testkit::error_of([&] { opened(params); });
  }
  std::string path_of(ReadFolder& source, std::uint64_t index) {
    Sample sample;
    testkit::read(source, index, sample);
    EXPECT_EQ(sample.label, source.label(index));
    return std::filesystem::relative(sample.url, root_.path()).string() + ":" + std::to_string(sample.label);
  }

  testkit::TestFolder root_;
  Registry registry_;
  testkit::RecordedRun warnings_;
  StepContext context_;
};

}  // namespace millrace
