// Connects the ranks of a run: each gets a connection to every other one.
//
// Rank 0 listens at the master's address, or at its own port, which it publishes in a shared folder. The others connect to it;
// when all have come, it sends them each other's addresses, and they connect pairwise. Node names need not resolve: an address
// is the one from which rank 0 saw a rank connect.
//
// Both ends of a connection prove that they know the job's key (HMAC with SHA-256 over random numbers of both); other
// connections are rejected without effect. Later traffic is neither encrypted nor signed: like NCCL and MPI, this trusts the
// network between the job's hosts with gradients.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "ranks/rank_place.h"

namespace millrace {

struct RendezvousSetting {
  RankPlace place;
  std::string folder = {};     // shared by all ranks; used if place.master is ""
  std::string key = {};        // the job's, equal on all ranks; "": the folder's, or none
  std::string interface = {};  // "eth0" or "10.1.0.0/16": network to listen in; "": any
  int listener = -1;           // rank 0's, if it already listens at place.master; closed by connect_ranks(). -1: none
  std::chrono::milliseconds limit = std::chrono::minutes(10);
  // On rank 0, called repeatedly until all ranks have come: why one never will, such as "rank 1 was killed by signal 9". "" if
  // none is known to be lost.
  std::function<std::string()> lost = {};
  std::function<void(const std::string& text)> report = {};  // "waiting for ranks 3 and 7 of 8, 40 s", every ten seconds
};

// By rank. Sockets are -1 for this rank; owned by the caller.
struct Connections {
  std::vector<int> sockets;
  std::vector<std::string> hosts;  // each host's own name
};

// Throws Error(usage) for an invalid address, and if ranks were started with different sizes or two have the same number;
// Error(peer) naming the absent ranks when the limit ends, or if one is lost.
Connections connect_ranks(const RendezvousSetting& setting);

}  // namespace millrace
