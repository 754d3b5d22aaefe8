// The pipeline that a run has left in its folder, for command lines that name the folder and no file.
#pragma once

#include <string>
#include <vector>

#include "command_line.h"

namespace millrace {

// Takes it for --resume RUN, --explain-nan RUN, and --weights RUN with --graph. The run keeps its name. False: the command line
// names no folder. Throws Error(usage) for a folder that holds no pipeline.
bool take_file_of_run(CommandLine& line);

// What to write in place of the only argument that is no option, where it is the folder of a run; "": it is none.
std::string advice_for_folder(const std::string& argument);

}  // namespace millrace
