// Steps of a training graph that are done once more, each under the eyes of the caller.
#pragma once

#include <cstdint>
#include <functional>

#include "graph/graph.h"
#include "prepare/prepared_run.h"

namespace millrace {

// Does the steps of the main graph as Run would, but writes nothing and informs no observers. From step `from` on, calls `look`
// with each batch when all earlier updates are done; it returns whether to do its step. Throws what it throws.
void replay(PreparedRun& run, std::uint64_t from, const std::function<bool(Batch& batch)>& look);

// Does steps [first, last) of the graph. `wants` sees each of them when its batch is complete and the updates before it are
// submitted, and returns whether to do it; after the first refusal no further step is done. Throws what `wants` throws, else what
// the graph throws. REQUIRES: the graph has not been started.
void replay_steps(Graph& graph, std::uint64_t first, std::uint64_t last,
                  const std::function<bool(const Graph::StepReady& ready)>& wants);

}  // namespace millrace
