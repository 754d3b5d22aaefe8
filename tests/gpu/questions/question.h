// A question to the device.
#pragma once

#include <span>
#include <string>

#include "findings.h"

namespace millrace::gpu {

struct Setting {
  std::string program;     // the path of this one, for a question that needs a second process
  std::string deviceless;  // "sm90": no device is touched, engines are asked about for this one; empty: the first device
};

// Runs in a process of its own, before which no CUDA call was made there. Throws what went wrong; what was saved till then stays.
struct Question {
  const char* name;
  const char* text;
  double seconds;   // that it should take where 15 are the limit of its process, which alone ends it
  bool deviceless;  // can be asked about a device that is not here
  void (*ask)(const Setting& setting, Findings& findings);
};

// In the order of what they are worth; the first says whether there is a device.
std::span<const Question> all_questions();

// The two processes of the question "nccl_two": this is the second, which the first one starts.
void be_second_rank(const std::string& id_file, Findings& findings);

}  // namespace millrace::gpu
