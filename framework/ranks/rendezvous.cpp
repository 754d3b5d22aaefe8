#include "ranks/rendezvous.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "millrace/error.h"
#include "millrace/util/sha256.h"
#include "millrace/util/text.h"
#include "millrace/util/wire.h"
#include "ranks/handshake.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kReportInterval{10}, kAttempt{5};
// How long ranks may take to connect to each other once all have come. A rank gives up connecting to a lower rank after
// kReaching, and waiting for a higher one after kReached. Rank 0 ends last, since it only knows which ranks are not ready. If
// two processes claim the same rank, the older one may have been cut off; that is known after about ten seconds.
constexpr seconds kReaching{10}, kReached{12}, kMeeting{15}, kDuplicate{15};
constexpr std::size_t kLongestTable = 64U << 20U;

enum class MessageKind : std::uint32_t { table, lost, mistake, ready, go };
struct Preamble {
  MessageKind kind = MessageKind::table;
  std::uint32_t bytes = 0;
};

bool send_message(const Socket& to, MessageKind kind, std::string_view text = {}) {
  const Preamble header{kind, static_cast<std::uint32_t>(text.size())};
  return write_all(to, &header, sizeof header, kAttempt) && write_all(to, text.data(), text.size(), kAttempt);
}

struct Message {
  MessageKind kind = MessageKind::table;
  std::string text;
};
// Empty if the other end is gone, or silent for that long.
std::optional<Message> receive_message(const Socket& from, milliseconds patience) {
  Preamble header;
  if (!read_all(from, &header, sizeof header, patience) || header.bytes > kLongestTable) return std::nullopt;
  Message message{header.kind, std::string(header.bytes, '\0')};
  if (!read_all(from, message.text.data(), message.text.size(), kAttempt)) return std::nullopt;
  return message;
}

MessageKind kind_of(ErrorKind kind) { return kind == ErrorKind::usage ? MessageKind::mistake : MessageKind::lost; }

// Throws the error that rank 0 failed with.
void require_no_error(const Message& message) {
  if (message.kind == MessageKind::mistake) fail(ErrorKind::usage, "{} (reported by rank 0)", message.text);
  if (message.kind == MessageKind::lost) fail(ErrorKind::peer, "{} (reported by rank 0)", message.text);
}

bool has_hung_up(const Socket& socket) {
  char byte = 0;
  const ssize_t got = ::recv(socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

bool is_readable(const Socket& socket, milliseconds patience) {
  pollfd ready{socket.get(), POLLIN, 0};
  return ::poll(&ready, 1, static_cast<int>(patience.count())) > 0;
}

void set_blocking(const Socket& socket) { ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) & ~O_NONBLOCK); }

// "rank 3", "ranks 1, 3 and 7"
std::string ranks_text(const std::vector<std::string>& names) {
  if (names.size() == 1) return "rank " + names[0];
  return fmt::format("ranks {} and {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

// How to reach a rank.
struct RankAddress {
  std::uint32_t port = 0;
  std::string host = {};                    // host name
  std::vector<std::string> addresses = {};  // most likely first
};

RankAddress address_of(const Reception::Guest& guest, bool chose_interface) {
  RankAddress it{.port = guest.introduction.port, .host = terminal_text(guest.introduction.host.data())};
  if (!chose_interface) it.addresses.push_back(guest.address);
  for (const auto& address : guest.introduction.addresses) {
    if (address[0] != '\0' && std::ranges::find(it.addresses, address.data()) == it.addresses.end()) {
      it.addresses.emplace_back(address.data());
    }
  }
  return it;
}

// Reports progress every ten seconds of waiting.
class Waiting {
 public:
  explicit Waiting(const RendezvousSetting& setting) : setting_(setting) {}
  bool is_over() const { return steady_clock::now() - began_ >= setting_.limit; }
  void report(const std::string& text) {
    if (steady_clock::now() < next_) return;
    next_ += kReportInterval;
    if (setting_.report) setting_.report(fmt::format("{}, {} s", text, waited()));
  }
  std::int64_t waited() const { return std::chrono::duration_cast<seconds>(steady_clock::now() - began_).count(); }

 private:
  const RendezvousSetting& setting_;
  const steady_clock::time_point began_ = steady_clock::now();
  steady_clock::time_point next_ = began_ + kReportInterval;
};

// The file in which rank 0 publishes its address. A restarted job uses another name, or rewrites it.
class AddressFile {
 public:
  AddressFile(const std::string& folder, const std::string& job) {
    std::string name = "rank-0";
    for (const char letter : job.empty() ? job : '.' + job)
      name += std::isalnum(static_cast<unsigned char>(letter)) || letter == '.' ? letter : '-';
    path_ = std::filesystem::path(folder) / name;
  }
  const std::filesystem::path& path() const { return path_; }

  void write(int port, const std::vector<std::string>& addresses, const std::string& key) const {
    std::error_code ignored;
    std::filesystem::create_directories(path_.parent_path(), ignored);
    const std::string text = fmt::format("{}\n{}\n{}\n", key, port, fmt::join(addresses, "\n"));
    const std::string fresh = fmt::format("{}.{}", path_.string(), ::getpid());
    ::unlink(fresh.c_str());  // left by an earlier process of the same id, as in a restarted container
    const Socket file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));  // it holds the key
    const bool written = file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                         ::fsync(file.get()) == 0 && ::rename(fresh.c_str(), path_.c_str()) == 0;
    const int cause = errno;
    if (written) return;
    ::unlink(fresh.c_str());
    fail(ErrorKind::run, "'{}' cannot be written: {}", path_.string(), std::strerror(cause));
  }
  // False if it does not exist yet, or must not be used (`why`).
  bool read(std::string& key, std::vector<Endpoint>& at, std::string& why) const {
    why = "it has not written it yet";
    struct stat state {};
    if (::stat(path_.c_str(), &state) != 0) return false;
    if (const std::string reason = distrust(state); !reason.empty()) {
      why = reason;
      return false;
    }
    std::ifstream file(path_);
    std::string address;
    int port = 0;
    if (!(file >> key >> port) || port < 1 || port > 65'535) return false;
    while (file >> address) {
      const Endpoint endpoint = numeric_endpoint(address, port);
      if (endpoint.length > 0) at.push_back(endpoint);
    }
    return !at.empty();
  }
  void remove() const {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

 private:
  // Why the file is not trusted: its author decides where ranks send their weights. Trusted are this user, root, and the
  // folder's owner, as file servers may map root to another user.
  std::string distrust(const struct stat& file) const {
    struct stat folder {};
    ::stat(path_.parent_path().c_str(), &folder);
    const bool others_write = (file.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    if (!others_write && (file.st_uid == 0 || file.st_uid == ::geteuid() || file.st_uid == folder.st_uid)) return {};
    return fmt::format("it was written by user {} (mode {:04o}), who is not trusted: remove it", file.st_uid,
                       file.st_mode & 07777);
  }

  std::filesystem::path path_;
};

class Rendezvous {
 public:
  explicit Rendezvous(const RendezvousSetting& setting)
      : setting_(setting), place_(setting.place), waiting_(setting), ranks_(static_cast<std::size_t>(place_.ranks)) {
    if (!setting.folder.empty()) address_file_.emplace(setting.folder, place_.job);
  }
  Connections connect() {
    place_.rank == 0 ? gather() : join();
    Connections connections;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].socket) set_blocking(ranks_[rank].socket);
      connections.sockets.push_back(ranks_[rank].socket.release());
      connections.hosts.push_back(static_cast<int>(rank) == place_.rank ? host_name() : ranks_[rank].at.host);
    }
    return connections;
  }

 private:
  struct Duplicate {
    Reception::Guest guest;
    steady_clock::time_point end;
  };
  struct Rank {
    Socket socket;
    RankAddress at;
  };
  // ---- Rank 0 ----
  void gather();
  void admit(Reception::Guest guest);
  void drop_closed_connections();
  void settle_duplicates();
  std::string duplicate_text(const Duplicate& each) const;
  std::vector<std::string> absent() const;
  std::string wrong_keys_text() const;
  void bring_together();
  [[noreturn]] void refuse_all(ErrorKind kind, const std::string& text);

  // ---- Others ----
  void join();
  Message wait_for_table();
  bool find_master(const Introduction& mine);
  std::string last_failure() const;
  std::string master_text() const { return address_file_ ? '\'' + address_file_->path().string() + '\'' : place_.master; }
  void connect_to_lower(const Introduction& mine, steady_clock::time_point end);
  bool reach(Rank& other, const Introduction& mine, steady_clock::time_point end, std::string& why) const;
  void receive_higher(Reception& reception, steady_clock::time_point end);
  void require_master(milliseconds patience);
  [[noreturn]] void report_to_master(const std::string& lost);

  Introduction introduction(int to, std::uint32_t port) const;
  Socket listen(int port) const {
    return listen_at(setting_.interface.empty() ? "" : own_addresses(setting_.interface).front(), port);
  }
  JobKey key() const { return job_key(key_ + '\n' + place_.job); }

  const RendezvousSetting& setting_;
  const RankPlace& place_;
  Waiting waiting_;
  std::optional<AddressFile> address_file_;
  std::string key_ = setting_.key;
  std::vector<Rank> ranks_;
  std::vector<Duplicate> duplicates_;
  Reception::WrongKeys wrong_keys_;
  std::string last_failure_ = "not tried yet";
  bool met_other_key_ = false;
};

Introduction Rendezvous::introduction(int to, std::uint32_t port) const {
  Introduction mine{.rank = place_.rank, .ranks = place_.ranks, .to = to, .port = port};
  const std::string name = host_name();
  std::memcpy(mine.host.data(), name.data(), std::min(name.size(), mine.host.size() - 1));
  std::size_t i = 0;
  for (const std::string& address : own_addresses(setting_.interface)) {
    if (i < Introduction::kAddresses && address.size() < mine.addresses[i].size()) {
      std::memcpy(mine.addresses[i++].data(), address.data(), address.size());
    }
  }
  return mine;
}

void Rendezvous::gather() {
  std::string why;
  int port = 0;
  if (!place_.master.empty()) {
    resolve(place_.master, why);  // validates its form
    port = std::stoi(place_.master.substr(place_.master.rfind(':') + 1));
  }
  Socket listener = setting_.listener >= 0 ? Socket(setting_.listener) : listen(port);
  if (address_file_) {
    if (key_.empty()) key_ = random_key();
    const bool chosen = !setting_.key.empty();  // the user chose it, so it is not in the file
    address_file_->write(local_endpoint(listener).port(), own_addresses(setting_.interface), chosen ? "-" : key_);
  }
  Reception reception(std::move(listener), key(), 0);
  while (!absent().empty() || !duplicates_.empty()) {
    if (waiting_.is_over()) {
      if (address_file_) address_file_->remove();
      if (absent().empty()) refuse_all(ErrorKind::usage, duplicate_text(duplicates_.front()));
      refuse_all(ErrorKind::peer, fmt::format("{} of {} did not come within {} s{}", ranks_text(absent()), ranks_.size(),
                                              waiting_.waited(), wrong_keys_text()));
    }
    for (Reception::Guest& guest : reception.receive(milliseconds(100))) admit(std::move(guest));
    if (const std::string lost = setting_.lost ? setting_.lost() : ""; !lost.empty()) refuse_all(ErrorKind::peer, lost);
    wrong_keys_ = reception.wrong_keys();
    drop_closed_connections();
    settle_duplicates();
    if (!absent().empty()) {
      waiting_.report(fmt::format("waiting for {} of {}{}", ranks_text(absent()), ranks_.size(), wrong_keys_text()));
    }
  }
  if (address_file_) address_file_->remove();
  if (wrong_keys_.connections > 0 && setting_.report) setting_.report("all ranks have come" + wrong_keys_text());
  bring_together();
}

void Rendezvous::admit(Reception::Guest guest) {
  const int rank = guest.introduction.rank;
  if (guest.introduction.ranks != place_.ranks || rank < 1 || rank >= place_.ranks) {
    const std::string text = fmt::format("rank 0 was started as one of {}, and {} as rank {} of {}", place_.ranks,
                                         terminal_text(guest.introduction.host.data()), rank, guest.introduction.ranks);
    send_message(guest.socket, MessageKind::mistake, text);
    refuse_all(ErrorKind::usage, text);
  }
  Rank& slot = ranks_[static_cast<std::size_t>(rank)];
  if (slot.socket && !has_hung_up(slot.socket)) {
    duplicates_.push_back({std::move(guest), steady_clock::now() + kDuplicate});
    return;
  }
  slot.at = address_of(guest, !setting_.interface.empty());
  slot.socket = std::move(guest.socket);
}

void Rendezvous::drop_closed_connections() {
  for (Rank& each : ranks_) {
    if (each.socket && has_hung_up(each.socket)) each.socket = Socket();
  }
  std::erase_if(duplicates_, [](const Duplicate& each) { return has_hung_up(each.guest.socket); });
}

void Rendezvous::settle_duplicates() {
  std::vector<Duplicate> free;  // the older one is gone
  std::erase_if(duplicates_, [&](Duplicate& each) {
    const bool is_free = !ranks_[static_cast<std::size_t>(each.guest.introduction.rank)].socket;
    if (is_free) free.push_back(std::move(each));
    return is_free;
  });
  for (Duplicate& each : free) admit(std::move(each.guest));
  for (const Duplicate& each : duplicates_) {
    if (steady_clock::now() >= each.end) refuse_all(ErrorKind::usage, duplicate_text(each));
  }
}

std::string Rendezvous::duplicate_text(const Duplicate& each) const {
  const int rank = each.guest.introduction.rank;
  return fmt::format("two processes claim to be rank {}: one on {}, one on {}", rank,
                     ranks_[static_cast<std::size_t>(rank)].at.host, terminal_text(each.guest.introduction.host.data()));
}

// "3", "7 (last seen on node-2)"; if more than eight, their number.
std::vector<std::string> Rendezvous::absent() const {
  std::vector<std::string> names;
  for (std::size_t rank = 1; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].socket) continue;
    const std::string& host = ranks_[rank].at.host;
    names.push_back(host.empty() ? std::to_string(rank) : fmt::format("{} (last seen on {})", rank, host));
  }
  constexpr std::size_t kNamed = 8;
  if (names.size() > kNamed + 1) {
    const std::size_t more = names.size() - kNamed;
    names.resize(kNamed);
    names.push_back(fmt::format("{} more", more));
  }
  return names;
}

// "; 3 connections from 10.0.0.7 lacked the job's key"
std::string Rendezvous::wrong_keys_text() const {
  if (wrong_keys_.connections == 0) return {};
  return fmt::format("; {} connection{} from {} lacked the job's key", wrong_keys_.connections,
                     wrong_keys_.connections == 1 ? "" : "s", fmt::join(wrong_keys_.addresses, ", "));
}

// Sends each rank the addresses of the others, and waits until all are connected.
void Rendezvous::bring_together() {
  WireWriter table;
  ranks_[0].at.host = host_name();
  for (const Rank& each : ranks_) {
    table.put(each.at.port).put(std::string_view(each.at.host)).put(each.at.addresses.size());
    for (const std::string& address : each.at.addresses) table.put(std::string_view(address));
  }
  const std::string text(reinterpret_cast<const char*>(table.bytes().data()), table.bytes().size());
  const auto lost = [&](std::size_t rank, const char* what) {
    refuse_all(ErrorKind::peer, fmt::format("rank {} of {} on {} is lost: {}", rank, ranks_.size(), ranks_[rank].at.host, what));
  };
  for (std::size_t rank = 1; rank < ranks_.size(); ++rank) {
    if (!send_message(ranks_[rank].socket, MessageKind::table, text)) lost(rank, "it ended while ranks were being connected");
  }
  const auto end = steady_clock::now() + kMeeting;
  std::vector<bool> is_ready(ranks_.size(), false);
  is_ready[0] = true;
  for (std::size_t rank = 1; std::ranges::find(is_ready, false) != is_ready.end(); rank = rank % (ranks_.size() - 1) + 1) {
    if (is_ready[rank]) continue;
    if (steady_clock::now() > end) lost(rank, "it did not connect to the other ranks");
    if (!is_readable(ranks_[rank].socket, milliseconds(2))) continue;
    const std::optional<Message> received = receive_message(ranks_[rank].socket, kAttempt);
    if (!received) lost(rank, "it ended while ranks were being connected");
    if (received->kind != MessageKind::ready) refuse_all(ErrorKind::peer, received->text);  // ranks that it cannot reach
    is_ready[rank] = true;
  }
  for (const Rank& each : ranks_) {
    if (each.socket) send_message(each.socket, MessageKind::go);
  }
}

void Rendezvous::refuse_all(ErrorKind kind, const std::string& text) {
  for (const Rank& each : ranks_) {
    if (each.socket) send_message(each.socket, kind_of(kind), text);
  }
  for (const Duplicate& each : duplicates_) send_message(each.guest.socket, kind_of(kind), text);
  fail(kind, "{}", text);
}

void Rendezvous::join() {
  Socket listener = listen(0);
  const Introduction mine = introduction(0, static_cast<std::uint32_t>(local_endpoint(listener).port()));
  Message message;
  do {
    while (!find_master(mine)) {
      if (waiting_.is_over()) {
        fail(ErrorKind::peer, "rank {} could not reach rank 0 at {} within {} s: {}", place_.rank, master_text(),
             waiting_.waited(), last_failure());
      }
      waiting_.report(fmt::format("rank {} tries to reach rank 0 at {}: {}", place_.rank, master_text(), last_failure()));
      ::usleep(200'000);
    }
    message = wait_for_table();
  } while (message.text.empty());  // rank 0 was restarted
  WireReader table(std::as_bytes(std::span(message.text)));
  for (Rank& each : ranks_) {
    each.at.port = table.get<std::uint32_t>();
    each.at.host = table.get<std::string>();
    for (auto count = table.get<std::size_t>(); count > 0; --count) each.at.addresses.push_back(table.get<std::string>());
  }
  Reception reception(std::move(listener), key(), place_.rank);
  const auto now = steady_clock::now();
  connect_to_lower(mine, now + kReaching);
  receive_higher(reception, now + kReached);
  send_message(ranks_[0].socket, MessageKind::ready);
  require_master(2 * kMeeting);
}

bool Rendezvous::find_master(const Introduction& mine) {
  std::vector<Endpoint> at;
  if (address_file_) {
    std::string key;
    if (!address_file_->read(key, at, last_failure_)) return false;
    key_ = setting_.key.empty() ? key : setting_.key;
  } else {
    at = resolve(place_.master, last_failure_);
  }
  for (const Endpoint& each : at) {
    Rank& master = ranks_[0];
    master.socket = introduce(each, key(), mine, kAttempt, last_failure_);
    if (master.socket) return true;
    met_other_key_ = met_other_key_ || last_failure_ == kOtherKey;
  }
  return false;
}

// Rank 0 may have given up since it was met, so refused connections now are not informative.
std::string Rendezvous::last_failure() const {
  const bool was_other = met_other_key_ && last_failure_ != kOtherKey;
  return was_other ? fmt::format("{} ({} now)", kOtherKey, last_failure_) : last_failure_;
}

// Empty text if rank 0 is gone. Rank 0 lists the absent when its limit ends. It began to wait earlier, so ranks that leave
// before that would be listed too.
Message Rendezvous::wait_for_table() {
  const Socket& master = ranks_[0].socket;
  const auto end = steady_clock::now() + setting_.limit + kAttempt;
  while (!is_readable(master, milliseconds(500))) {
    if (steady_clock::now() > end) {
      fail(ErrorKind::peer, "rank 0 of {} is lost: it has been silent for {} s", ranks_.size(), waiting_.waited());
    }
    waiting_.report(fmt::format("rank {} waits until all of {} ranks have reached rank 0", place_.rank, ranks_.size()));
  }
  const std::optional<Message> received = receive_message(master, kAttempt);
  if (!received) {
    last_failure_ = "it has gone";
    return {};
  }
  require_no_error(*received);
  return *received;
}

// Its next message is not an error.
void Rendezvous::require_master(milliseconds patience) {
  const std::optional<Message> received = receive_message(ranks_[0].socket, patience);
  if (!received) fail(ErrorKind::peer, "rank 0 of {} is lost: it ended while ranks were being connected", ranks_.size());
  require_no_error(*received);
}

void Rendezvous::report_to_master(const std::string& lost) {
  send_message(ranks_[0].socket, MessageKind::lost, lost);
  fail(ErrorKind::peer, "{}", lost);
}

void Rendezvous::connect_to_lower(const Introduction& mine, steady_clock::time_point end) {
  for (int rank = 1; rank < place_.rank; ++rank) {
    Rank& other = ranks_[static_cast<std::size_t>(rank)];
    Introduction to_it = mine;
    to_it.to = rank;
    std::string why = "it has no address";
    if (reach(other, to_it, end, why)) continue;
    report_to_master(
        fmt::format("rank {} cannot reach rank {} of {} on {}: {}", place_.rank, rank, ranks_.size(), other.at.host, why));
  }
}

bool Rendezvous::reach(Rank& other, const Introduction& mine, steady_clock::time_point end, std::string& why) const {
  for (const std::string& address : other.at.addresses) {
    const Endpoint at = numeric_endpoint(address, static_cast<int>(other.at.port));
    const auto left = std::chrono::duration_cast<milliseconds>(end - steady_clock::now());
    if (at.length == 0 || left.count() <= 0) continue;
    other.socket = introduce(at, key(), mine, std::min<milliseconds>(kAttempt, left), why);
    if (other.socket) return true;
    why = fmt::format("{}: {}", at.text(), why);
  }
  return false;
}

void Rendezvous::receive_higher(Reception& reception, steady_clock::time_point end) {
  const auto missing = [&] {
    return std::find_if(ranks_.begin() + place_.rank + 1, ranks_.end(), [](const Rank& each) { return !each.socket; });
  };
  while (missing() != ranks_.end()) {
    for (Reception::Guest& guest : reception.receive(milliseconds(50))) {
      const int rank = guest.introduction.rank;
      if (rank > place_.rank && rank < place_.ranks) ranks_[static_cast<std::size_t>(rank)].socket = std::move(guest.socket);
    }
    const auto absent = missing();
    if (absent != ranks_.end() && is_readable(ranks_[0].socket, milliseconds(0))) require_master(kAttempt);
    if (absent == ranks_.end() || steady_clock::now() < end) continue;
    report_to_master(fmt::format("rank {} of {} on {} is lost: it has not connected to rank {} within {} s",
                                 absent - ranks_.begin(), ranks_.size(), absent->at.host, place_.rank, kReached.count()));
  }
}

// Each rank's connection is an open file of this process. Shells limit these to 1,024 even if the system allows more.
void make_room_for(int ranks) {
  constexpr rlim_t kOthers = 1024, kFewest = 64;  // for unknown visitors, and the files of the run
  rlimit limit{};
  const rlim_t wanted = static_cast<rlim_t>(ranks) + kOthers;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= static_cast<rlim_t>(ranks) + kFewest) return;
  fail(ErrorKind::usage, "{} ranks need as many open files each, but the system allows {}: raise the limit (ulimit -Hn)", ranks,
       limit.rlim_cur);
}

}  // namespace

Connections connect_ranks(const RendezvousSetting& setting) {
  if (!has_sha256()) fail(ErrorKind::usage, "several processes need a build with OpenSSL, whose SHA-256 authenticates ranks");
  make_room_for(setting.place.ranks);
  return Rendezvous(setting).connect();
}

}  // namespace millrace
