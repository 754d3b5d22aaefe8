// A folder with lists and images, and a storage behind a network, for the tests of read_list.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "millrace/plugin.h"
#include "millrace/storage.h"
#include "millrace/util/load_plugins.h"
#include "read_list.h"
#include "testkit/files.h"
#include "testkit/harness.h"

namespace millrace {

// Simulates network storage: nothing is known without requests, which are counted.
class Remote : public Storage {
 public:
  std::map<std::string, std::string> objects;
  int lists = 0, stats = 0;
  bool has_folders = true;  // unlike a web server

  void list(const std::string& url, const std::function<void(Object)>& found) override {
    if (!has_folders) fail(ErrorKind::usage, "cannot list '{}'", url);
    ++lists;
    for (const auto& [name, bytes] : objects) {
      if (name.starts_with(url)) found({name.substr(url.size()), bytes.size(), "1"});
    }
  }
  Object stat(const std::string& url) override {
    ++stats;
    return {url, at(url).size(), "1"};
  }
  void read(const std::string& url, ByteBuffer& out) override {
    const std::string& bytes = at(url);
    std::copy(bytes.begin(), bytes.end(), out.resize(bytes.size()));
  }
  void read(const std::string&, std::uint64_t, std::size_t, std::uint8_t*) override { FAIL(); }

 private:
  const std::string& at(const std::string& url) {
    const auto found = objects.find(url);
    if (found == objects.end()) fail(ErrorKind::data, "'{}' does not exist", url);
    return found->second;
  }
};

class ReadListTest : public testing::Test {
 protected:
  ReadListTest() {
    load_plugin(registry_, MILLRACE_PLUGINS "/storage_file.so");
    registry_.add(StorageType{{"net", "", "test"}, remote_});
    context_.registry = &registry_;
    context_.run = &run_;
  }

  ReadList::Params list(std::string_view text, const std::string& name = "list.csv") {
    ReadList::Params params;
    params.path = folder_.write(name, text);
    return params;
  }
  std::shared_ptr<ReadList> opened(const ReadList::Params& params) {
    auto source = std::make_shared<ReadList>(params, context_);
    source->open();
    return source;
  }
  Error error_of(const ReadList::Params& params) {
    return testkit::error_of([&] { opened(params); });
  }
  // "bytes:label:number,number" of each sample.
  std::vector<std::string> samples(const ReadList::Params& params) {
    const auto source = opened(params);
    std::vector<std::string> result;
    Sample sample;
    for (std::uint64_t index = 0; index < source->size(); ++index) {
      testkit::read(*source, index, sample);
      EXPECT_EQ(sample.label, source->label(index));
      EXPECT_LE(sample.encoded.size(), source->largest_encoded());
      EXPECT_EQ(sample.numbers.size(), source->numbers());
      result.push_back(fmt::format("{}:{}:{}", testkit::text(sample.encoded), sample.label, fmt::join(sample.numbers, ",")));
    }
    return result;
  }

  testkit::TestFolder folder_;
  std::shared_ptr<Remote> remote_ = std::make_shared<Remote>();
  Registry registry_;
  testkit::RecordedRun run_;
  StepContext context_;
};

}  // namespace millrace
