#include "server.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <random>
#include <stdexcept>

#include "millrace/sample.h"
#include "millrace/storage.h"
#include "uri.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace millrace::s3::test {

namespace fs = std::filesystem;

Child::Child(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  std::vector<char*> words, settings;
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  std::vector<std::string> own;
  for (const auto& [name, value] : environment) own.push_back(name + "=" + value);
  for (std::string& setting : own) settings.push_back(setting.data());
  for (char** setting = environ; *setting; ++setting) settings.push_back(*setting);
  settings.push_back(nullptr);
  const int error = posix_spawnp(&pid_, words[0], &actions, nullptr, words.data(), settings.data());
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  in_ = in[1];
  out_ = out[0];
  if (error != 0) throw std::runtime_error(arguments[0] + " does not start");
}

Child::~Child() {
  close(in_);
  close(out_);
  wait();
}

int Child::wait() {
  if (pid_ < 0) return -1;
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string Child::read_line() {
  std::string line;
  char c = 0;
  while (::read(out_, &c, 1) == 1 && c != '\n') line += c;
  return line;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "millrace_s3_XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

bool have_python() { return std::string(MILLRACE_PYTHON) != ""; }

namespace {

std::vector<std::string> command(const fs::path& root, int keys_on_a_page, const std::string& certificate) {
  std::vector<std::string> words = {MILLRACE_PYTHON, MILLRACE_SOURCE_DIR "/tests/storage_s3/s3_server.py", root.string(),
                                    "--page", std::to_string(keys_on_a_page)};
  if (!certificate.empty()) words.insert(words.end(), {"--certificate", certificate});
  return words;
}

}  // namespace

Server::Server(const fs::path& root, int keys_on_a_page, const std::string& certificate)
    : child_(command(root, keys_on_a_page, certificate), {{"PYTHONDONTWRITEBYTECODE", "1"}}) {
  const std::string line = child_.read_line();
  if (!line.starts_with("listening on ")) throw std::runtime_error("the test server does not start: " + line);
  url_ = (certificate.empty() ? "http://127.0.0.1:" : "https://127.0.0.1:") + line.substr(13);
  setenv("no_proxy", "127.0.0.1", 1);  // NOLINT(concurrency-mt-unsafe): before there are threads
}

std::string Server::control(const std::string& path) {
  HttpRequest request;
  request.url = url_ + "/control/" + path;
  request.connect = request.stall = request.total = Milliseconds(30'000);
  const HttpReply reply = Http().perform(request);
  if (!reply.broken.empty()) throw std::runtime_error(reply.broken);
  return reply.text;
}

void put(const fs::path& root, const std::string& bucket, const std::string& key, const std::string& content) {
  const fs::path folder = root / bucket;
  fs::create_directories(folder);
  std::ofstream(folder / percent_encode(key), std::ios::binary) << content;
}

std::string content(std::size_t size, unsigned seed) {
  std::minstd_rand random(seed + 1);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() >> 8 & 255);
  return bytes;
}

Environment environment(Variables variables) {
  return [variables = std::move(variables)](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  };
}

Variables variables(const std::string& endpoint) {
  return {{"AWS_ACCESS_KEY_ID", "AKIDTEST"}, {"AWS_SECRET_ACCESS_KEY", "secret/+key"},
          {"AWS_ENDPOINT_URL", endpoint},    {"MILLRACE_S3_TIMEOUT", "8"},
          {"MILLRACE_S3_ATTEMPTS", "4"},     {"MILLRACE_S3_CONNECT_TIMEOUT", "2"},
          {"MILLRACE_S3_STALL_TIMEOUT", "1"}};
}

Variables patient(Variables variables) {
  for (const char* name : {"MILLRACE_S3_TIMEOUT", "MILLRACE_S3_CONNECT_TIMEOUT", "MILLRACE_S3_STALL_TIMEOUT"})
    variables[name] = "60";
  return variables;
}

std::string read_all(Storage& storage, const std::string& url) {
  ByteBuffer bytes;
  storage.read(url, bytes);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace millrace::s3::test
