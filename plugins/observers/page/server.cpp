#include "server.h"

#include <fmt/format.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <list>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "access.h"
#include "address.h"
#include "document.h"
#include "millrace/error.h"
#include "millrace/util/prometheus.h"
#include "pictures.h"

namespace millrace::page {
namespace {

using Clock = std::chrono::steady_clock;
using Text = std::shared_ptr<const std::string>;

constexpr auto kChangePeriod = std::chrono::milliseconds(200);
constexpr auto kSignOfLife = std::chrono::seconds(5);  // after the last change; detects closed listeners
constexpr auto kGoodbye = std::chrono::milliseconds(500);
constexpr std::size_t kMaxChanges = 64;                            // that a slow listener may lag behind
constexpr std::size_t kMaxListeners = 32, kMaxWithoutToken = 16;  // kMaxWithoutToken is a part of kMaxListeners
constexpr std::size_t kMaxBody = 64;                               // bytes
constexpr unsigned kMaxConnections = 256;
constexpr std::size_t kMaxOpen = 128;  // connections that are not listeners; a new one closes the oldest
constexpr unsigned kIdleSeconds = 15;
constexpr auto kHeaderTime = std::chrono::seconds(10);            // for the whole header block, however slowly it arrives
constexpr std::size_t kConnectionMemory = std::size_t{16} << 10;  // headers must fit
constexpr std::size_t kBlock = std::size_t{16} << 10;

// Not "token": messages hide values with that name (standard_error.h), and this one must stay visible.
constexpr const char* kTokenName = "open";
constexpr std::string_view kHealth = "/healthz";
constexpr const char* kPlain = "text/plain; charset=utf-8";
constexpr const char* kNothing = "default-src 'none'; sandbox";
constexpr const char* kPictureOnly = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

constexpr std::string_view kData = "\ndata: ", kEventEnd = "\n\n";

Text event(std::string_view name, std::string_view json) {
  return std::make_shared<const std::string>(fmt::format("event: {}{}{}{}", name, kData, json, kEventEnd));
}

// The JSON of an event.
std::string_view data_of(std::string_view event) {
  event.remove_prefix(event.find(kData) + kData.size());
  event.remove_suffix(kEventEnd.size());
  return event;
}

std::string_view text_or_empty(const char* text) { return text == nullptr ? std::string_view() : text; }

// libmicrohttpd is C and calls back into this file: no exception may pass through it. On failure returns `otherwise`, which
// closes the connection.
template <class F>
auto guarded(std::invoke_result_t<const F&> otherwise, const F& f) noexcept {
  try {
    return f();
  } catch (...) {
    return otherwise;
  }
}

// The state of one request while its body arrives.
struct Request {
  std::string body;
};

// libmicrohttpd detects this and ends the connection.
void close_connection(MHD_Connection* connection) {
  const auto* const info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  if (info != nullptr) ::shutdown(info->connect_fd, SHUT_RDWR);
}

// Empty if the request has no such header.
std::string_view header(MHD_Connection* connection, const char* name) {
  return text_or_empty(MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name));
}

std::string_view token_of(MHD_Connection* connection) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view authorization = header(connection, "Authorization");
  if (authorization.starts_with(kBearer)) return authorization.substr(kBearer.size());
  return text_or_empty(MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, kTokenName));
}

std::string name_for_others() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 && name[0] != 0 ? name.data() : "localhost";
}

}  // namespace

// Everything except begin and end runs on one thread, which also drives libmicrohttpd: so nothing here is locked.
class Server::Loop {
 public:
  Loop(const Setting& setting, Source source);
  ~Loop();
  std::string url() const;
  void close();

 private:
  // A reader of /events. Suspended when it has read everything.
  struct Listener {
    Loop* loop = nullptr;
    MHD_Connection* connection = nullptr;
    Text text;               // being read now
    std::size_t offset = 0;  // bytes of it already read
    std::uint64_t next = 0;  // next change
    bool has_state = false, suspended = false;
  };

  // A connection that is not a listener, in order of the last state change.
  struct Open {
    MHD_Connection* connection = nullptr;
    Clock::time_point since;  // when it was accepted, its headers were complete, or its reply was sent
    bool awaits_headers = true;
  };

  void run();
  void serve();
  void note(MHD_Connection* connection, bool awaits_headers);
  void forget(MHD_Connection* connection);
  void close_slow();
  void leave();
  void wait();
  void tell_changes();
  void append(Text change);
  void wake_listeners();
  Text next_text(Listener& listener);
  Text state();
  ssize_t read(Listener& listener, char* to, std::size_t most);

  MHD_Result handle(MHD_Connection* connection, std::string_view url, std::string_view method, Request& request);
  MHD_Result begin(MHD_Connection* connection, std::string_view url, std::string_view method);
  MHD_Result get(MHD_Connection* connection, std::string_view url);
  MHD_Result send_health(MHD_Connection* connection);
  MHD_Result send_state(MHD_Connection* connection);
  MHD_Result listen(MHD_Connection* connection);
  MHD_Result send_page(MHD_Connection* connection);
  MHD_Result send_picture(MHD_Connection* connection, std::string_view name);
  MHD_Result send(MHD_Connection* connection, unsigned status, std::string_view text, const char* type = kPlain,
                  const char* policy = kNothing);
  static MHD_Result queue(MHD_Connection* connection, unsigned status, MHD_Response* response, const char* type,
                          const char* policy);
  void start_daemon();

  Source source_;
  Address address_;
  const int socket_, wake_;
  const Access access_;
  MHD_Daemon* daemon_ = nullptr;
  std::list<Listener> listeners_;
  std::list<Open> open_;
  std::deque<Text> changes_;
  std::uint64_t first_change_ = 0;  // the number of changes_.front()
  Text state_;                      // made when `state_change_` was the next change, at `state_time_`
  std::uint64_t state_change_ = 0;
  Clock::time_point state_time_;
  Clock::time_point sent_ = Clock::now(), changed_ = Clock::now();
  bool ended_ = false;  // no more changes follow
  std::atomic<bool> closing_{false};
  std::thread thread_;  // last: it uses all of the above
};

namespace {

Address address_of(const Server::Setting& setting) { return read_address("observe.page.address", setting.address); }

}  // namespace

Server::Loop::Loop(const Setting& setting, Source source)
    : source_(std::move(source)),
      address_(address_of(setting)),
      socket_(listen_at(address_)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      access_({.loopback = address_.is_loopback(), .names = setting.hosts, .token = random_token()}) {
  start_daemon();
  thread_ = std::thread([this] { run(); });
}

void Server::Loop::start_daemon() {
  const auto on_request = [](void* self, MHD_Connection* connection, const char* url, const char* method, const char*,
                             const char* data, std::size_t* bytes, void** request) -> MHD_Result {
    return guarded(MHD_NO, [&] {
      auto* const loop = static_cast<Loop*>(self);
      if (*request == nullptr) {
        *request = new Request;
        return loop->begin(connection, url, method);
      }
      auto& asked = *static_cast<Request*>(*request);
      if (*bytes == 0) return loop->handle(connection, url, method, asked);
      if (asked.body.size() + *bytes > kMaxBody) return MHD_NO;  // the connection is closed
      asked.body.append(data, std::exchange(*bytes, 0));
      return MHD_YES;
    });
  };
  const auto on_end = [](void* self, MHD_Connection* connection, void** request, MHD_RequestTerminationCode) {
    delete static_cast<Request*>(std::exchange(*request, nullptr));
    guarded(false, [&] { return static_cast<Loop*>(self)->note(connection, true), true; });
  };
  const auto on_connection = [](void* self, MHD_Connection* connection, void**, MHD_ConnectionNotificationCode what) {
    auto* const loop = static_cast<Loop*>(self);
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) return loop->forget(connection);
    guarded(false, [&] { return loop->note(connection, true), true; });
  };
  const auto silent = [](void*, const char*, va_list) {};
  daemon_ = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, nullptr, nullptr, +on_request, this,
                             MHD_OPTION_EXTERNAL_LOGGER, +silent, nullptr, MHD_OPTION_LISTEN_SOCKET, socket_,
                             MHD_OPTION_CONNECTION_LIMIT, kMaxConnections, MHD_OPTION_CONNECTION_TIMEOUT, kIdleSeconds,
                             MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionMemory, MHD_OPTION_NOTIFY_COMPLETED, +on_end, this,
                             MHD_OPTION_NOTIFY_CONNECTION, +on_connection, this, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
  if (daemon_ == nullptr) {
    ::close(socket_);
    ::close(wake_);
    fail(ErrorKind::run, "cannot start the page's server at {}", address_.text());
  }
}

Server::Loop::~Loop() {
  close();
  ::close(wake_);
}

void Server::Loop::close() {
  if (!thread_.joinable()) return;
  closing_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t woken = ::write(wake_, &one, sizeof one);
  thread_.join();
}

std::string Server::Loop::url() const {
  Address shown = address_;
  if (!shown.is_any()) return fmt::format("http://{}/?{}={}", shown.text(), kTokenName, access_.token());
  return fmt::format("http://{}:{}/?{}={}", name_for_others(), shown.port, kTokenName, access_.token());
}

// A failure here ends the page, not the run.
void Server::Loop::run() {
  ::pthread_setname_np(::pthread_self(), "page server");
  try {
    serve();
  } catch (...) {
    guarded(false, [this] {
      source_.warn(fmt::format("the page at {} was closed, and the run continues: {}", address_.text(), current_error().what()));
      return true;
    });
  }
  ended_ = true;  // listeners that have read everything are no longer suspended
  leave();
}

void Server::Loop::serve() {
  std::optional<Clock::time_point> until;
  while (!until || (Clock::now() < *until && !listeners_.empty())) {
    wait();
    if (!until && closing_) {
      until = Clock::now() + kGoodbye;
      sent_ = Clock::time_point();
      tell_changes();
      append(event("end", "{}"));
      ended_ = true;
    } else if (!until && Clock::now() - sent_ >= kChangePeriod) {
      tell_changes();
    }
    wake_listeners();
    close_slow();
    MHD_run(daemon_);
  }
}

// New connections are accepted: waiting or slow ones must not keep the run's owner out.
void Server::Loop::note(MHD_Connection* connection, bool awaits_headers) {
  forget(connection);
  open_.push_back({connection, Clock::now(), awaits_headers});
  if (open_.size() > kMaxOpen) close_connection(open_.front().connection), open_.pop_front();
}

void Server::Loop::forget(MHD_Connection* connection) {
  open_.remove_if([&](const Open& each) { return each.connection == connection; });
}

void Server::Loop::close_slow() {
  const Clock::time_point now = Clock::now();
  open_.remove_if([&](const Open& each) {
    const bool is_slow = each.awaits_headers && now - each.since >= kHeaderTime;
    if (is_slow) close_connection(each.connection);
    return is_slow;
  });
}

void Server::Loop::leave() {
  ::close(MHD_quiesce_daemon(daemon_));  // frees the socket
  for (Listener& listener : listeners_) {
    if (std::exchange(listener.suspended, false)) MHD_resume_connection(listener.connection);
  }
  MHD_run(daemon_);
  MHD_stop_daemon(daemon_);
}

// Waits for a request, the next change or close().
void Server::Loop::wait() {
  const auto due = std::chrono::duration_cast<std::chrono::milliseconds>(sent_ + kChangePeriod - Clock::now()).count();
  auto patience = listeners_.empty() ? 1000 : std::max<std::int64_t>(due + 1, 0);
  MHD_UNSIGNED_LONG_LONG next = 0;
  if (MHD_get_timeout(daemon_, &next) == MHD_YES) patience = std::min(patience, static_cast<std::int64_t>(next));
  const MHD_DaemonInfo* const info = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD);
  std::array<pollfd, 2> files = {pollfd{info->epoll_fd, POLLIN, 0}, pollfd{wake_, POLLIN, 0}};
  ::poll(files.data(), files.size(), static_cast<int>(patience));
}

void Server::Loop::tell_changes() {
  sent_ = Clock::now();
  if (listeners_.empty()) return;
  const std::string changes = source_.changes();
  if (changes != "{}") {
    append(event("change", changes));
  } else if (sent_ - changed_ >= kSignOfLife) {
    append(event("alive", "0"));
  }
}

void Server::Loop::append(Text change) {
  changed_ = Clock::now();
  changes_.push_back(std::move(change));
  if (changes_.size() <= kMaxChanges) return;
  changes_.pop_front();
  ++first_change_;
}

void Server::Loop::wake_listeners() {
  const std::uint64_t end = first_change_ + changes_.size();
  for (Listener& listener : listeners_) {
    if (listener.next < end && std::exchange(listener.suspended, false)) MHD_resume_connection(listener.connection);
  }
}

// All requests between two changes share one text. Without a listener no change comes, so an old text is renewed.
Text Server::Loop::state() {
  const std::uint64_t next = first_change_ + changes_.size();
  const Clock::time_point now = Clock::now();
  if (!state_ || state_change_ != next || now - state_time_ >= kChangePeriod) {
    state_ = event("state", source_.snapshot());
    state_change_ = next;
    state_time_ = now;
  }
  return state_;
}

// Null if it has read everything.
Text Server::Loop::next_text(Listener& listener) {
  if (!listener.has_state || listener.next < first_change_) {
    listener.has_state = true;
    listener.next = first_change_ + changes_.size();
    return state();
  }
  const auto place = static_cast<std::size_t>(listener.next - first_change_);
  if (place >= changes_.size()) return nullptr;
  ++listener.next;
  return changes_[place];
}

ssize_t Server::Loop::read(Listener& listener, char* to, std::size_t most) {
  if (!listener.text || listener.offset == listener.text->size()) {
    listener.text = next_text(listener);
    listener.offset = 0;
  }
  if (!listener.text) {
    if (ended_) return MHD_CONTENT_READER_END_OF_STREAM;
    listener.suspended = true;
    MHD_suspend_connection(listener.connection);
    return 0;
  }
  const std::size_t bytes = listener.text->copy(to, most, listener.offset);
  listener.offset += bytes;
  return static_cast<ssize_t>(bytes);
}

// Called when the headers are complete. Refusals come before the body is read.
MHD_Result Server::Loop::begin(MHD_Connection* connection, std::string_view url, std::string_view method) {
  note(connection, false);
  const Claims claims{.host = header(connection, "Host"), .origin = header(connection, "Origin"), .token = token_of(connection)};
  const bool asks = method == "POST";
  if (!asks && method != "GET" && method != "HEAD") {
    return send(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET, HEAD and POST are supported\n");
  }
  if (!asks && url == kHealth) return MHD_YES;  // reveals nothing confidential about the run
  if (const std::string refusal = access_.refusal(claims, asks); !refusal.empty()) {
    return send(connection, MHD_HTTP_FORBIDDEN, refusal + "\n");
  }
  if (asks && !url.starts_with("/ask/")) return send(connection, MHD_HTTP_NOT_FOUND, "this address accepts no requests\n");
  if (header(connection, "Content-Length").size() > 2) {
    return send(connection, MHD_HTTP_CONTENT_TOO_LARGE, "the body is too long\n");
  }
  return MHD_YES;
}

MHD_Result Server::Loop::handle(MHD_Connection* connection, std::string_view url, std::string_view method, Request& request) {
  if (method != "POST") return get(connection, url);
  const std::string_view what = url.substr(std::string_view("/ask/").size());
  if (source_.ask(what, request.body)) return send(connection, MHD_HTTP_ACCEPTED, "asked\n");
  return send(
      connection, MHD_HTTP_BAD_REQUEST,
      "expected /ask/stop, /ask/validate, /ask/save or /ask/checkpoint without a body, or /ask/rate_factor with a number from "
      "0.001 to 1000\n");
}

MHD_Result Server::Loop::get(MHD_Connection* connection, std::string_view url) {
  constexpr std::string_view kPictures = "/pictures/";
  if (url == "/") return send_page(connection);
  if (url == "/events") return listen(connection);
  if (url == "/state") return send_state(connection);
  if (url == kHealth) return send_health(connection);
  if (url == "/metrics") return send(connection, MHD_HTTP_OK, source_.metrics(), kPrometheusType.data());
  if (url.starts_with(kPictures)) return send_picture(connection, url.substr(kPictures.size()));
  return send(connection, MHD_HTTP_NOT_FOUND, "page not found\n");
}

MHD_Result Server::Loop::listen(MHD_Connection* connection) {
  const bool has_token = access_.has_token(token_of(connection));  // others leave room for those with the token
  if (listeners_.size() >= (has_token ? kMaxListeners : kMaxWithoutToken)) {
    return send(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "too many pages are open for this run\n");
  }
  if (listeners_.empty()) {  // changes until now are dropped, so the state must be made after them
    source_.changes();
    state_.reset();
  }
  Listener& listener = listeners_.emplace_back();
  listener.loop = this;
  listener.connection = connection;
  const auto read = [](void* self, std::uint64_t, char* to, std::size_t most) -> ssize_t {
    auto& who = *static_cast<Listener*>(self);
    return guarded(ssize_t{MHD_CONTENT_READER_END_WITH_ERROR}, [&] { return who.loop->read(who, to, most); });
  };
  const auto on_close = [](void* self) {
    auto& who = *static_cast<Listener*>(self);
    who.loop->listeners_.remove_if([&](const Listener& each) { return &each == &who; });
  };
  MHD_Response* const response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, kBlock, +read, &listener, +on_close);
  if (response == nullptr) {
    listeners_.pop_back();
    return MHD_NO;
  }
  forget(connection);
  return queue(connection, MHD_HTTP_OK, response, "text/event-stream", kNothing);
}

MHD_Result Server::Loop::send_health(MHD_Connection* connection) {
  const std::string trouble = source_.trouble();
  if (trouble.empty()) return send(connection, MHD_HTTP_OK, "alive\n");
  return send(connection, MHD_HTTP_SERVICE_UNAVAILABLE, trouble + "\n");
}

// The JSON of the event, shared by all connections without copies.
MHD_Result Server::Loop::send_state(MHD_Connection* connection) {
  auto shared = std::make_unique<Text>(state());
  const std::string_view json = data_of(**shared);
  MHD_Response* const response = MHD_create_response_from_buffer_with_free_callback_cls(
      json.size(), const_cast<char*>(json.data()),  // NOLINT: it is only read
      [](void* held) { delete static_cast<Text*>(held); }, shared.get());
  if (response == nullptr) return MHD_NO;
  shared.release();  // now owned by the response
  return queue(connection, MHD_HTTP_OK, response, "application/json", kNothing);
}

MHD_Result Server::Loop::send_page(MHD_Connection* connection) {
  const std::string nonce = random_token();
  return send(connection, MHD_HTTP_OK, live_document(nonce), "text/html; charset=utf-8", policy_of(nonce).c_str());
}

MHD_Result Server::Loop::send_picture(MHD_Connection* connection, std::string_view name) {
  const std::vector<Picture> pictures = source_.pictures();
  const auto picture = std::ranges::find(pictures, name, &Picture::name);
  const int file = picture == pictures.end() ? -1 : open_picture(source_.folder, *picture);
  if (file < 0) return send(connection, MHD_HTTP_NOT_FOUND, "the run's folder has no such picture\n");
  struct stat status {};
  ::fstat(file, &status);
  MHD_Response* const response = MHD_create_response_from_fd(static_cast<std::size_t>(status.st_size), file);  // closes it
  if (response != nullptr) return queue(connection, MHD_HTTP_OK, response, content_type(*picture), kPictureOnly);
  ::close(file);
  return MHD_NO;
}

MHD_Result Server::Loop::send(MHD_Connection* connection, unsigned status, std::string_view text, const char* type,
                              const char* policy) {
  MHD_Response* const response = MHD_create_response_from_buffer(text.size(), const_cast<char*>(text.data()),
                                                                 MHD_RESPMEM_MUST_COPY);  // NOLINT: it is copied
  return response == nullptr ? MHD_NO : queue(connection, status, response, type, policy);
}

MHD_Result Server::Loop::queue(MHD_Connection* connection, unsigned status, MHD_Response* response, const char* type,
                               const char* policy) {
  for (const auto& [name, value] : {std::pair{"Content-Type", type},
                                    {"Content-Security-Policy", policy},
                                    {"X-Content-Type-Options", "nosniff"},
                                    {"X-Frame-Options", "DENY"},
                                    {"Referrer-Policy", "no-referrer"},
                                    {"Cross-Origin-Resource-Policy", "same-origin"},
                                    {"Cache-Control", "no-store"}}) {
    MHD_add_response_header(response, name, value);
  }
  const MHD_Result queued = MHD_queue_response(connection, status, response);
  MHD_destroy_response(response);
  return queued;
}

Server::Server(const Setting& setting, Source source) : loop_(std::make_unique<Loop>(setting, std::move(source))) {}
Server::~Server() = default;
std::string Server::url() const { return loop_->url(); }
void Server::close() { loop_->close(); }

}  // namespace millrace::page
