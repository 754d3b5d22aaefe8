#include "ranks/socket_group.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/out_of_memory.h"
#include "base/thread_name.h"
#include "millrace/error.h"

namespace millrace {
namespace {

constexpr std::uint32_t kGoodbye = 0xffffffff, kAlive = 0xfffffffe, kLost = 0xfffffffd;  // the group's own channels
constexpr std::size_t kLongestDoing = 200;
constexpr int kSignsInPatience = 6;
constexpr std::chrono::milliseconds kFirstSigns{50};  // until all know this process's activity
constexpr std::chrono::milliseconds kSign{500};       // minimum rate, since others may have less patience
constexpr std::uint64_t kLongestMessage = std::uint64_t{1} << 36U;
constexpr std::size_t kFirstRoom = std::size_t{1} << 20U;  // bytes, for a message without data yet

struct Header {
  std::uint32_t channel = 0;
  std::uint32_t unused = 0;
  std::uint64_t bytes = 0;
};

// The error of an ending process, as sent to others: a digit for the kind, and the text.
std::string as_text(const Error& why) { return fmt::format("{:d}{}", static_cast<int>(why.kind()), why.what()); }
Error as_error(std::string_view text) { return {static_cast<ErrorKind>(text.at(0) - '0'), std::string(text.substr(1))}; }

// Whether every process ends with this error's exit code. A new start would repeat a mistake, a full disk or non-finite values;
// but an unreachable server should be retried, and only one machine may lack memory.
bool is_of_all(const Error& why) {
  const std::string_view text = why.what();
  const bool lacks_memory = text.find(kOutOfMemory) != text.npos || text.find(kNoThread) != text.npos;
  switch (why.kind()) {
    case ErrorKind::usage:
    case ErrorKind::data:
    case ErrorKind::content:
    case ErrorKind::storage:
    case ErrorKind::unreachable: return true;
    case ErrorKind::run: return !lacks_memory;
    default: return false;
  }
}

bool make_room(std::uint64_t bytes, std::vector<std::byte>& message) {
  try {
    message.resize(bytes);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace

// Another process.
struct SocketGroup::Peer {
  int rank = 0, socket = -1;
  Mutex sending;                                                         // one message at a time
  std::map<std::uint32_t, std::deque<std::vector<std::byte>>> messages;  // by channel
  bool ended = false;                                                    // in good order: nothing more will come
  std::string doing;                                                     // its last reported activity
  std::vector<std::vector<std::byte>> spare;                             // recycled memory of taken messages
  std::thread listener;
};

SocketGroup::SocketGroup(Setting setting) : setting_(std::move(setting)) {
  for (int rank = 0; rank < size(); ++rank) {
    auto& peer = peers_.emplace_back();
    if (rank == setting_.rank) continue;
    peer = std::make_unique<Peer>();
    peer->rank = rank;
    peer->socket = setting_.sockets[static_cast<std::size_t>(rank)];
  }
  try {
    for (const auto& peer : peers_) {
      if (peer) peer->listener = std::thread([this, &peer = *peer] { listen(peer); });
    }
    alive_ = std::thread([this] { keep_alive(); });
  } catch (...) {
    const Error error = current_error();
    leave(&error);
    end();
    throw Error(error);
  }
}

SocketGroup::~SocketGroup() {
  leave(nullptr);
  end();
}

void SocketGroup::end() {
  if (alive_.joinable()) alive_.join();
  for (const auto& peer : peers_) {
    if (!peer) continue;
    ::shutdown(peer->socket, SHUT_RDWR);
    if (peer->listener.joinable()) peer->listener.join();
    ::close(peer->socket);
  }
}

void SocketGroup::send(int to, std::uint32_t channel, std::span<const std::byte> bytes) {
  Peer& peer = *peers_[static_cast<std::size_t>(to)];
  {
    const Lock lock(mutex_);
    if (lost_) throw Error(*lost_);
  }
  write(peer, channel, bytes);
  const Lock lock(mutex_);
  if (lost_) throw Error(*lost_);
}

void SocketGroup::receive(int from, std::uint32_t channel, std::vector<std::byte>& into) {
  Peer& peer = *peers_[static_cast<std::size_t>(from)];
  Lock lock(mutex_);
  auto& messages = peer.messages[channel];
  auto waited = setting_.report_interval;
  const auto began = std::chrono::steady_clock::now();
  while (!lost_ && !peer.ended && messages.empty()) {
    if (channel != kRun || !setting_.report) {
      lock.wait(arrived_);
    } else if (!lock.wait_until(arrived_, began + waited)) {
      const std::string text = waiting_text(peer, std::exchange(waited, waited + setting_.report_interval));
      lock.unlock();
      setting_.report(text);
      lock.lock();
    }
  }
  if (messages.empty()) throw lost_ ? *lost_ : Error(ErrorKind::peer, lost_text(peer, "it has ended before the others"));
  std::swap(into, messages.front());
  peer.spare.push_back(std::move(messages.front()));
  messages.pop_front();
}

void SocketGroup::leave(const Error* why) noexcept {
  std::uint32_t channel = kGoodbye;
  std::string text;  // empty: in good order
  {
    const Lock lock(mutex_);
    if (std::exchange(has_left_, true)) return;
    if (why != nullptr) {
      if (lost_) channel = kLost;  // this process ends because of another one, which all should name
      text = as_text(lost_ ? *lost_ : *why);
    }
    if (!lost_) lost_ = Error(ErrorKind::peer, "this process has left the run");
  }
  arrived_.notify_all();
  leaving_.notify_all();
  for (const auto& peer : peers_) {
    if (peer) write(*peer, channel, std::as_bytes(std::span(text)));
  }
}

// Errors count as losing the peer.
void SocketGroup::write(Peer& peer, std::uint32_t channel, std::span<const std::byte> bytes) {
  const Lock lock(peer.sending);
  const Header header{channel, 0, bytes.size()};
  write_now(peer, std::as_bytes(std::span(&header, 1)));
  write_now(peer, bytes);
}

// REQUIRES: the caller holds peer.sending.
void SocketGroup::write_now(Peer& peer, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(peer.socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return await_last_words(peer);
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
}

// Never waits for the peer, since the others would consider this process silent. If the peer's buffer is full, or another message
// is being sent, the peer receives a sign as soon as it reads.
bool SocketGroup::show_life(Peer& peer, const std::string& doing) {
  pollfd ready{peer.socket, POLLOUT, 0};
  if (::poll(&ready, 1, 0) < 1 || !peer.sending.try_lock()) return false;
  const Header header{kAlive, 0, doing.size()};
  std::vector<std::byte> message(sizeof header + doing.size());
  std::memcpy(message.data(), &header, sizeof header);
  std::memcpy(message.data() + sizeof header, doing.data(), doing.size());
  write_now(peer, message);
  peer.sending.unlock();
  return true;
}

bool SocketGroup::read(Peer& peer, void* bytes, std::size_t count) {
  auto* at = static_cast<std::byte*>(bytes);
  for (int missed = 0; count > 0;) {  // signs of life
    pollfd ready{peer.socket, POLLIN, 0};
    const int found = ::poll(&ready, 1, static_cast<int>(setting_.patience.count() / kSignsInPatience));
    if (found < 0 && errno == EINTR) continue;
    if (found == 0) {
      // One by one: while the machine is paused, no process can send, and that counts as one.
      if (++missed < kSignsInPatience) continue;
      lose(peer, fmt::format("it has been silent for {:g} s", static_cast<double>(setting_.patience.count()) / 1e3));
      return false;
    }
    missed = 0;
    const ssize_t got = ::recv(peer.socket, at, count, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      lose(peer, "it is gone");
      return false;
    }
    at += got;
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

void SocketGroup::listen(Peer& peer) {
  name_this_thread("from a peer");
  Header header;
  while (read(peer, &header, sizeof header)) {
    std::vector<std::byte> message;
    {
      const Lock lock(mutex_);
      if (!peer.spare.empty()) {
        message = std::move(peer.spare.back());
        peer.spare.pop_back();
      }
    }
    // Memory grows with received data, not with the announced size.
    bool has_room = header.bytes <= kLongestMessage;
    for (std::size_t got = 0, until = 0; has_room && got < header.bytes; got = until) {
      until = std::min<std::size_t>(header.bytes, std::max({message.size(), 2 * got, kFirstRoom}));
      has_room = message.size() >= until || make_room(until, message);
      if (has_room && !read(peer, message.data() + got, until - got)) return;
    }
    if (!has_room || !make_room(header.bytes, message)) {
      return lose(peer, fmt::format("it announces a message of {} bytes, which is too large", header.bytes));
    }
    const std::string_view text(reinterpret_cast<const char*>(message.data()), message.size());
    if (header.channel == kAlive) {
      const Lock lock(mutex_);
      peer.doing = text.substr(0, kLongestDoing);
      continue;
    }
    if (header.channel == kLost && !text.empty()) return lose_other(peer, as_error(text));
    if (header.channel == kGoodbye) {
      if (!text.empty()) return end_with(peer, as_error(text));
      const Lock lock(mutex_);
      peer.ended = true;
      return arrived_.notify_all();
    }
    const Lock lock(mutex_);
    peer.messages[header.channel].push_back(std::move(message));
    arrived_.notify_all();
  }
}

void SocketGroup::lose(Peer& peer, const std::string& why) {
  {
    const Lock lock(mutex_);
    if (!lost_ && !peer.ended) lost_ = Error(ErrorKind::peer, lost_text(peer, why));
  }
  ::shutdown(peer.socket, SHUT_RDWR);  // ends waiting writers
  arrived_.notify_all();
}

// It accepts nothing more. The listening thread still reads its earlier messages, which may explain why it ends.
void SocketGroup::await_last_words(Peer& peer) {
  ::shutdown(peer.socket, SHUT_RDWR);  // received data can still be read
  Lock lock(mutex_);
  while (!lost_ && !peer.ended) lock.wait(arrived_);
}

void SocketGroup::end_with(Peer& peer, const Error& why) {
  if (!is_of_all(why)) return lose(peer, std::string("it has ended: ") + why.what());
  const bool is_of_sample = why.kind() == ErrorKind::content;  // a bad sample that ended the run
  const Lock lock(mutex_);
  const ErrorKind kind = is_of_sample ? ErrorKind::data : why.kind();
  if (!lost_ && !peer.ended) lost_ = Error(kind, fmt::format("{} has ended: {}", name_of(peer), why.what()));
  arrived_.notify_all();
}

void SocketGroup::lose_other(Peer& by, const Error& why) {
  const Lock lock(mutex_);
  if (!lost_ && !by.ended) {
    lost_ = Error(why.kind(), fmt::format("{} (reported by rank {})", why.what(), by.rank));
  }
  arrived_.notify_all();
}

// "rank 2 of 3 on node-2"
std::string SocketGroup::name_of(const Peer& peer) const {
  return fmt::format("rank {} of {} on {}", peer.rank, size(), setting_.hosts[static_cast<std::size_t>(peer.rank)]);
}

// REQUIRES: the caller holds mutex_.
std::string SocketGroup::lost_text(const Peer& peer, const std::string& why) const {
  return fmt::format("{} is lost: {}{}{}", name_of(peer), why, peer.doing.empty() ? "" : "; its last activity: ", peer.doing);
}

// REQUIRES: the caller holds mutex_.
std::string SocketGroup::waiting_text(const Peer& peer, std::chrono::milliseconds waited) const {
  return fmt::format("rank {} waits for {}, {:g} s{}{}", setting_.rank, name_of(peer), static_cast<double>(waited.count()) / 1e3,
                     peer.doing.empty() ? "" : "; its activity: ", peer.doing);
}

void SocketGroup::keep_alive() {
  name_this_thread("to peers");
  bool all_informed = false;  // this process's activity
  Lock lock(mutex_);
  while (!has_left_) {
    lock.unlock();
    const std::string doing = setting_.doing ? setting_.doing().substr(0, kLongestDoing) : "";
    bool informed_all = !setting_.doing || !doing.empty();
    for (const auto& peer : peers_) {
      if (peer) informed_all = show_life(*peer, doing) && informed_all;
    }
    all_informed = all_informed || informed_all;
    lock.lock();
    // A process lost within its first second should be reported with its activity.
    const auto pause =
        std::min<std::chrono::milliseconds>(setting_.patience / kSignsInPatience, all_informed ? kSign : kFirstSigns);
    const auto next = std::chrono::steady_clock::now() + pause;
    while (!has_left_ && lock.wait_until(leaving_, next)) continue;
  }
}

}  // namespace millrace
