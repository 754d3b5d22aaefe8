// A group of processes, connected pairwise by stream sockets.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "millrace/util/group.h"

namespace millrace {

// A thread per other process receives its messages as they come, so that send() never waits for a call of receive(). One more
// thread sends a sign of life with this process's activity twice a second. A process that is silent for `patience` counts as
// lost, and the message names its last activity. A process that ends because of another one names it, so that all name the same
// one.
class SocketGroup final : public Group {
 public:
  struct Setting {
    int rank = 0;
    std::vector<int> sockets;  // by rank, -1 for this one; closed by the group
    std::chrono::milliseconds patience = std::chrono::seconds(10);
    std::vector<std::string> hosts;           // by rank, for messages
    std::function<std::string()> doing = {};  // this process's current activity: "step 120: train"; thread-safe
    // Called on any thread during a long wait for a live process on channel kRun, where nothing else explains the pause.
    std::function<void(const std::string& text)> report = {};
    std::chrono::milliseconds report_interval = std::chrono::minutes(1);
  };
  explicit SocketGroup(Setting setting);  // throws Error(run) if no more threads can be started
  ~SocketGroup() override;                // leaves the group unless done

  int rank() const override { return setting_.rank; }
  int size() const override { return static_cast<int>(setting_.sockets.size()); }
  void send(int to, std::uint32_t channel, std::span<const std::byte> bytes) override;
  void receive(int from, std::uint32_t channel, std::vector<std::byte>& into) override;
  void leave(const Error* why) noexcept override;

 private:
  struct Peer;
  void end();  // REQUIRES: the group was left
  void listen(Peer& peer);
  void keep_alive();
  bool read(Peer& peer, void* bytes, std::size_t count);
  void write(Peer& peer, std::uint32_t channel, std::span<const std::byte> bytes);
  void write_now(Peer& peer, std::span<const std::byte> bytes);
  bool show_life(Peer& peer, const std::string& doing);  // false: not possible now
  void lose(Peer& peer, const std::string& why);
  void await_last_words(Peer& peer);
  void end_with(Peer& peer, const Error& why);
  void lose_other(Peer& by, const Error& why);
  std::string name_of(const Peer& peer) const;
  std::string waiting_text(const Peer& peer, std::chrono::milliseconds waited) const;
  std::string lost_text(const Peer& peer, const std::string& why) const;

  const Setting setting_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null for this one
  Mutex mutex_;                               // also guards messages of the peers
  std::condition_variable arrived_;
  std::optional<Error> lost_ MILLRACE_GUARDED_BY(mutex_);  // why the group failed
  bool has_left_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::condition_variable leaving_;
  std::thread alive_;
};

}  // namespace millrace
