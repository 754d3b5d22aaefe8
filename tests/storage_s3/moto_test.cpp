// Storage "s3" with moto (github.com/getmoto/moto), an independent S3 server that computes signatures with AWS's own Python
// library. Skipped unless MILLRACE_MOTO names the Python that has it:
//
//   python3 -m venv moto && moto/bin/pip install 'moto[server]'
//   MILLRACE_MOTO=$PWD/moto/bin/python build/release/tests/storage_s3_test --gtest_filter='Moto.*'
#include <gtest/gtest.h>
#include <web/http.h>

#include <cstdlib>
#include <thread>

#include "millrace/error.h"
#include "millrace/sample.h"
#include "server.h"

namespace millrace::s3::test {
namespace {

class Moto : public testing::Test {
 protected:
  void SetUp() override {
    const char* python = std::getenv("MILLRACE_MOTO");  // NOLINT(concurrency-mt-unsafe)
    if (!python) GTEST_SKIP() << "MILLRACE_MOTO is not set: it names a python that has moto[server]";
    // Ends with its standard input, as Child requires.
    const std::string serve =
        "import sys, threading, os, logging\n"
        "from moto.server import ThreadedMotoServer\n"
        "logging.getLogger('werkzeug').setLevel(logging.ERROR)\n"
        "server = ThreadedMotoServer('127.0.0.1', 0, verbose=False)\n"
        "server.start()\n"
        "print(server.get_host_and_port()[1], flush=True)\n"
        "sys.stdin.read()\n"
        "os._exit(0)\n";
    server_.emplace(std::vector<std::string>{python, "-c", serve}, std::map<std::string, std::string>{});
    endpoint_ = "http://127.0.0.1:" + server_->read_line();
    Child fill({python, MILLRACE_SOURCE_DIR "/tests/storage_s3/moto_fill.py", endpoint_}, {});
    const std::string line = fill.read_line();
    ASSERT_EQ(fill.wait(), 0) << "moto_fill.py failed";
    settings_ = patient(variables(endpoint_));
    settings_["AWS_ACCESS_KEY_ID"] = line.substr(0, line.find(' '));
    settings_["AWS_SECRET_ACCESS_KEY"] = line.substr(line.find(' ') + 1);
  }

  std::optional<Child> server_;
  std::string endpoint_;
  Variables settings_;
};

TEST_F(Moto, AcceptsOurSignaturesAndNoOthers) {
  settings_["MILLRACE_S3_PART"] = "300000";
  S3 storage(environment(settings_));
  int number = 0;
  storage.list("s3://images/many", [&](const Storage::Object& object) {
    EXPECT_EQ(object.name, fmt::format("{:05d}.bin", number));
    EXPECT_EQ(object.bytes, std::to_string(number).size());
    ++number;
  });
  EXPECT_EQ(number, 1003);

  std::vector<std::string> odd;
  storage.list("s3://images/odd", [&](const Storage::Object& object) { odd.push_back(object.name); });
  EXPECT_EQ(odd.size(), 4U);
  for (const std::string& name : odd) EXPECT_EQ(read_all(storage, "s3://images/odd/" + name), "odd/" + name);

  const std::string large = read_all(storage, "s3://images/large");
  EXPECT_EQ(large.size(), 1'024'000U);
  for (std::size_t i = 0; i < large.size(); ++i) ASSERT_EQ(static_cast<unsigned char>(large[i]), i % 256) << i;
  std::uint8_t part[4];
  storage.read("s3://images/large", 1'000'001, sizeof part, part);
  EXPECT_EQ(part[0], 1'000'001 % 256);
  EXPECT_EQ(read_all(storage, "s3://images/empty"), "");
  EXPECT_EQ(storage.stat("s3://images/large").bytes, 1'024'000U);
  try {
    storage.stat("s3://images/none");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    EXPECT_NE(error.message().find("HTTP 404"), std::string::npos) << error.message();
  }

  settings_["AWS_SECRET_ACCESS_KEY"] += "x";
  S3 wrong(environment(settings_));
  try {
    read_all(wrong, "s3://images/empty");
    ADD_FAILURE() << "moto does not check signatures";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    EXPECT_NE(error.message().find("SignatureDoesNotMatch"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace millrace::s3::test
