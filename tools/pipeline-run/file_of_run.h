// Uses the pipeline in a run's folder, for command lines that name the folder instead of a file.
#pragma once

#include <string>
#include <vector>

#include "command_line.h"

namespace millrace {

// For --resume RUN, --explain-nan RUN, and --weights RUN with --graph. The run keeps its name. False if the command line names no
// folder. Throws Error(usage) for a folder without a pipeline.
bool take_file_of_run(CommandLine& line);

// The command to use instead if the only argument, apart from options, is a run's folder; "" if it is not.
std::string advice_for_folder(const std::string& argument);

}  // namespace millrace
