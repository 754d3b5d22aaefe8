// Storage "http" with a web server that misbehaves on request.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "http_storage.h"
#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/storage.h"
#include "server.h"

namespace millrace::http::test {
namespace {

class HttpServer : public testing::Test {
 protected:
  void SetUp() override {
    if (!s3::test::have_python()) GTEST_SKIP() << "python3 is not installed (Debian: python3)";
    put(root() / "file.bin", bytes_);
    put(root() / "a b" / "ü.bin", "blanks");
    put(root() / "empty", "");
    server_.emplace(root());
  }

  const std::filesystem::path& root() const { return folder_.path(); }
  std::string at(const std::string& path) const { return *server_ / path; }
  static HttpStorage storage(const Variables& more = {}) {
    Variables all = more;
    all.merge(Variables{{"MILLRACE_HTTP_ATTEMPTS", "4"},
                        {"MILLRACE_HTTP_TIMEOUT", "60"},
                        {"MILLRACE_HTTP_CONNECT_TIMEOUT", "60"},
                        {"MILLRACE_HTTP_STALL_TIMEOUT", "60"}});
    return HttpStorage(s3::test::environment(all));
  }
  std::string range(const std::string& path, std::size_t offset, std::size_t size) const {
    std::string bytes(size, '\0');
    HttpStorage own(s3::test::environment({}));
    own.read(at(path), offset, size, reinterpret_cast<std::uint8_t*>(bytes.data()));
    return bytes;
  }
  static std::string read(HttpStorage& from, const std::string& url) { return s3::test::read_all(from, url); }

  static std::string complaint(ErrorKind kind, const std::function<void()>& act) {
    try {
      act();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    return "no error";
  }

  const std::string bytes_ = content(3'000'001, 3);
  TemporaryFolder folder_;
  std::optional<WebServer> server_;
};

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(HttpServer, ReadsWholeFilesOfEveryKindOfServer) {
  HttpStorage from(s3::test::environment({}));
  for (const char* kind : {"", "plain/", "chunked/", "unversioned/"}) {
    EXPECT_TRUE(read(from, at(std::string(kind) + "file.bin")) == bytes_) << kind;
    EXPECT_EQ(read(from, at(std::string(kind) + "empty")), "") << kind;
  }
  EXPECT_EQ(read(from, at("a b/ü.bin?x=1#here")), "blanks");
}

TEST_F(HttpServer, ReadsRangesAlsoWhereTheServerIgnoresThem) {
  for (const char* kind : {"", "plain/", "chunked/", "unversioned/"}) {
    const std::string path = std::string(kind) + "file.bin";
    EXPECT_TRUE(range(path, 1'000'000, 5000) == bytes_.substr(1'000'000, 5000)) << kind;
    EXPECT_TRUE(range(path, 0, 10) == bytes_.substr(0, 10)) << kind;
    EXPECT_TRUE(range(path, 3'000'000, 1) == bytes_.substr(3'000'000)) << kind;
  }
  const std::string end = "it has 3000001 bytes, and its bytes up to 3000010 were requested";
  EXPECT_SAYS(complaint(ErrorKind::storage, [&] { range("file.bin", 3'000'000, 10); }), end);
  EXPECT_SAYS(complaint(ErrorKind::storage, [&] { range("file.bin", 3'000'005, 5); }), end);
  EXPECT_SAYS(complaint(ErrorKind::storage, [&] { range("plain/file.bin", 3'000'000, 10); }), end);
}

TEST_F(HttpServer, KnowsSizeAndVersion) {
  HttpStorage from(s3::test::environment({}));
  const Storage::Object object = from.stat(at("file.bin?x"));
  EXPECT_EQ(object.name, "file.bin");
  EXPECT_EQ(object.bytes, bytes_.size());
  EXPECT_NE(object.version, "");
  EXPECT_EQ(from.stat(at("plain/file.bin")).bytes, bytes_.size());
  EXPECT_EQ(from.stat(at("plain/file.bin")).version, object.version);
  EXPECT_EQ(from.stat(at("unversioned/file.bin")).version, "");
  EXPECT_EQ(from.stat(at("empty")).bytes, 0U);
  EXPECT_SAYS(complaint(ErrorKind::storage, [&] { from.stat(at("chunked/file.bin")); }), "does not report its size");
}

TEST_F(HttpServer, IsNotBelievedWhenItNamesASizeThatNoFileHas) {
  HttpStorage from = storage();
  const int before = server_->requests();
  const std::string limits[] = {"; a file of more than 68719476736 is not read as a whole",
                                ", and no file is larger than 1152921504606846976"};
  for (const std::string bytes : {"1000000000000000", "4611686018427387904", "9223372036854775807"}) {
    const std::string& limit = limits[bytes == "1000000000000000" ? 0 : 1];
    const std::string url = at("claims/" + bytes + "/plain/file.bin");
    EXPECT_EQ(complaint(ErrorKind::data, [&] { read(from, url); }),
              "cannot read '" + url + "': the server reports " + bytes + " bytes" + limit);
    const std::string ranged = at("claims/" + bytes + "/file.bin");
    if (&limit == limits) continue;  // reading in parts allows this size
    EXPECT_EQ(complaint(ErrorKind::data, [&] { from.stat(url); }),
              "cannot access '" + url + "': the server reports " + bytes + " bytes" + limit);
    EXPECT_EQ(complaint(ErrorKind::data, [&] { from.stat(ranged); }),
              "cannot access '" + ranged + "': the server reports " + bytes + " bytes" + limit);
    EXPECT_SAYS(complaint(ErrorKind::data, [&] { range("claims/" + bytes + "/file.bin", 7, 9); }), bytes + " bytes" + limit);
  }
  EXPECT_EQ(server_->requests(), before + 9) << "it was asked again";
}

TEST_F(HttpServer, DoesNotWriteBehindABufferWhoseSizeItNames) {
  for (const char* bytes : {"18446744073709551615", "18446744073709551553", "16140901064495857665"}) {
    HttpStorage from = storage();
    ByteBuffer out;
    const std::string url = at(std::string("claims/") + bytes + "/plain/file.bin");
    try {
      from.read(url, out);
      ADD_FAILURE() << "was read as " << out.size() << " bytes";
    } catch (const Error& error) {  // versions of libcurl refuse it in different words, or accept it
      EXPECT_SAYS(std::string(error.what()), "cannot read '" + url + "': ");
    }
    EXPECT_EQ(out.capacity(), 0U);
  }
}

TEST_F(HttpServer, GoesOnWhereAConnectionBroke) {
  HttpStorage from = storage();
  EXPECT_TRUE(read(from, at("cut/2/a/file.bin")) == bytes_);
  EXPECT_TRUE(read(from, at("cut/2/b/plain/file.bin")) == bytes_);
  EXPECT_TRUE(read(from, at("cut/2/c/unversioned/file.bin")) == bytes_);
  std::string part(2'000'000, '\0');
  from.read(at("cut/2/d/file.bin"), 500'000, part.size(), reinterpret_cast<std::uint8_t*>(part.data()));
  EXPECT_TRUE(part == bytes_.substr(500'000, part.size()));
  const std::string said = complaint(ErrorKind::unreachable, [&] { read(from, at("cut/1000/e/plain/file.bin")); });
  EXPECT_SAYS(said, "cannot read '" + at("cut/1000/e/plain/file.bin") + "': ");
  EXPECT_SAYS(said, "; gave up after 4 attempts in ");
}

TEST_F(HttpServer, TriesAgainWhatPassesAndNothingElse) {
  HttpStorage from = storage();
  EXPECT_TRUE(read(from, at("status/503/2/a/file.bin")) == bytes_);
  EXPECT_SAYS(complaint(ErrorKind::unreachable, [&] { read(from, at("status/500/0/b/file.bin")); }),
              "HTTP 500; gave up after 4 attempts");
  const int before = server_->requests();
  EXPECT_SAYS(complaint(ErrorKind::data, [&] { read(from, at("nothing")); }),
              "cannot read '" + at("nothing") + "': HTTP 404 (no such file)");
  EXPECT_SAYS(complaint(ErrorKind::data, [&] { from.stat(at("nothing")); }), "cannot access '" + at("nothing") + "': HTTP 404");
  EXPECT_SAYS(complaint(ErrorKind::data, [&] { read(from, at("status/403/0/c/file.bin")); }), "HTTP 403");
  EXPECT_EQ(server_->requests(), before + 3);
}

TEST_F(HttpServer, GivesUpWhenNothingComes) {
  HttpStorage from = storage({{"MILLRACE_HTTP_STALL_TIMEOUT", "0.5"}, {"MILLRACE_HTTP_ATTEMPTS", "2"}});
  put(root() / "small", content(100, 1));
  EXPECT_SAYS(complaint(ErrorKind::unreachable, [&] { read(from, at("slow/small")); }), "stalled: less than 1 kB/s");
  HttpStorage nowhere = storage({{"MILLRACE_HTTP_ATTEMPTS", "2"}});
  EXPECT_SAYS(complaint(ErrorKind::unreachable, [&] { read(nowhere, "http://127.0.0.1:1/x"); }), "; gave up after 2 attempts");
}

// The time limit of http_storage.h, regardless of a single attempt's.
TEST_F(HttpServer, GivesUpAtItsTimeOutWhatNoAttemptBringsOn) {
  HttpStorage from = storage({{"MILLRACE_HTTP_TIMEOUT", "1"}});
  put(root() / "trickle", content(100, 1));
  const auto begin = std::chrono::steady_clock::now();
  const std::string said = complaint(ErrorKind::unreachable, [&] { read(from, at("slow/trickle")); });
  EXPECT_SAYS(said, "too slow: ");
  EXPECT_SAYS(said, "(MILLRACE_HTTP_TIMEOUT is 1 s)");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30)) << "an attempt alone may stall for 60 s";
}

// Names with parts of more than 63 characters are invalid, so no resolver is contacted.
TEST_F(HttpServer, TriesAgainWhenANameIsNotFound) {
  HttpStorage from = storage({{"MILLRACE_HTTP_ATTEMPTS", "3"}});
  const std::string url = "http://" + std::string(70, 'a') + ".invalid/x";
  const std::string said = complaint(ErrorKind::unreachable, [&] { read(from, url); });
  EXPECT_SAYS(said, "cannot read '" + url + "': Could not resolve host");
  EXPECT_SAYS(said, "; gave up after 3 attempts");
}

TEST_F(HttpServer, FollowsFiveRedirects) {
  HttpStorage from = storage();
  EXPECT_TRUE(read(from, at("hops/5/file.bin")) == bytes_);
  EXPECT_EQ(from.stat(at("hops/2/file.bin")).bytes, bytes_.size());
  EXPECT_SAYS(complaint(ErrorKind::storage, [&] { read(from, at("hops/6/file.bin")); }), "HTTP 302, after 5 redirects already");
  EXPECT_SAYS(complaint(ErrorKind::storage, [&] { read(from, at("to/ftp:%2F%2Fhost%2Fx")); }), "redirects to 'ftp://host/x'");
  EXPECT_SAYS(complaint(ErrorKind::storage, [&] { read(from, at("to/file:%2F%2F%2Fetc%2Fpasswd")); }),
              "is not an http or https URL");
  EXPECT_SAYS(complaint(ErrorKind::storage, [&] { read(from, at("to/http:%2F%2F169.254.169.254%2Fx")); }),
              "a redirect may not lead to a link-local address");
  EXPECT_SAYS(complaint(ErrorKind::data, [&] { read(from, at("to/%2Fnothing")); }), ", redirected to '" + at("nothing") + "'");
}

// As when a public address resolves to it. The second exchange reuses the first one's connection.
TEST_F(HttpServer, IsNotAskedInTheNameOfAPublicAddress) {
  web::Http http;
  web::HttpRequest request;
  request.connect = request.stall = web::Milliseconds(5000);
  for (const std::string& host : {std::string("127.0.0.1"), std::string("localhost")}) {
    request.url = "http://" + host + server_->url().substr(server_->url().rfind(':')) + "/file.bin";
    request.nearest = web::Reach::network;
    const web::HttpReply open = http.perform(request);
    EXPECT_EQ(open.head.status, 200) << open.broken;
    EXPECT_EQ(open.from, web::Reach::network);
    const int before = server_->requests();
    request.nearest = web::Reach::world;
    const web::HttpReply refused = http.perform(request);
    EXPECT_EQ(refused.broken, "a redirect from a public address may not lead to one of a private network");
    EXPECT_FALSE(refused.can_recover);
    EXPECT_EQ(server_->requests(), before);
  }
}

TEST_F(HttpServer, TellsAPasswordToTheHostThatItIsForAlone) {
  const std::string home = std::getenv("HOME") ? std::getenv("HOME") : "";  // NOLINT(concurrency-mt-unsafe)
  std::ofstream(root() / ".netrc") << "machine 127.0.0.1 login me password secret\nmachine localhost login me password other\n";
  setenv("HOME", root().c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  HttpStorage from = storage();
  EXPECT_EQ(read(from, at("echo")), "Basic bWU6c2VjcmV0");
  EXPECT_TRUE(read(from, at("private/file.bin")) == bytes_);
  const std::string port = server_->url().substr(server_->url().rfind(':'));
  EXPECT_EQ(read(from, at("to/http:%2F%2Flocalhost" + port + "%2Fecho")), "nobody");
  setenv("HOME", home.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  const std::string said = complaint(ErrorKind::usage, [&] { read(from, "http://me:secret@127.0.0.1/x?signature=y"); });
  EXPECT_SAYS(said, "'http://me:***@127.0.0.1/x?signature=***': a URL with a name or a password in it is refused");
}

TEST_F(HttpServer, IsAProxyWhereTheEnvironmentSaysSo) {
  setenv("http_proxy", server_->url().c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  HttpStorage from = storage();
  EXPECT_TRUE(read(from, "http://some.invalid/file.bin") == bytes_);
  unsetenv("http_proxy");  // NOLINT(concurrency-mt-unsafe)
}

TEST_F(HttpServer, IsTrustedOverTlsOnlyWithItsCertificateAndUnderItsName) {
  const std::string own = (root() / "own.pem").string();
  s3::test::Child openssl({"sh", "-c",
                           "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test "
                           "-addext subjectAltName=IP:127.0.0.1 -keyout '" +
                               own + "' -out '" + own + ".crt' 2>/dev/null && cat '" + own + ".crt' >> '" + own + "'"},
                          {});
  if (openssl.wait() != 0) GTEST_SKIP() << "openssl, which makes a certificate, is not installed (Debian: openssl)";
  const WebServer secure(root(), own);
  HttpStorage stranger = storage();
  const std::string said = complaint(ErrorKind::storage, [&] { read(stranger, secure / "file.bin"); });
  EXPECT_SAYS(said, "cannot read '" + secure / "file.bin" + "': ");
  EXPECT_SAYS(said, "certificate problem");
  EXPECT_SAYS(said, "; CURL_CA_BUNDLE or SSL_CERT_FILE names a file of the certificates to trust");
  EXPECT_EQ(said.find("gave up"), said.npos) << said;  // permanent errors only
  for (const char* variable : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    HttpStorage from = storage({{variable, own + ".crt"}});
    EXPECT_TRUE(read(from, secure / "file.bin") == bytes_) << variable;
    EXPECT_TRUE(read(from, secure / (std::string("cut/1/") + variable + "/file.bin")) == bytes_) << variable;
  }
  HttpStorage from = storage({{"SSL_CERT_FILE", own + ".crt"}});
  const std::string other = "https://localhost" + secure.url().substr(secure.url().rfind(':')) + "/file.bin";
  const std::string refused = complaint(ErrorKind::storage, [&] { read(from, other); });
  EXPECT_SAYS(refused, "cannot read '" + other + "': ");
  EXPECT_SAYS(refused, "certificate subject name");
  EXPECT_EQ(refused.find("gave up"), refused.npos) << refused;
}

TEST_F(HttpServer, HasNoFolders) {
  HttpStorage from = storage();
  EXPECT_EQ(from.kind("https://host/folder/"), Storage::Kind::folder);
  EXPECT_EQ(from.kind("https://host/file"), Storage::Kind::unknown);
  EXPECT_SAYS(complaint(ErrorKind::usage, [&] { from.list("https://host/folder/", [](const Storage::Object&) {}); }),
              "cannot list 'https://host/folder/': a web server has no folders");
  EXPECT_SAYS(complaint(ErrorKind::usage, [&] { from.kind("s3://bucket/x"); }), "expected https://host/name");
}

}  // namespace
}  // namespace millrace::http::test
