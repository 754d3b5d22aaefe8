// Manual pages, made from the data of --help.
#pragma once

#include <string>
#include <vector>

#include "common/completion.h"

namespace millrace {

struct ProgramText {
  std::string program;  // "pipeline-data", or with a verb "pipeline-data show"
  std::string usage;    // the command line after it
  std::string text;     // its purpose; the first sentence is the line of `man -k`
  std::vector<OptionText> options;
};

// Exit codes common to all programs. A run has more.
struct ExitText {
  const char* code;
  const char* text;
};
inline constexpr ExitText kExits[] = {
    {"0", "Done."},
    {"1", "The run or a check failed, or an output cannot be written."},
    {"2", "The command line or the file is wrong."},
    {"3", "The data is unusable."},
    {"4", "A device failed."},
    {"75", "A server or a storage did not answer: try again."},
    {"129, 130, 143", "A signal stopped it, after it had saved: SIGHUP, SIGINT or SIGTERM."},
    {"138", "Another process of the run was lost."},
};

std::string manual_page(const ProgramText& text);

// The same in parts, for a program with verbs: the start, a section for each verb, the end.
std::string manual_start(const ProgramText& text);
std::string manual_section(const ProgramText& verb);
std::string manual_end(const std::string& program);

}  // namespace millrace
