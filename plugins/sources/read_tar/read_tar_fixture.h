// A folder filled with shards by a test, and a source that reads them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "millrace/storage.h"
#include "read_tar.h"
#include "tar_files_fixture.h"
#include "testkit/harness.h"

namespace millrace {

class ReadTarTest : public testing::Test {
 protected:
  ReadTarTest() {
    registry_.add(StorageType{{"file", "files"}, storage_});
    context_.registry = &registry_;
    context_.run = &run_;
  }

  std::shared_ptr<ReadTar> opened(ReadTar::Params params) {
    if (params.path.empty() && params.paths.empty()) params.path = folder_.path().string();
    auto source = std::make_shared<ReadTar>(params, context_);
    source->open();
    return source;
  }
  Error error_of(const ReadTar::Params& params) {
    try {
      opened(params);
    } catch (const Error& error) {
      return error;
    }
    return Error(ErrorKind::run, "nothing was thrown");
  }
  // "member=content:label", or the fault.
  static std::string read(ReadTar& source, std::uint64_t index) {
    Sample sample;
    sample.key.index = index;
    try {
      source.read(sample);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::content);
      return sample.member + "!" + error.message();
    }
    EXPECT_EQ(sample.label, source.label(index));
    return fmt::format("{}={}:{}", sample.member,
                       std::string(sample.encoded.data(), sample.encoded.data() + sample.encoded.size()), sample.label);
  }

  testing_tar::Folder folder_;
  std::shared_ptr<testing_tar::LocalFiles> storage_ = std::make_shared<testing_tar::LocalFiles>();
  Registry registry_;
  testkit::RecordedRun run_;
  StepContext context_;
};

}  // namespace millrace
