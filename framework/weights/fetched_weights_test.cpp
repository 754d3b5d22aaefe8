// Fetching is observed by a storage that counts; tests/storage_http has a server.
#include "weights/fetched_weights.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/storage.h"
#include "millrace/util/sha256.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

class CountingStorage final : public Storage {
 public:
  void list(const std::string&, const std::function<void(Object)>&) override {}
  Object stat(const std::string&) override { return {.name = "x", .bytes = 3 << 20, .version = "1"}; }
  void read(const std::string&, ByteBuffer& out) override {
    ++reads;
    std::memcpy(out.resize(7), "weights", 7);
  }
  void read(const std::string&, std::uint64_t, std::size_t, std::uint8_t*) override {}
  int reads = 0;
};

class FetchedWeights : public testing::Test {
 protected:
  FetchedWeights() : folder_(std::filesystem::path(testing::TempDir()) / fmt::format("millrace_fetched_{}", getpid())) {
    std::filesystem::remove_all(folder_);
    setenv("MILLRACE_CACHE", folder_.c_str(), 1);
    registry_.add(StorageType{{"net", "Counts."}, storage_});
  }
  ~FetchedWeights() override {
    unsetenv("MILLRACE_CACHE");
    std::filesystem::remove_all(folder_);
  }
  std::string local(const std::string& url, const std::string& sum = "") {
    return local_weights(
        {url, sum}, registry_, [&](const std::string& what) { said_ += what + "\n"; },
        [&](const std::string& what) { announced_ += what + "\n"; });
  }
  std::string complaint(const std::string& url, const std::string& sum = "") {
    try {
      local(url, sum);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path folder_;
  std::shared_ptr<CountingStorage> storage_ = std::make_shared<CountingStorage>();
  Registry registry_;
  std::string said_, announced_;
};

// sha256sum of CountingStorage's content.
const std::string kSum = "9a129038d9a00aed0cf6a7ea059ca50a813449061ab87848cf1a13eafdf33b2c";

TEST(HashInName, IsThatOfTorchvision) {
  EXPECT_EQ(hash_in_name("https://download.pytorch.org/models/resnet18-f37072fd.pth"), "f37072fd");
  EXPECT_EQ(hash_in_name("https://host/a-0123456789AB.safetensors?x-99999999.y"), "0123456789ab");
  for (const char* url : {"https://host/resnet18.pth", "https://host/a-1234567.pth", "https://host/a-f37072fd",
                          "https://host/a-12345678x.pth", "https://host/a-f37072fd.d/b.pth"})
    EXPECT_EQ(hash_in_name(url), "") << url;
}

TEST_F(FetchedWeights, AreFetchedOnce) {
  const std::string path = local("net://host/some weights.pth");
  EXPECT_EQ(path, cached_weights("net://host/some weights.pth"));
  EXPECT_TRUE(path.ends_with("-some_weights.pth")) << path;
  EXPECT_EQ(local("net://host/some weights.pth"), path);
  EXPECT_EQ(storage_->reads, 1);
  EXPECT_MESSAGE(said_);
  EXPECT_MESSAGE(announced_);
  EXPECT_NE(local("net://other/some weights.pth"), path);
}

TEST_F(FetchedWeights, AreCheckedEachTime) {
  if (!has_sha256()) {
    EXPECT_NE(complaint("net://host/x.pth", kSum).find("computes no SHA-256: it was made without OpenSSL"), std::string::npos);
    EXPECT_EQ(storage_->reads, 0);
    return;
  }
  const std::string path = local("net://host/x.pth", kSum), other(64, 'A');
  const std::string said = complaint("net://host/x.pth", other);
  EXPECT_MESSAGE(said);
  EXPECT_EQ(local("net://host/x.pth", kSum), path) << "a wrong sum costs no good file";
  EXPECT_EQ(storage_->reads, 2);
  EXPECT_MESSAGE(complaint("net://host/x-f37072fd.pth"));
  EXPECT_EQ(complaint("net://host/x-9a129038.pth"), "no error");
  EXPECT_EQ(complaint("net://host/x-f37072fd.pth", kSum), "no error");
}

TEST_F(FetchedWeights, ThatAreDamagedInTheCacheAreFetchedAgain) {
  if (!has_sha256()) GTEST_SKIP() << "this build has no OpenSSL";
  const std::string path = local("net://host/x.pth", kSum);
  std::ofstream(path) << "damaged";
  EXPECT_EQ(local("net://host/x.pth", kSum), path);
  EXPECT_EQ(storage_->reads, 2);
  std::string text;
  std::getline(std::ifstream(path), text);
  EXPECT_EQ(text, "weights");
}

TEST_F(FetchedWeights, ThatAreLocalStayWhereTheyAre) {
  EXPECT_EQ(local("runs/x-f37072fd.pth"), "runs/x-f37072fd.pth");
  EXPECT_EQ(local("file:///runs/x.pth"), "/runs/x.pth");
  EXPECT_EQ(said_, "");
}

}  // namespace
}  // namespace millrace
