// Storage "s3" with our own server, which checks signatures and follows AWS's description; moto_test.cpp uses an independent
// one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>

#include "millrace/plugin.h"
#include "millrace/sample.h"
#include "millrace/storage.h"
#include "millrace/util/load_plugins.h"
#include "server.h"

namespace millrace::s3::test {
namespace {

namespace fs = std::filesystem;

class S3Server : public testing::Test {
 protected:
  void SetUp() override {
    if (!have_python()) GTEST_SKIP() << "python3 is not installed (Debian: python3)";
    for (int i = 0; i < 10; ++i)
      put(root(), "images", "set/cat/" + std::to_string(i) + ".jpg", content(100 + static_cast<std::size_t>(i), 1));
    put(root(), "images", "set/cat.txt", "text");
    put(root(), "images", "set/", "");
    put(root(), "images", "set/dog/", "");
    put(root(), "images", "set/dog/.keep", "");
    put(root(), "images", "set/cat/", "");
    put(root(), "images", "set/.hidden", "x");
    put(root(), "images", "set/.git/config", "x");
    put(root(), "images", "set/cat/.x.jpg", "x");
    put(root(), "images", "settle/other", "x");
    put(root(), "images", "empty", "");
    server_.emplace(root(), 4);
  }

  const fs::path& root() const { return folder_.path(); }
  Variables settings() const { return patient(variables(server_->url())); }
  Variables settings(Variables more) const {
    more.merge(settings());
    return more;
  }

  static std::vector<std::string> names(Storage& storage, const std::string& url) {
    std::vector<std::string> found;
    storage.list(url, [&](const Storage::Object& object) { found.push_back(object.name); });
    return found;
  }

  static std::string complaint(ErrorKind kind, const std::function<void()>& act) {
    try {
      act();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    return "no error";
  }

  TemporaryFolder folder_;
  std::optional<Server> server_;
};

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(S3Server, ListsAllPagesInOrderWithoutWhatIsHidden) {
  S3 storage(environment(settings()));
  std::vector<std::string> expected = {"cat.txt"};
  for (int i = 0; i < 10; ++i) expected.push_back("cat/" + std::to_string(i) + ".jpg");
  expected.emplace_back("dog/");  // it is empty
  EXPECT_EQ(names(storage, "s3://images/set"), expected);
  EXPECT_EQ(names(storage, "s3://images/set/"), expected);
  EXPECT_EQ(names(storage, "s3://images").size(), expected.size() + 2);
  storage.list("s3://images/set/cat", [&](const Storage::Object& object) {
    const Storage::Object same = storage.stat(join_url("s3://images/set/cat", object.name));
    EXPECT_EQ(same.bytes, object.bytes);
    EXPECT_EQ(same.version, object.version);
    EXPECT_EQ(object.version.size(), 32U);
  });
}

TEST_F(S3Server, ReadsWholeObjectsAndRanges) {
  S3 storage(environment(settings()));
  const std::string expected = content(105, 1);
  EXPECT_EQ(read_all(storage, "s3://images/set/cat/5.jpg"), expected);
  EXPECT_EQ(read_all(storage, "s3://images/empty"), "");
  EXPECT_EQ(storage.stat("s3://images/empty").bytes, 0U);
  EXPECT_EQ(storage.stat("s3://images/set/cat/5.jpg").name, "5.jpg");
  std::string part(20, '\0');
  auto* out = reinterpret_cast<std::uint8_t*>(part.data());
  storage.read("s3://images/set/cat/5.jpg", 80, 20, out);
  EXPECT_EQ(part, expected.substr(80, 20));
  storage.read("s3://images/set/cat/5.jpg", 1000, 0, out);
  for (const std::uint64_t offset : {86, 105, 1000}) {
    const std::string said = complaint(ErrorKind::storage, [&] { storage.read("s3://images/set/cat/5.jpg", offset, 20, out); });
    EXPECT_SAYS(said, "'s3://images/set/cat/5.jpg': it has 105 bytes, and its bytes up to " + std::to_string(offset + 20));
  }
}

TEST_F(S3Server, ReadsLargeObjectsInParts) {
  const std::string expected = content(1'000'001, 7);
  put(root(), "images", "large", expected);
  for (const char* part : {"1000000", "1000001", "65536", "333 kB"}) {
    S3 storage(environment(settings({{"MILLRACE_S3_PART", part}, {"MILLRACE_S3_PARALLEL", "3"}})));
    EXPECT_TRUE(read_all(storage, "s3://images/large") == expected) << part;
    std::string range(900'000, '\0');
    storage.read("s3://images/large", 99'999, range.size(), reinterpret_cast<std::uint8_t*>(range.data()));
    EXPECT_TRUE(range == expected.substr(99'999, range.size())) << part;
  }
}

TEST_F(S3Server, TakesAnyName) {
  S3 storage(environment(settings()));
  const std::vector<std::string> keys = {"a b.jpg",      "a+b.jpg",  "a%20b.jpg", "100%",    "\xC3\xBC/\xE6\x97\xA5.png",
                                         "a//b",         "a/../b",   "q?x=1&y#z", "(1)'*!~", "[a]{b}|^`\"",
                                         "a:b@c,d;e=f$", "\x01\x7F", "\xFF\xFE"};
  for (const std::string& key : keys) {
    put(root(), "odd", key, key);
    EXPECT_EQ(read_all(storage, "s3://odd/" + key), key);
    EXPECT_EQ(storage.stat("s3://odd/" + key).bytes, key.size()) << key;
  }
  std::vector<std::string> expected = keys;
  std::erase_if(expected, [](const std::string& key) { return key == "a/../b"; });  // hidden: a part begins with '.'
  std::sort(expected.begin(), expected.end(), [](const std::string& a, const std::string& b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
      return static_cast<unsigned char>(x) < static_cast<unsigned char>(y);
    });
  });
  EXPECT_EQ(names(storage, "s3://odd"), expected);
  put(root(), "odd", "a b/c+d/e", "x");
  EXPECT_EQ(names(storage, "s3://odd/a b/c+d"), std::vector<std::string>{"e"});
}

TEST_F(S3Server, ExplainsWhatIsNotThere) {
  S3 storage(environment(settings()));
  EXPECT_SAYS(complaint(ErrorKind::data, [&] { read_all(storage, "s3://images/nothing"); }),
              "'s3://images/nothing': HTTP 404 NoSuchKey");
  EXPECT_SAYS(complaint(ErrorKind::data, [&] { storage.stat("s3://images/nothing"); }),
              "'s3://images/nothing': HTTP 404 NoSuchKey");
  EXPECT_SAYS(complaint(ErrorKind::data, [&] { storage.stat("s3://nobucket/nothing"); }), "no such bucket");
  EXPECT_SAYS(complaint(ErrorKind::data, [&] { names(storage, "s3://nobucket/a"); }),
              "cannot list 's3://nobucket/a': HTTP 404 NoSuchBucket");
  EXPECT_SAYS(complaint(ErrorKind::data, [&] { names(storage, "s3://images/nofolder"); }),
              "'s3://images/nofolder': it contains no objects");
  EXPECT_SAYS(complaint(ErrorKind::usage, [&] { read_all(storage, "s3://images/"); }), "expected an object");
}

TEST_F(S3Server, RefusesWrongKeysAndSaysWhy) {
  const auto said = [&](const Variables& more, ErrorKind kind = ErrorKind::data) {
    S3 storage(environment(settings(more)));
    return complaint(kind, [&] { read_all(storage, "s3://images/empty"); });
  };
  EXPECT_SAYS(said({{"AWS_SECRET_ACCESS_KEY", "wrong"}}), "HTTP 403 SignatureDoesNotMatch");
  EXPECT_SAYS(said({{"AWS_ACCESS_KEY_ID", "NOBODY"}}, ErrorKind::storage), "the key id 'NOBODY' is unknown");
  EXPECT_SAYS(said({{"AWS_REGION", "eu-west-1"}}),
              "is in the region 'us-east-1', but 'eu-west-1' is set: set AWS_REGION=us-east-1");
  EXPECT_SAYS(said({{"AWS_ACCESS_KEY_ID", "AKIDOLD"}, {"AWS_SESSION_TOKEN", "expired"}}, ErrorKind::storage),
              "credentials have run out");
  S3 nobody(environment({{"HOME", "/nowhere"}}));
  EXPECT_SAYS(complaint(ErrorKind::data, [&] { read_all(nobody, "s3://images/empty"); }),
              "'s3://images/empty': no credentials for S3");
}

TEST_F(S3Server, IsNotNeededToFindMistakes) {
  S3 storage(environment(variables("http://127.0.0.1:1")));
  EXPECT_EQ(storage.kind("s3://images"), Storage::Kind::folder);
  EXPECT_EQ(storage.kind("s3://images/set"), Storage::Kind::unknown);
  EXPECT_SAYS(complaint(ErrorKind::usage, [&] { storage.kind("s3:///set"); }), "expected s3://bucket/name");
  S3 nobody(environment({}));
  EXPECT_SAYS(complaint(ErrorKind::data, [&] { nobody.kind("s3://images"); }), "no credentials for S3");
  S3 nowhere(environment(settings({{"AWS_ENDPOINT_URL", "127.0.0.1"}})));
  EXPECT_SAYS(complaint(ErrorKind::usage, [&] { nowhere.kind("s3://images"); }), "AWS_ENDPOINT_URL = '127.0.0.1'");
}

TEST_F(S3Server, AcceptsTemporaryKeys) {
  S3 storage(environment(settings({{"AWS_ACCESS_KEY_ID", "AKIDTEMP"}, {"AWS_SESSION_TOKEN", "token+/="}})));
  EXPECT_EQ(read_all(storage, "s3://images/set/cat.txt"), "text");
}

TEST_F(S3Server, ReadsTheCredentialsFileAgainWhenTheyHaveRunOut) {
  const fs::path file = root() / "credentials";
  Variables setting = settings({{"AWS_SHARED_CREDENTIALS_FILE", file.string()}});
  setting.erase("AWS_ACCESS_KEY_ID");
  setting.erase("AWS_SECRET_ACCESS_KEY");
  std::ofstream(file) << "[default]\naws_access_key_id=AKIDOLD\naws_secret_access_key=secret/+key\naws_session_token=expired\n";
  S3 storage(environment(setting));
  EXPECT_SAYS(complaint(ErrorKind::storage, [&] { read_all(storage, "s3://images/set/cat.txt"); }), "ExpiredToken");
  std::ofstream(file) << "[default]\naws_access_key_id=AKIDTEMP\n";  // not completely written yet
  EXPECT_SAYS(complaint(ErrorKind::storage, [&] { read_all(storage, "s3://images/set/cat.txt"); }),
              "has no aws_secret_access_key");
  std::ofstream(file) << "[default]\naws_access_key_id=AKIDTEMP\naws_secret_access_key=secret/+key\naws_session_token=token+/=\n";
  EXPECT_EQ(read_all(storage, "s3://images/set/cat.txt"), "text");
}

TEST_F(S3Server, KeepsItsConnection) {
  S3 storage(environment(settings()));
  for (int i = 0; i < 50; ++i) read_all(storage, "s3://images/set/cat.txt");
  EXPECT_EQ(server_->control("requests"), "50");
  EXPECT_EQ(server_->control("connections"), "3");  // these two requests and one for all the reads
}

TEST_F(S3Server, ServesManyThreads) {
  S3 storage(environment(settings()));
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        const int number = (t + i) % 10;
        EXPECT_EQ(read_all(storage, "s3://images/set/cat/" + std::to_string(number) + ".jpg"),
                  content(100 + static_cast<std::size_t>(number), 1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(S3Server, IsNotAskedForWhatTheCacheHolds) {
  const Variables cached = settings({{"MILLRACE_S3_CACHE", (root() / "cache").string()}, {"MILLRACE_S3_PART", "64"}});
  std::uint8_t bytes[10];
  {
    S3 storage(environment(cached));
    EXPECT_EQ(read_all(storage, "s3://images/set/cat/5.jpg"), content(105, 1));
    storage.read("s3://images/set/cat/5.jpg", 3, sizeof bytes, bytes);
  }
  S3 storage(environment(cached));
  names(storage, "s3://images/set");
  const std::string asked = server_->control("requests");
  EXPECT_EQ(read_all(storage, "s3://images/set/cat/5.jpg"), content(105, 1));
  storage.read("s3://images/set/cat/5.jpg", 3, sizeof bytes, bytes);
  EXPECT_EQ(std::string(bytes, bytes + 10), content(105, 1).substr(3, 10));
  EXPECT_EQ(server_->control("requests"), asked);
}

TEST_F(S3Server, IsAskedAgainForWhatHasChanged) {
  const Variables cached = settings({{"MILLRACE_S3_CACHE", (root() / "cache").string()}});
  EXPECT_EQ(read_all(*std::make_unique<S3>(environment(cached)), "s3://images/set/cat.txt"), "text");
  put(root(), "images", "set/cat.txt", "new text");
  EXPECT_EQ(read_all(*std::make_unique<S3>(environment(cached)), "s3://images/set/cat.txt"), "new text");
}

TEST_F(S3Server, IsTrustedOverTlsOnlyWithItsCertificate) {
  const std::string own = (root() / "own.pem").string();
  Child openssl({"sh", "-c",
                 "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test -addext "
                 "subjectAltName=IP:127.0.0.1 -keyout '" +
                     own + "' -out '" + own + ".crt' 2>/dev/null && cat '" + own + ".crt' >> '" + own + "'"},
                {});
  if (openssl.wait() != 0) GTEST_SKIP() << "openssl, which makes a certificate, is not installed (Debian: openssl)";
  Server secure(root(), 4, own);
  Variables setting = settings({{"AWS_ENDPOINT_URL", secure.url()}});
  S3 stranger(environment(setting));
  const std::string said = complaint(ErrorKind::storage, [&] { read_all(stranger, "s3://images/set/cat.txt"); });
  EXPECT_SAYS(said, "certificate");
  EXPECT_EQ(said.find("gave up"), said.npos) << said;  // permanent errors only
  setting["AWS_CA_BUNDLE"] = own + ".crt";
  S3 storage(environment(setting));
  EXPECT_EQ(read_all(storage, "s3://images/set/cat.txt"), "text");
  EXPECT_EQ(names(storage, "s3://images/set/cat").size(), 10U);
}

TEST_F(S3Server, IsReachedThroughThePlugin) {
  for (const auto& [name, value] : settings()) setenv(name.c_str(), value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  Registry registry;
  load_all_plugins(registry);
  Storage& storage = storage_of(registry, "s3://images/set/cat.txt");
  EXPECT_EQ(read_all(storage, "s3://images/set/cat.txt"), "text");
  for (const auto& [name, value] : settings()) unsetenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
}

// One level, as listed by base files. Pages of four names, and folder markers.
TEST_F(S3Server, NamesWhatLiesDirectlyInAFolder) {
  S3 s3(environment(settings()));
  std::set<std::string> found;
  s3.list_names("s3://images/set", [&](const Storage::Object& object) { found.insert(object.name); });
  EXPECT_EQ(found, (std::set<std::string>{"cat.txt", "cat/", "dog/"}));
  found.clear();
  s3.list_names("s3://images", [&](const Storage::Object& object) { found.insert(object.name); });
  EXPECT_EQ(found, (std::set<std::string>{"empty", "set/", "settle/"}));
  EXPECT_NE(
      complaint(ErrorKind::data, [&] { s3.list_names("s3://images/none", [](const auto&) {}); }).find("it contains no objects"),
      std::string::npos);
}

}  // namespace
}  // namespace millrace::s3::test
