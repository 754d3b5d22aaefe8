// How two ranks of a job prove that they belong to it before anything else is sent. Each end sends a fresh random number, and an
// HMAC (RFC 2104, with SHA-256) of the other's number under the job's key.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/util/sha256.h"
#include "ranks/endpoint.h"

namespace millrace {

using JobKey = Sha256Sum;
JobKey job_key(std::string_view text);
std::string random_key();  // 64 hexadecimal digits; throws Error(run) if the system has no random numbers

Sha256Sum hmac(const JobKey& key, std::string_view text);

using Nonce = std::array<std::uint8_t, 32>;

// A connecting rank's introduction; sent as raw bytes.
struct Introduction {
  static constexpr std::size_t kAddresses = 8;
  std::array<char, 8> magic = {'M', 'I', 'L', 'L', 'R', 'A', 'C', 'E'};
  std::uint32_t version = 1;
  std::int32_t rank = 0, ranks = 0, to = 0;  // `to`: the intended rank
  std::uint32_t port = 0;                    // where it listens
  Nonce nonce = {};
  std::array<char, 64> host = {};                               // its host name, padded with zeros
  std::array<std::array<char, 46>, kAddresses> addresses = {};  // its own, in numeric form
};

inline constexpr const char* kOtherKey = "its job key differs from this rank's: give all ranks the same --job-key";

// One attempt. Empty on failure: `why` is the cause, such as "connection refused" or kOtherKey.
Socket introduce(const Endpoint& to, const JobKey& key, Introduction mine, std::chrono::milliseconds patience, std::string& why);

// The other end: admits ranks that know the job's key, and rejects all others. Under any load it holds at most kVisitors
// connections with a few hundred bytes each, for at most five seconds.
class Reception {
 public:
  static constexpr std::size_t kVisitors = 256;
  struct Guest {
    Introduction introduction;
    Socket socket;
    std::string address;  // its source address
  };

  Reception(Socket listener, const JobKey& key, int rank) : listener_(std::move(listener)), key_(key), rank_(rank) {}
  // Ranks that have proved themselves, after at most `patience`.
  std::vector<Guest> receive(std::chrono::milliseconds patience);
  // Visitors that follow the protocol without knowing the job's key.
  struct WrongKeys {
    std::uint64_t connections = 0;
    std::set<std::string> addresses = {};  // their source addresses, at most kNamed
    static constexpr std::size_t kNamed = 4;
  };
  const WrongKeys& wrong_keys() const { return wrong_keys_; }

 private:
  struct Visitor {
    Guest guest;
    std::size_t read = 0;  // bytes of the introduction, then of the proof
    bool challenged = false;
    Nonce nonce = {};
    Sha256Sum proof = {};
    std::chrono::steady_clock::time_point end;
  };
  enum class Progress { waits, done, wrong };
  void accept_new();
  Progress advance(Visitor& visitor);
  bool challenge(Visitor& visitor);
  void reject(const Visitor& visitor);

  const Socket listener_;
  const JobKey key_;
  const int rank_;
  std::deque<Visitor> visitors_;
  WrongKeys wrong_keys_;
};

}  // namespace millrace
