// Connects the ranks of a run that options or a launcher have started, on this machine and others.
#pragma once

#include <functional>
#include <string>

#include "common/arguments.h"
#include "ranks/rank_place.h"
#include "ranks/socket_group.h"

namespace millrace {

// Options for ranks, except which one this is.
struct RankWishes {
  RankOptions options;
  std::string rendezvous, interface, key_file, wait = "600", patience = "10";
  // For ranks that the program starts itself: the key that excludes others, and rank 0's listening socket.
  std::string key = {};
  int listener = -1;
  std::function<std::string()> lost = {};  // as RendezvousSetting::lost
};
Arguments& add_rank_options(Arguments& arguments, RankWishes& ranks);

// Connects the ranks. Unless `quiet`, logs to standard error whom it waits for, and a warning if anybody may join a job without a
// key. `runs`: a folder in which ranks may meet; "" if none. Throws the errors of connect_ranks(), and Error(usage) if ranks have
// no way to find each other. REQUIRES: place.ranks > 1.
SocketGroup::Setting join_ranks(const RankPlace& place, const RankWishes& wishes, const std::string& runs, bool quiet);

}  // namespace millrace
