#include "http.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <iterator>
#include <new>

#include "millrace/error.h"

namespace millrace::web {

namespace {

constexpr std::size_t kLongestHead = 256 << 10;
constexpr std::int64_t kSlowest = 1;  // bytes per millisecond

void check(CURLcode code, const char* what) {
  if (code != CURLE_OK) fail(ErrorKind::run, "libcurl: {}: {}", what, curl_easy_strerror(code));
}

bool is_repeatable(CURLcode code) {
  switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER: return false;
    default: return true;
  }
}

Reach reach_of(std::uint32_t address) {  // IPv4
  struct Block {
    std::uint32_t begin;
    unsigned bits;
  };
  constexpr Block kNear[] = {{0x00000000, 8}, {0x0a000000, 8},  {0x64400000, 10},
                             {0x7f000000, 8}, {0xac100000, 12}, {0xc0a80000, 16}};  // RFC 1918, 1122, 6598
  if (address >> 16U == 0xa9feU) return Reach::link;
  const auto holds = [&](const Block& block) { return address >> (32 - block.bits) == block.begin >> (32 - block.bits); };
  return std::any_of(std::begin(kNear), std::end(kNear), holds) ? Reach::network : Reach::world;
}

Reach reach_of(const in6_addr& address) {
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    std::uint32_t inner = 0;
    std::memcpy(&inner, address.s6_addr + 12, sizeof inner);
    return reach_of(ntohl(inner));
  }
  if (IN6_IS_ADDR_LINKLOCAL(&address)) return Reach::link;
  const bool is_unique_local = (address.s6_addr[0] & 0xfeU) == 0xfcU;  // RFC 4193
  const bool is_near = IN6_IS_ADDR_LOOPBACK(&address) || IN6_IS_ADDR_UNSPECIFIED(&address) || is_unique_local;
  return is_near ? Reach::network : Reach::world;
}

Reach reach_of(const sockaddr& address) {
  if (address.sa_family == AF_INET) return reach_of(ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr));
  if (address.sa_family == AF_INET6) return reach_of(reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  return Reach::network;
}

}  // namespace

std::optional<Reach> reach_of(const std::string& host) {
  const bool is_bracketed = host.starts_with('[') && host.ends_with(']');
  std::string text = is_bracketed ? host.substr(1, host.size() - 2) : host;
  text = text.substr(0, text.find('%'));  // a zone
  in_addr narrow{};
  in6_addr wide{};
  if (::inet_pton(AF_INET, text.c_str(), &narrow) == 1) return reach_of(ntohl(narrow.s_addr));
  if (::inet_pton(AF_INET6, text.c_str(), &wide) == 1) return reach_of(wide);
  return std::nullopt;
}

std::string refused_redirect(Reach to) {
  return to == Reach::link ? "a redirect may not lead to a link-local address"
                           : "a redirect from a public address may not lead to one of a private network";
}

std::string_view HttpHead::header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

// A handle, and the state that curl's callbacks write.
class Http::Transfer {
 public:
  Transfer(CURL* curl, const HttpRequest& request) : curl_(curl), request_(request) {}

  HttpReply run() {
    configure();
    const CURLcode code = curl_easy_perform(curl_);
    if (code == CURLE_OK && !started_) start();  // there was no body
    if (refusal_) std::rethrow_exception(refusal_);
    if (code != CURLE_OK && !is_cut_) explain(code);
    reply_.received = received_;
    if (reply_.broken.empty() && received_ != room_.to.size()) {
      reply_.broken = fmt::format("the body ended after {} of {} bytes", received_, room_.to.size());
    }
    curl_off_t seconds = 0;
    curl_easy_getinfo(curl_, CURLINFO_RETRY_AFTER, &seconds);
    reply_.retry_after = Milliseconds(1000 * std::clamp<curl_off_t>(seconds, 0, 86'400));
    return std::move(reply_);
  }

 private:
  template <class Value>
  void set(CURLoption option, Value value) {
    check(curl_easy_setopt(curl_, option, value), "cannot set an option");
  }

  void configure() {
    set(CURLOPT_URL, request_.url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_PATH_AS_IS, 1L);  // ".." is part of a name
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    if (!request_.authorities.empty()) set(CURLOPT_CAINFO, request_.authorities.c_str());
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_NOBODY, request_.head ? 1L : 0L);
    set(CURLOPT_FOLLOWLOCATION, 0L);  // signatures include the host; and the caller decides about redirects
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request_.connect.count()));
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(request_.total.count()));
#if CURL_AT_LEAST_VERSION(7, 87, 0)
    set(CURLOPT_QUICK_EXIT, static_cast<long>(request_.total.count() > 0));  // otherwise the end waits for a name lookup
#endif
    set(CURLOPT_BUFFERSIZE, 256L << 10);
    set(CURLOPT_USERAGENT, "millrace");
    set(CURLOPT_NETRC, static_cast<long>(request_.use_netrc ? CURL_NETRC_OPTIONAL : CURL_NETRC_IGNORED));
    for (const auto& [name, value] : request_.headers) add_header(name + ": " + value);
    if (!request_.method.empty()) configure_method();
    set(CURLOPT_HTTPHEADER, headers_.get());
    set(CURLOPT_ERRORBUFFER, message_);
    set(CURLOPT_HEADERFUNCTION, &Transfer::on_header);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_WRITEFUNCTION, &Transfer::on_body);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress);
    set(CURLOPT_XFERINFODATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_PREREQFUNCTION, &Transfer::on_connected);
    set(CURLOPT_PREREQDATA, this);
    if (request_.nearest == Reach::link) return;
    set(CURLOPT_OPENSOCKETFUNCTION, &Transfer::on_open);
    set(CURLOPT_OPENSOCKETDATA, this);
  }

  void configure_method() {
    if (request_.method != "DELETE") {
      const auto* body = reinterpret_cast<const char*>(request_.body.data());
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
      set(CURLOPT_POSTFIELDS, request_.body.empty() ? "" : body);
      for (const char* left_out : {"Expect:", "Content-Type:"}) add_header(left_out);  // curl adds these for forms
    }
    set(CURLOPT_CUSTOMREQUEST, request_.method.c_str());
  }

  void add_header(const std::string& line) {
    curl_slist* longer = curl_slist_append(headers_.get(), line.c_str());
    if (!longer) throw std::bad_alloc();
    static_cast<void>(headers_.release());
    headers_.reset(longer);
  }

  void explain(CURLcode code) {
    if (code == CURLE_OUT_OF_MEMORY) throw std::bad_alloc();
    if (!reply_.broken.empty()) return;  // a callback set a better reason
    reply_.broken = message_[0] ? message_ : curl_easy_strerror(code);
    reply_.can_recover = is_repeatable(code);
  }

  // Exceptions must not pass through libcurl.
  template <class Work>
  bool guarded(const Work& work) noexcept {
    try {
      return work();
    } catch (...) {
      refusal_ = std::current_exception();
      return false;
    }
  }

  static std::size_t on_header(char* data, std::size_t, std::size_t size, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    return transfer.guarded([&] { return transfer.header(std::string_view(data, size)); }) ? size : 0;
  }

  bool header(std::string_view line) {
    head_size_ += line.size();
    if (head_size_ > kLongestHead) return give_up("the reply's head is too long");
    if (line.starts_with("HTTP/")) {  // also after a "100 Continue"
      reply_.head = {};
      return true;
    }
    const std::size_t colon = line.find(':');
    if (colon == line.npos) return true;
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && (value.back() == '\n' || value.back() == '\r' || value.back() == ' ')) value.remove_suffix(1);
    while (value.starts_with(' ') || value.starts_with('\t')) value.remove_prefix(1);
    reply_.head.headers[name] = value;
    return true;
  }

  static std::size_t on_body(char* data, std::size_t, std::size_t size, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    return transfer.guarded([&] { return transfer.body(data, size); }) ? size : 0;
  }

  bool body(const char* data, std::size_t size) {
    if (!started_ && !start()) return false;
    if (!placed_) {
      if (reply_.text.size() + size > request_.longest_text) return give_up("the reply is too long");
      reply_.text.append(data, size);
      return true;
    }
    const auto skipped = static_cast<std::size_t>(std::min<std::uint64_t>(room_.skip, size));
    room_.skip -= skipped;
    data += skipped;
    size -= skipped;
    const std::size_t left = room_.to.size() - received_;
    if (size > left && !room_.cut) {
      return give_up(fmt::format("the body is longer than the {} bytes that were announced", room_.to.size()));
    }
    const std::size_t taken = std::min(size, left);
    if (taken > 0) std::memcpy(room_.to.data() + received_, data, taken);
    received_ += taken;
    is_cut_ = room_.cut && room_.skip == 0 && received_ == room_.to.size();
    return !is_cut_;
  }

  bool start() {
    started_ = true;
    long status = 0;
    curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
    reply_.head.status = static_cast<int>(status);
    if (!request_.place || (status != 200 && status != 206)) return true;
    room_ = request_.place(reply_.head);
    placed_ = !room_.is_text;
    return true;
  }

  bool give_up(std::string cause) {
    reply_.broken = std::move(cause);
    return false;
  }

  bool refuses(Reach reach) {
    if (reach >= request_.nearest) return false;
    give_up(refused_redirect(reach));
    reply_.can_recover = false;
    return true;
  }

  // Called with each address of the host.
  static curl_socket_t on_open(void* self, curlsocktype, curl_sockaddr* to) {
    auto& transfer = *static_cast<Transfer*>(self);
    if (transfer.refuses(reach_of(to->addr))) return CURL_SOCKET_BAD;
    return ::socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
  }

  // Called before the request is sent, also on an existing connection.
  static int on_connected(void* self, char* address, char*, int, int) {
    auto& transfer = *static_cast<Transfer*>(self);
    const auto may_go_on = [&] {
      transfer.reply_.from = reach_of(std::string(address)).value_or(Reach::network);
      return !transfer.refuses(transfer.reply_.from);
    };
    return transfer.guarded(may_go_on) ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
  }

  // Called on activity, and once a second.
  static int on_progress(void* self, curl_off_t, curl_off_t received, curl_off_t, curl_off_t sent) {
    auto& transfer = *static_cast<Transfer*>(self);
    const auto goes_on = [&] {
      if (transfer.request_.stop.stop_requested()) return transfer.give_up("given up, as another part of the object failed");
      return !transfer.is_stalled(received + sent) && !transfer.trickles(received + sent);
    };
    return transfer.guarded(goes_on) ? 0 : 1;
  }

  // Checks progress once every `stall`. (curl's own low-speed limit uses an average over only five seconds.)
  bool is_stalled(std::int64_t moved) {
    const auto now = std::chrono::steady_clock::now();
    const auto time = std::chrono::duration_cast<Milliseconds>(now - checked_);
    if (time < request_.stall) return false;
    if (moved - seen_ < kSlowest * time.count()) {
      give_up(fmt::format("stalled: less than 1 kB/s for {:.1f} s", static_cast<double>(time.count()) / 1000));
      return true;
    }
    checked_ = now;
    seen_ = moved;
    return false;
  }

  bool trickles(std::int64_t moved) {
    const auto now = std::chrono::steady_clock::now();
    const auto time = std::chrono::duration_cast<Milliseconds>(now - paced_);
    if (moved - brought_ >= static_cast<std::int64_t>(request_.progress.bytes)) {
      paced_ = now;
      brought_ = moved;
    } else if (request_.progress.time > Milliseconds(0) && time >= request_.progress.time) {
      give_up(fmt::format("too slow: {} bytes in {:.1f} s", moved - brought_, static_cast<double>(time.count()) / 1000));
      return true;
    }
    return false;
  }

  struct FreeList {
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };

  CURL* curl_;
  const HttpRequest& request_;
  HttpReply reply_;
  std::unique_ptr<curl_slist, FreeList> headers_;
  Room room_ = std::span<std::uint8_t>();
  std::size_t received_ = 0, head_size_ = 0;
  std::chrono::steady_clock::time_point checked_ = std::chrono::steady_clock::now();
  std::int64_t seen_ = 0;
  std::chrono::steady_clock::time_point paced_ = checked_;
  std::int64_t brought_ = 0;  // amount moved at that time
  bool started_ = false, placed_ = false, is_cut_ = false;
  std::exception_ptr refusal_;
  char message_[CURL_ERROR_SIZE] = "";
};

// A handle that returns to the idle ones unless dropped.
class Http::Lease {
 public:
  explicit Lease(Http& http) : http_(http) {
    {
      const std::lock_guard lock(http_.mutex_);
      if (!http_.idle_.empty()) {
        curl_ = http_.idle_.back();
        http_.idle_.pop_back();
      }
    }
    if (!curl_) curl_ = curl_easy_init();
    if (!curl_) throw std::bad_alloc();
  }
  ~Lease() {
    if (dropped_) {
      curl_easy_cleanup(curl_);
      return;
    }
    curl_easy_reset(curl_);  // clears the exchange's pointers, keeps the connection
    const std::lock_guard lock(http_.mutex_);
    http_.idle_.push_back(curl_);
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  CURL* curl() const { return curl_; }
  void drop() { dropped_ = true; }

 private:
  Http& http_;
  CURL* curl_ = nullptr;
  bool dropped_ = false;
};

Http::Http() {
  static std::once_flag once;
  std::call_once(once, [] { check(curl_global_init(CURL_GLOBAL_DEFAULT), "cannot start"); });
}

Http::~Http() {
  for (void* curl : idle_) curl_easy_cleanup(curl);
}

HttpReply Http::perform(const HttpRequest& request) {
  Lease lease(*this);
  HttpReply reply = Transfer(lease.curl(), request).run();
  if (!reply.broken.empty()) lease.drop();  // after an unknown host name, libcurl 7.88 ignores buffer sizes
  return reply;
}

}  // namespace millrace::web
