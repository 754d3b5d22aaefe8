// The page as seen by browsers and attackers: over real connections.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "millrace/observer.h"
#include "millrace/plugin.h"
#include "millrace/util/load_plugins.h"
#include "server.h"
#include "testkit/files.h"

namespace millrace::page {
namespace {

namespace fs = std::filesystem;

const Registry& registry() {
  static const Registry one = [] {
    Registry made;
    load_plugin(made, MILLRACE_PLUGINS "/observer_page.so");
    return made;
  }();
  return one;
}

// The page's requests to its run.
class Asked final : public RunControl {
 public:
  void stop() override { add("stop"); }
  void save() override { add("save"); }
  void validate() override { add("validate"); }
  void rate_factor(double factor) override { add(fmt::format("rate {}", factor)); }
  void warn(std::string_view message) override { add("warn " + std::string(message)); }
  void checkpoint() override { add("checkpoint"); }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return fmt::format("{}", fmt::join(words_, ", "));
  }

 private:
  void add(std::string word) {
    const std::lock_guard lock(mutex_);
    words_.push_back(std::move(word));
  }
  mutable std::mutex mutex_;
  std::vector<std::string> words_;
};

class Connection {
 public:
  explicit Connection(int port, int receive_buffer = 0) : file_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) ::setsockopt(file_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    const timeval patience{20, 0};
    ::setsockopt(file_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(file_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { ::close(file_); }
  bool connected() const { return connected_; }

  bool send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = ::send(file_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // Reads until `end` arrives, or the other side closes.
  std::string read_until(std::string_view end) const {
    std::string text;
    char block[4096];
    while (text.find(end) == std::string::npos) {
      const ssize_t got = ::recv(file_, block, sizeof block, 0);
      if (got <= 0) break;
      text.append(block, static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  int file_;
  bool connected_ = false;
};

std::size_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoul(line.substr(6));
  }
  return 0;
}

StepEvent step(std::uint64_t number) {
  StepEvent event;
  event.graph = "train";
  event.epoch = 1;
  event.step = number;
  event.reported = true;
  event.figures = {{"loss", 1.0 / static_cast<double>(number), false, false}};
  return event;
}

class Page : public testing::Test {
 protected:
  void begin() {
    Diagnostics errors;
    observer_ = registry().observers().find("page")->create({}, "[observe.page]", errors);
    ASSERT_EQ(errors.text(), "");
    RunStart start;
    start.name = "</script><script>alert(1)</script>";
    start.graph = "train";
    start.folder = folder_;
    start.steps = 1000;
    testing::internal::CaptureStderr();
    observer_->start(start, asked_);
    url_ = testing::internal::GetCapturedStderr();  // "page: http://127.0.0.1:43210/?open=..."
    const std::size_t colon = url_.rfind(':'), token = url_.find("?open=");
    ASSERT_NE(token, std::string::npos) << url_;
    port_ = std::stoi(url_.substr(colon + 1));
    token_ = url_.substr(token + 6, 32);
    host_ = fmt::format("127.0.0.1:{}", port_);
  }
  void SetUp() override { begin(); }
  void TearDown() override {
    if (observer_) observer_->end({});
  }

  std::string header(const std::string& first, const std::string& more = {}) const {
    return fmt::format("{} HTTP/1.1\r\nHost: {}\r\n{}", first, host_, more);
  }
  // The status, and the whole reply if requested.
  int status(const std::string& request, std::string* reply = nullptr) const {
    const Connection connection(port_);
    connection.send(request);
    const std::string text = connection.read_until("\r\n\r\n");
    if (reply != nullptr) *reply = text + connection.read_until("\xff");
    return text.starts_with("HTTP/1.1 ") ? std::stoi(text.substr(9)) : 0;
  }
  int ask(const std::string& what, const std::string& headers, const std::string& body = {}) const {
    return status(header("POST /ask/" + what,
                         fmt::format("{}Content-Length: {}\r\nConnection: close\r\n\r\n{}", headers, body.size(), body)));
  }
  std::string bearer() const { return fmt::format("Authorization: Bearer {}\r\n", token_); }
  std::string origin() const { return fmt::format("Origin: http://{}\r\n", host_); }

  const testkit::TestFolder own_;
  const fs::path folder_ = own_.path();
  Asked asked_;
  std::shared_ptr<RunObserver> observer_;
  std::string url_, host_, token_;
  int port_ = 0;
};

TEST_F(Page, AsksARunOnlyForWhoHasTheTokenAndIsThisPage) {
  EXPECT_EQ(ask("stop", ""), 403);
  EXPECT_EQ(ask("stop", origin()), 403);
  EXPECT_EQ(ask("stop", bearer()), 403);  // not a browser, which would send its Origin
  EXPECT_EQ(ask("stop", bearer() + "Origin: http://evil.example\r\n"), 403);
  EXPECT_EQ(ask("stop", bearer() + "Origin: null\r\n"), 403);
  EXPECT_EQ(ask("stop", origin() + "Authorization: Bearer " + std::string(32, '0') + "\r\n"), 403);
  EXPECT_EQ(status(header("GET /ask/stop?open=" + token_, "Connection: close\r\n\r\n")), 404);
  EXPECT_EQ(asked_.text(), "");
  for (const char* what : {"save", "validate", "checkpoint", "stop"}) EXPECT_EQ(ask(what, origin() + bearer()), 202);
  EXPECT_EQ(ask("rate_factor", origin() + bearer(), "0.5"), 202);
  EXPECT_EQ(asked_.text(), "save, validate, checkpoint, stop, rate 0.5");
}

TEST_F(Page, RefusesBodiesThatDoNotFit) {
  for (const char* body : {"", "half", "nan", "inf", "-1", "0.5;", " 1", "1e999", "1e300", "1001", "0", "1e-4"}) {
    EXPECT_EQ(ask("rate_factor", origin() + bearer(), body), 400) << body;
  }
  EXPECT_EQ(ask("stop", origin() + bearer(), "x"), 400);
  EXPECT_EQ(ask("reboot", origin() + bearer()), 400);
  EXPECT_EQ(ask("rate_factor", origin() + bearer(), std::string(4096, '1')), 413);
  const std::string chunk = "40\r\n" + std::string(64, '1') + "\r\n";
  std::string endless = header("POST /ask/rate_factor", origin() + bearer() + "Transfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 100; ++i) endless += chunk;
  EXPECT_NE(status(endless), 202);
  EXPECT_EQ(asked_.text(), "");
}

// DNS rebinding: a foreign page whose name was redirected to this machine.
TEST_F(Page, AnswersToNamesOfItsMachineAlone) {
  for (const char* host : {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example", ""}) {
    EXPECT_EQ(status(fmt::format("GET /state HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", host)), 403) << host;
  }
  for (const char* host : {"localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:80"}) {
    EXPECT_EQ(status(fmt::format("GET /state HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", host)), 200) << host;
  }
  EXPECT_EQ(status(header("GET /state", "Origin: http://evil.example\r\nConnection: close\r\n\r\n")), 403);
  EXPECT_EQ(status(header("DELETE /", "Connection: close\r\n\r\n")), 405);
}

TEST_F(Page, EndsARequestWithAMillionHeaders) {
  const Connection connection(port_);
  std::string headers = header("GET /");
  const std::size_t before = resident_kib();
  for (int i = 0; i < 1000 && connection.send(headers); ++i) {
    headers.clear();
    for (int k = 0; k < 1000; ++k) headers += "X-A: 1\r\n";
  }
  EXPECT_TRUE(connection.read_until("\r\n\r\n").find("200 OK") == std::string::npos);
  EXPECT_LT(resident_kib(), before + 4096);
  EXPECT_EQ(status(header("GET /state", "Connection: close\r\n\r\n")), 200);
}

TEST_F(Page, KeepsItsMemoryBesideAThousandConnectionsThatSayNothing) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 4096);
  ::setrlimit(RLIMIT_NOFILE, &files);
  const std::size_t before = resident_kib();
  {
    std::vector<std::unique_ptr<Connection>> idle;
    for (int i = 0; i < 300; ++i) idle.push_back(std::make_unique<Connection>(port_));
    for (int i = 0; i < 700; ++i) {  // beyond the accepted ones, these wait in the kernel or are refused: nothing waits for them
      const int file = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(static_cast<std::uint16_t>(port_));
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      ::connect(file, reinterpret_cast<const sockaddr*>(&to), sizeof to);
      ::close(file);
    }
    for (std::uint64_t i = 1; i <= 1000; ++i) observer_->step(step(i));
    EXPECT_LT(resident_kib(), before + 16 * 1024);
  }
  EXPECT_EQ(status(header("GET /state", "Connection: close\r\n\r\n")), 200);
}

// Without a token: connections that send no complete header block, and those that read no reply.
TEST_F(Page, ConnectionsThatAreSlowKeepNobodyOut) {
  std::vector<std::unique_ptr<Connection>> slow;
  for (int i = 0; i < 400; ++i) {
    slow.push_back(std::make_unique<Connection>(port_, 4096));
    slow.back()->send(i % 2 == 0 ? "GET / HTTP/1.1\r\nHost: localhost\r\nX: " : header("GET /", "\r\n"));
    if (i % 50 == 0) {
      EXPECT_EQ(status(header("GET /state", "Connection: close\r\n\r\n")), 200) << i;
    }
  }
  EXPECT_EQ(status(header("GET /state", "Connection: close\r\n\r\n")), 200);
}

TEST_F(Page, StrangersLeaveRoomForReadersWithTheToken) {
  std::vector<std::unique_ptr<Connection>> readers;
  std::string last;
  for (int i = 0; i < 40; ++i) {
    readers.push_back(std::make_unique<Connection>(port_));
    readers.back()->send(header("GET /events", "\r\n"));
    last = readers.back()->read_until("\r\n\r\n");
  }
  EXPECT_NE(last.find(" 503 "), std::string::npos) << last;
  const Connection owner(port_);
  owner.send(header("GET /events", bearer() + "\r\n"));
  EXPECT_NE(owner.read_until("event: state").find("event: state"), std::string::npos);
}

TEST_F(Page, TellsEverybodyThatTheRunIsAlive) {
  std::string reply;
  EXPECT_EQ(status("GET /healthz HTTP/1.1\r\nHost: 10.0.0.7.evil.example\r\nConnection: close\r\n\r\n", &reply), 200);
  EXPECT_NE(reply.find("\r\n\r\nalive\n"), std::string::npos) << reply;
  EXPECT_EQ(status("POST /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), 403);
}

TEST_F(Page, AReaderThatDoesNotReadHoldsNobodyUp) {
  const Connection sleeper(port_, 4096), reader(port_);
  sleeper.send(header("GET /events", "\r\n"));
  reader.send(header("GET /events", "\r\n"));
  EXPECT_NE(reader.read_until("event: state").find("text/event-stream"), std::string::npos);
  const std::size_t before = resident_kib();
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t i = 1; i <= 100'000; ++i) observer_->step(step(i));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_NE(reader.read_until("[100000,").find("event: change"), std::string::npos);
  EXPECT_LT(resident_kib(), before + 8 * 1024);
  std::string late;
  status(header("GET /state", "Connection: close\r\n\r\n"), &late);
  EXPECT_LT(late.size(), 100'000U);  // late connections get no more than others
  EXPECT_NE(late.find("[100000,"), std::string::npos);
}

TEST_F(Page, TellsItsReadersThatTheRunHasEnded) {
  const Connection reader(port_);
  reader.send(header("GET /events", "\r\n"));
  reader.read_until("event: state");
  RunEnd end;
  end.step = 7;
  end.stopped = true;
  observer_->end(end);
  const std::string last = reader.read_until("event: end");
  EXPECT_NE(last.find("\"stopped\":true"), std::string::npos) << last;
  EXPECT_NE(last.find("event: end"), std::string::npos) << last;
  observer_ = nullptr;
  EXPECT_FALSE(Connection(port_).connected());
}

TEST_F(Page, KeepsTheReportWhereItsPortIsTaken) {
  Diagnostics errors;
  const auto second =
      registry().observers().find("page")->create(Value(Table{{"address", {}, Value(host_)}}), "[observe.page]", errors);
  const testkit::TestFolder own;
  RunStart start;
  start.folder = own.path();
  second->start(start, asked_);
  EXPECT_EQ(asked_.text(), fmt::format("warn the page is not served, and report.html is written: cannot listen at {}: "
                                       "Address already in use",
                                       host_));
  second->end({});
  EXPECT_TRUE(fs::exists(own.path() / "report.html"));
}

TEST_F(Page, ServesPicturesOfTheRunAndNothingElse) {
  std::ofstream(folder_ / "results.svg") << "<svg xmlns='http://www.w3.org/2000/svg'/>";
  std::ofstream(folder_ / "secret.txt") << "secret";
  fs::create_symlink("secret.txt", folder_ / "link.png");
  observer_->pass({});  // pictures are looked for
  std::string reply;
  EXPECT_EQ(status(header("GET /pictures/results.svg", "Connection: close\r\n\r\n"), &reply), 200);
  EXPECT_NE(reply.find("sandbox"), std::string::npos) << reply;  // its scripts do not run
  for (const char* name : {"link.png", "secret.txt", "../results.svg", "..%2fresults.svg", "%2fetc%2fpasswd", ""}) {
    EXPECT_EQ(status(header(fmt::format("GET /pictures/{}", name), "Connection: close\r\n\r\n")), 404) << name;
  }
}

// This run's name would end the element that contains its data.
TEST_F(Page, IsKeptInTheRunsFolderWithHostileNamesInside) {
  observer_->step(step(1));
  observer_->end({});
  observer_ = nullptr;
  std::ifstream file(folder_ / "report.html");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(text.find("<script>alert"), std::string::npos);
  const std::string mark = "id=\"state-kept\">";
  const std::size_t from = text.find(mark) + mark.size();
  const nlohmann::json state = nlohmann::json::parse(text.substr(from, text.find("</script>", from) - from));
  EXPECT_EQ(state["run"]["name"], "</script><script>alert(1)</script>");
  const auto loss = std::ranges::find(state["curves"], "train.loss", [](const nlohmann::json& curve) { return curve["name"]; });
  ASSERT_NE(loss, state["curves"].end());
  EXPECT_EQ((*loss)["points"][0][1], 1);
  for (const char* outside : {"src=\"http", "href=\"http", "url(http", "@import"})
    EXPECT_EQ(text.find(outside), std::string::npos) << outside;
}

TEST_F(Page, ShowsFiguresToPrometheus) {
  std::string reply;
  EXPECT_EQ(status(header("GET /metrics", "Connection: close\r\n\r\n"), &reply), 200);
  EXPECT_NE(reply.find("millrace_running"), std::string::npos) << reply;
}

// A server without a run.
class PageServer : public testing::Test {
 protected:
  PageServer() {
    source_.snapshot = [this] {
      if (fails_) throw std::bad_alloc();
      return fmt::format(R"({{"version":{},"long":"{}"}})", version_.load(), std::string(std::size_t{4} << 20, 'x'));
    };
    source_.metrics = [] { return std::string("fine"); };
    source_.pictures = [] { return std::vector<Picture>(); };
    source_.changes = [this]() -> std::string {
      if (breaks_) throw std::runtime_error("the changes are broken");
      return "{}";
    };
    source_.ask = [](std::string_view, std::string_view) { return false; };
    source_.trouble = [this] { return std::string(is_stuck_ ? "stuck" : ""); };
    source_.warn = [this](std::string_view text) {
      const std::lock_guard lock(mutex_);
      warning_ = text;
    };
    server_ = std::make_unique<Server>(Server::Setting(), source_);
    const std::string url = server_->url();
    port_ = std::stoi(url.substr(url.rfind(':') + 1));
  }
  static void ask(const Connection& connection, const char* path) {
    connection.send(fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path));
  }
  std::string reply(const char* path, const char* until = "\xff") const {
    const Connection connection(port_, 4096);
    ask(connection, path);
    return connection.read_until(until);
  }
  std::string warning() const {
    const std::lock_guard lock(mutex_);
    return warning_;
  }

  std::atomic<bool> fails_ = false, breaks_ = false, is_stuck_ = false;
  std::atomic<int> version_ = 1;
  int port_ = 0;

 private:
  mutable std::mutex mutex_;
  std::string warning_;
  Server::Source source_;
  std::unique_ptr<Server> server_;  // last: it uses all of the above
};

// Only the server itself catches exceptions on its thread: any other would end the training.
TEST_F(PageServer, OutlivesWhatFailsInIt) {
  fails_ = true;
  EXPECT_EQ(reply("/state"), "");
  EXPECT_EQ(reply("/events").find("event: state"), std::string::npos);
  EXPECT_NE(reply("/metrics").find("fine"), std::string::npos);
  fails_ = false;
  const Connection reader(port_);
  ask(reader, "/events");
  EXPECT_NE(reader.read_until("event: state").find("event: state"), std::string::npos);
  breaks_ = true;
  reader.read_until("\xff");  // until the server closes
  EXPECT_NE(warning().find(" was closed, and the run continues: the changes are broken"), std::string::npos) << warning();
}

TEST_F(PageServer, TellsThatARunIsStuck) {
  EXPECT_EQ(reply("/healthz").find("HTTP/1.1 200 "), 0U);
  is_stuck_ = true;
  const std::string stuck = reply("/healthz");
  EXPECT_EQ(stuck.find("HTTP/1.1 503 "), 0U) << stuck;
  EXPECT_NE(stuck.find("\r\n\r\nstuck\n"), std::string::npos) << stuck;
}

TEST_F(PageServer, GivesANewReaderTheStateOfNow) {
  EXPECT_NE(reply("/events", "\"version\":1").find("\"version\":1"), std::string::npos);  // and leaves in the middle of it
  EXPECT_NE(reply("/metrics").find("fine"), std::string::npos);                           // noticed by now
  version_ = 2;
  EXPECT_NE(reply("/events", "\"version\":").find("\"version\":2"), std::string::npos);
}

TEST(PageAddress, IsReadBeforeARunBegins) {
  const auto said = [](const char* address) {
    Diagnostics errors;
    try {
      registry().observers().find("page")->create(Value(Table{{"address", {}, Value(address)}}), "[observe.page]", errors);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return errors.text();
  };
  EXPECT_EQ(said("[::1]:0"), "");
  EXPECT_EQ(said(""), "");
  for (const char* wrong : {"8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "example.org:80", ":80"}) {
    EXPECT_NE(said(wrong).find("expected ADDRESS:PORT"), std::string::npos) << wrong << ": " << said(wrong);
  }
}

}  // namespace
}  // namespace millrace::page
