// Makes a PreparedRun from a checked file.
#pragma once

#include <memory>

#include "prepare/prepared_run.h"

namespace millrace {

// Opens devices and sources (which list their samples), compiles the network, makes the stages, and examines the result
// (run/doctor) as soon as its facts are known, before expensive work. Reads no samples except: those that checks read; a few of
// each source, compared over ranks and with a checkpoint (stages/contents.h); and all of them with compare_data, or if a loss
// needs numbers computed from the data (stages/class_weights.h). `pipeline` and `registry` outlive the result. Throws Error.
std::unique_ptr<PreparedRun> prepare(const Pipeline& pipeline, const Registry& registry, RunOptions options);

}  // namespace millrace
