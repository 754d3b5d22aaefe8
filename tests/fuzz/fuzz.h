// The parts of a fuzz target, and the driver that runs it without libFuzzer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

// Reads the bytes like their reader. Catches the errors that it may throw; anything else is a finding.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace millrace::fuzz {

// Initial inputs: some of every supported kind, and those that once caused failures.
std::vector<std::string> seeds();

// Reports a guarantee that the input violated.
inline void require(bool kept, const char* promise) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

}  // namespace millrace::fuzz
