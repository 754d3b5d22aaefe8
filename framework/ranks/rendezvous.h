// Where the ranks of a run find each other: each gets a connection to every other one.
//
// Rank 0 listens at the master's address, or at a port of its own that it writes into a folder which all share. The others
// connect to it; when all are there it tells each where the others listen, and they connect pairwise. Names of nodes need not
// resolve: an address is the one from which rank 0 saw a rank come.
//
// Both ends of a connection prove that they know the job's key (HMAC with SHA-256 over random numbers of both), so whoever does
// not is turned away, and disturbs nobody. What is sent afterwards is neither encrypted nor signed: the network between the
// hosts of a job is trusted with gradients, as NCCL and MPI trust it.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "ranks/rank_place.h"

namespace millrace {

struct RendezvousSetting {
  RankPlace place;
  std::string folder = {};     // where place.master is "": all ranks share it
  std::string key = {};        // of the job, the same for all ranks; "": of the folder, or none
  std::string interface = {};  // "eth0" or "10.1.0.0/16": the network to listen in; "": any
  int listener = -1;           // of rank 0, which listens at place.master already; closed by connect_ranks(). -1: it does not
  std::chrono::milliseconds limit = std::chrono::minutes(10);
  // Of rank 0, called again and again until all ranks have come: why one never will, such as "rank 1 was killed by signal 9". "":
  // none is known to be lost.
  std::function<std::string()> lost = {};
  std::function<void(const std::string& text)> say = {};  // "waiting for ranks 3 and 7 of 8, 40 s", each ten seconds
};

// By rank. Sockets are -1 for this rank, and belong to the caller.
struct Connections {
  std::vector<int> sockets;
  std::vector<std::string> hosts;  // as each calls itself
};

// Throws Error(usage) for an address that is none, and where ranks were started with different sizes or two say that they are
// the same one; Error(peer) naming the absent ranks when the limit is over, and where one is lost.
Connections connect_ranks(const RendezvousSetting& setting);

}  // namespace millrace
