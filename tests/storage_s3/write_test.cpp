// Storage "s3" as a writer: whole objects or none, in one request or in parts, however the server behaves.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/storage.h"
#include "server.h"
#include "upload.h"

namespace millrace::s3::test {
namespace {

constexpr std::size_t kOnePart = Upload::kLeastPart;

class S3Writer : public testing::Test {
 protected:
  void SetUp() override {
    if (!have_python()) GTEST_SKIP() << "python3 is not installed (Debian: python3)";
    put(folder_.path(), "data", "before", "what was there before");
    server_.emplace(folder_.path(), 1000);
  }

  // `path`: of the endpoint, "/fault/...".
  Variables settings(const std::string& path = "") const {
    Variables settings = patient(variables(server_->url() + path));
    settings["MILLRACE_S3_PART"] = std::to_string(kOnePart);
    return settings;
  }
  std::string open_uploads() { return server_->control("uploads"); }

  // In pieces that do not divide a part.
  static void write_pieces(Storage::Writer& writer, const std::string& bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += 1'000'003)
      writer.write(bytes.data() + at, std::min<std::size_t>(1'000'003, bytes.size() - at));
  }
  static void write_object(Storage& storage, const std::string& url, const std::string& bytes) {
    const auto writer = storage.write(url);
    write_pieces(*writer, bytes);
    writer->commit();
  }
  static std::string error_of_write(Storage& storage, const std::string& url, const std::string& bytes) {
    try {
      write_object(storage, url, bytes);
    } catch (const Error& error) {
      const auto kinds = {ErrorKind::unreachable, ErrorKind::storage, ErrorKind::data};
      EXPECT_NE(std::ranges::count(kinds, error.kind()), 0) << error.what();
      return error.what();
    }
    return {};
  }

  TemporaryFolder folder_;
  std::optional<Server> server_;
};

TEST_F(S3Writer, WritesObjectsOfAnySizeThatReadBackTheSame) {
  S3 storage(environment(settings()));
  const std::pair<std::size_t, std::string> cases[] = {
      {0, ""}, {3000, ""}, {kOnePart, ""}, {kOnePart + 1, "-2"}, {2 * kOnePart, "-2"}, {2 * kOnePart + 77, "-3"}};
  for (const auto& [size, parts] : cases) {
    const std::string bytes = content(size, static_cast<unsigned>(size));
    const std::string url = "s3://data/new/odd name+(1)/" + std::to_string(size);
    write_object(storage, url, bytes);
    EXPECT_TRUE(read_all(storage, url) == bytes) << size;
    const std::string etag = storage.stat(url).version;
    EXPECT_EQ(etag.size() > 32 ? etag.substr(32) : "", parts) << etag;
  }
  EXPECT_EQ(open_uploads(), "0");
}

TEST_F(S3Writer, AnObjectIsThereWhenItIsCommittedAndNotBefore) {
  S3 storage(environment(settings()));
  {
    const auto given_up = storage.write("s3://data/before");
    write_pieces(*given_up, content(kOnePart + 1000, 1));
    EXPECT_EQ(open_uploads(), "1");
    EXPECT_EQ(read_all(storage, "s3://data/before"), "what was there before");
  }
  EXPECT_EQ(open_uploads(), "0") << "it was given up";
  EXPECT_EQ(read_all(storage, "s3://data/before"), "what was there before");
  write_object(storage, "s3://data/before", "new");
  EXPECT_EQ(read_all(storage, "s3://data/before"), "new");
}

struct WriteFault {
  const char* name;   // KIND.WHAT, see s3_faults.py
  std::size_t size;   // size of the object that meets it
  const char* cause;  // in the error, if the fault persists; "": not tried, since the object is written in spite of it
};

TEST_F(S3Writer, SurvivesFaultsThatPassAndNamesThoseThatDoNot) {
  constexpr std::size_t kTwoParts = kOnePart + 1000;
  const WriteFault faults[] = {{"reset_mid_request.part", kTwoParts, "gave up after 2 attempts"},
                               {"http_500.part", kTwoParts, "HTTP 500 InternalError"},
                               {"slow_down.begin", kTwoParts, "HTTP 503 SlowDown"},
                               {"http_500.complete", kTwoParts, "HTTP 500 InternalError"},
                               {"error_in_200.complete", kTwoParts, "is a 'Error': InternalError"},
                               {"lost_reply.complete", kTwoParts, ""},
                               {"lost_reply.part", kTwoParts, "gave up after 2 attempts"},
                               {"http_500.put", 3000, "HTTP 500 InternalError"},
                               {"reset_before_head.put", 3000, "gave up after 2 attempts"}};
  for (const WriteFault& fault : faults) {
    const std::string bytes = content(fault.size, 3), url = fmt::format("s3://data/{}", fault.name);
    S3 passing(environment(settings(fmt::format("/fault/{}/2/{}-passes", fault.name, fault.name))));
    S3 plain(environment(settings()));
    EXPECT_EQ(error_of_write(passing, url, bytes), "") << fault.name;
    EXPECT_TRUE(read_all(plain, url) == bytes) << fault.name;
    if (*fault.cause == '\0') continue;
    Variables impatient = settings(fmt::format("/fault/{}/0/{}-lasts", fault.name, fault.name));
    impatient["MILLRACE_S3_ATTEMPTS"] = "2";
    S3 lasting(environment(impatient));
    const std::string said = error_of_write(lasting, "s3://data/before", bytes);
    EXPECT_NE(said.find("cannot write 's3://data/before': "), std::string::npos) << fault.name << ": " << said;
    EXPECT_NE(said.find(fault.cause), std::string::npos) << fault.name << ": " << said;
    EXPECT_EQ(read_all(plain, "s3://data/before"), "what was there before") << fault.name;
    EXPECT_EQ(open_uploads(), "0") << fault.name;
  }
}

TEST_F(S3Writer, ARefusalIsNotTriedAgain) {
  S3 storage(environment(settings("/fault/signature.put/0/refused")));
  const std::string before = server_->control("requests");
  EXPECT_NE(error_of_write(storage, "s3://data/x", "x").find("is the secret key right?"), std::string::npos);
  EXPECT_EQ(std::stoi(server_->control("requests")), std::stoi(before) + 1);
  S3 plain(environment(settings()));
  EXPECT_NE(error_of_write(plain, "s3://none/x", "x").find("no such bucket"), std::string::npos);
}

TEST_F(S3Writer, RemovesObjectsAndTellsEmptyFolders) {
  S3 storage(environment(settings()));
  EXPECT_TRUE(storage.is_empty("s3://data/folder"));
  write_object(storage, "s3://data/folder/a/b", "x");
  EXPECT_FALSE(storage.is_empty("s3://data/folder"));
  EXPECT_FALSE(storage.is_empty("s3://data/folder/a/"));
  EXPECT_TRUE(storage.is_empty("s3://data/fold")) << "names are compared up to a '/'";
  storage.remove("s3://data/folder/a/b");
  EXPECT_TRUE(storage.is_empty("s3://data/folder"));
  storage.remove("s3://data/folder/a/b");
  EXPECT_THROW(storage.is_empty("s3://none/folder"), Error);
}

TEST_F(S3Writer, ACacheForgetsWhatWasWritten) {
  Variables cached = settings();
  cached["MILLRACE_S3_CACHE"] = (folder_.path() / "cache").string();
  S3 storage(environment(cached));
  EXPECT_EQ(read_all(storage, "s3://data/before"), "what was there before");
  write_object(storage, "s3://data/before", "new");
  EXPECT_EQ(read_all(storage, "s3://data/before"), "new");
  storage.remove("s3://data/before");
  EXPECT_THROW(read_all(storage, "s3://data/before"), Error);
}

}  // namespace
}  // namespace millrace::s3::test
