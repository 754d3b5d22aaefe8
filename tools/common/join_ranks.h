// The ranks of a run that options or a launcher have started, on this machine and others.
#pragma once

#include <functional>
#include <string>

#include "common/arguments.h"
#include "ranks/rank_place.h"
#include "ranks/socket_group.h"

namespace millrace {

// What the command line says of ranks, beside which one this is.
struct RankWishes {
  RankOptions options;
  std::string rendezvous, interface, key_file, wait = "600", patience = "10";
  // Of ranks that the program has started itself: what keeps strangers out, and where rank 0 listens already.
  std::string key = {};
  int listener = -1;
  std::function<std::string()> lost = {};  // as RendezvousSetting::lost
};
Arguments& add_rank_options(Arguments& arguments, RankWishes& ranks);

// Connects the ranks. Says on standard error whom it waits for, and where a job without a key may be joined by anybody, unless
// `quiet`. `runs`: a folder in which ranks may meet; "": none. Throws what connect_ranks() does, and Error(usage) where nothing
// says how ranks find each other. REQUIRES: place.ranks > 1.
SocketGroup::Setting join_ranks(const RankPlace& place, const RankWishes& wishes, const std::string& runs, bool quiet);

}  // namespace millrace
