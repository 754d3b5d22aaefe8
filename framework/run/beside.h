// A thread beside a graph that runs.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace millrace {

// Calls `start_thread`, which begins to wait for the graph. Where it throws, since the system starts no more threads, the graph
// ends before the error is thrown on: it calls objects of the caller's.
void start_beside(Graph& graph, const std::function<void()>& start_thread);

}  // namespace millrace
