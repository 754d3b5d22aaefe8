#include "ranks/handshake.h"

#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "millrace/error.h"
#include "millrace/util/bytes.h"

namespace millrace {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kVisit{5};  // for a visitor's introduction

struct Challenge {
  Nonce nonce = {};
  Sha256Sum proof = {};
};

template <std::size_t N>
void fill_randomly(std::array<std::uint8_t, N>& bytes) {
  if (::getentropy(bytes.data(), bytes.size()) != 0)
    fail(ErrorKind::run, "the system gives no random numbers: {}", std::strerror(errno));
}

bool is_equal(const Sha256Sum& left, const Sha256Sum& right) {  // in constant time, so that timing reveals nothing
  unsigned different = 0;
  for (std::size_t i = 0; i < left.size(); ++i) different |= static_cast<unsigned>(left[i] ^ right[i]);
  return different == 0;
}

template <class T>
std::string_view raw_bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// `who` differs between the ends, so that a proof cannot be reflected.
Sha256Sum proof_of(const JobKey& key, std::string_view who, const Introduction& introduction, const Nonce& nonce) {
  std::string text(who);
  text += raw_bytes(introduction);
  text += raw_bytes(nonce);
  return hmac(key, text);
}

constexpr const char *kConnects = "who connects", *kListens = "who listens";

}  // namespace

JobKey job_key(std::string_view text) { return sha256(text); }

std::string random_key() {
  Nonce bytes;
  fill_randomly(bytes);
  return hex_text(bytes);
}

Sha256Sum hmac(const JobKey& key, std::string_view text) {
  constexpr std::size_t kBlock = 64;
  std::array<std::uint8_t, kBlock> inner{}, outer{};
  for (std::size_t i = 0; i < kBlock; ++i) {
    const std::uint8_t byte = i < key.size() ? key[i] : std::uint8_t{0};
    inner[i] = static_cast<std::uint8_t>(byte ^ 0x36U);
    outer[i] = static_cast<std::uint8_t>(byte ^ 0x5cU);
  }
  Sha256 first, second;
  first.add(inner.data(), inner.size());
  first.add(text.data(), text.size());
  const Sha256Sum middle = first.finish();
  second.add(outer.data(), outer.size());
  second.add(middle.data(), middle.size());
  return second.finish();
}

Socket introduce(const Endpoint& to, const JobKey& key, Introduction mine, std::chrono::milliseconds patience, std::string& why) {
  Socket socket = connect_to(to, patience, why);
  if (!socket) return socket;
  prepare_connection(socket);
  fill_randomly(mine.nonce);
  Challenge challenge;
  if (!write_all(socket, &mine, sizeof mine, patience) || !read_all(socket, &challenge, sizeof challenge, patience)) {
    why = "it does not answer as a rank of this job";
    return {};
  }
  if (!is_equal(challenge.proof, proof_of(key, kListens, mine, challenge.nonce))) {
    why = kOtherKey;
    return {};
  }
  const Sha256Sum proof = proof_of(key, kConnects, mine, challenge.nonce);
  if (write_all(socket, &proof, sizeof proof, patience)) return socket;
  why = "it has gone";
  return {};
}

std::vector<Reception::Guest> Reception::receive(std::chrono::milliseconds patience) {
  std::vector<pollfd> waits = {{listener_.get(), POLLIN, 0}};
  for (const Visitor& visitor : visitors_) waits.push_back({visitor.guest.socket.get(), POLLIN, 0});
  std::vector<Guest> guests;
  if (::poll(waits.data(), waits.size(), static_cast<int>(patience.count())) <= 0) waits.assign(waits.size(), pollfd{});
  std::deque<Visitor> stay;
  for (std::size_t i = 0; i < visitors_.size(); ++i) {
    Visitor& visitor = visitors_[i];
    Progress progress = waits[i + 1].revents != 0 ? advance(visitor) : Progress::waits;
    if (progress == Progress::waits && visitor.end < steady_clock::now()) progress = Progress::wrong;  // also ends slow ones
    if (progress == Progress::waits) stay.push_back(std::move(visitor));
    if (progress == Progress::done) guests.push_back(std::move(visitor.guest));
    if (progress == Progress::wrong) reject(visitor);
  }
  visitors_ = std::move(stay);
  if (waits[0].revents != 0) accept_new();
  return guests;
}

void Reception::reject(const Visitor& visitor) {
  if (!visitor.challenged) return;
  ++wrong_keys_.connections;
  if (wrong_keys_.addresses.size() < WrongKeys::kNamed) wrong_keys_.addresses.insert(visitor.guest.address);
}

void Reception::accept_new() {
  constexpr std::size_t kAtOnce = kVisitors / 4;  // so that new arrivals are read before they could be evicted
  for (std::size_t i = 0; i < kAtOnce; ++i) {
    Socket socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) return;
    if (visitors_.size() == kVisitors) {  // evicts a silent connection
      const auto silent = std::find_if(visitors_.begin(), visitors_.end(), [](const Visitor& each) { return !each.challenged; });
      visitors_.erase(silent == visitors_.end() ? visitors_.begin() : silent);
    }
    Visitor visitor;
    visitor.guest.address = remote_endpoint(socket).host();
    visitor.guest.socket = std::move(socket);
    visitor.end = steady_clock::now() + kVisit;
    visitors_.push_back(std::move(visitor));
  }
}

// Reads available bytes.
Reception::Progress Reception::advance(Visitor& visitor) {
  while (true) {
    char* const into =
        visitor.challenged ? reinterpret_cast<char*>(&visitor.proof) : reinterpret_cast<char*>(&visitor.guest.introduction);
    const std::size_t whole = visitor.challenged ? sizeof visitor.proof : sizeof visitor.guest.introduction;
    const ssize_t got = ::recv(visitor.guest.socket.get(), into + visitor.read, whole - visitor.read, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return Progress::waits;
    if (got <= 0) return Progress::wrong;
    visitor.read += static_cast<std::size_t>(got);
    if (visitor.read < whole) continue;
    if (visitor.challenged) {
      const Sha256Sum right = proof_of(key_, kConnects, visitor.guest.introduction, visitor.nonce);
      if (!is_equal(visitor.proof, right)) return Progress::wrong;
      prepare_connection(visitor.guest.socket);
      visitor.guest.introduction.host.back() = '\0';
      for (auto& address : visitor.guest.introduction.addresses) address.back() = '\0';
      return Progress::done;
    }
    if (!challenge(visitor)) return Progress::wrong;
  }
}

bool Reception::challenge(Visitor& visitor) {
  const Introduction expected, &introduction = visitor.guest.introduction;
  if (introduction.magic != expected.magic || introduction.version != expected.version || introduction.to != rank_) return false;
  fill_randomly(visitor.nonce);
  const Challenge challenge{visitor.nonce, proof_of(key_, kListens, introduction, visitor.nonce)};
  visitor.challenged = true;
  visitor.read = 0;
  return ::send(visitor.guest.socket.get(), &challenge, sizeof challenge, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof challenge);
}

}  // namespace millrace
