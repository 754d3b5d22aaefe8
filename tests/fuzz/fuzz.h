// What a fuzz target is made of, and the driver that runs it without libFuzzer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

// Reads the bytes as their reader would. Errors that it may throw are caught; anything else is a finding.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace millrace::fuzz {

// Inputs to begin with: some of every kind that is understood, and those that were found to make trouble once.
std::vector<std::string> seeds();

// A promise that the input broke.
inline void require(bool kept, const char* promise) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

}  // namespace millrace::fuzz
