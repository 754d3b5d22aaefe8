// Times to an accuracy can be compared where both sides reached it. Pure.
#pragma once

#include <fmt/format.h>

#include <string>

namespace millrace::gpu {

struct TimeToAccuracy {
  double seconds = 0, accuracy = 0;  // of a whole training; accuracy from 0 to 1
};

// Who fell short of `wanted`; empty: nobody did.
inline std::string who_fell_short(const TimeToAccuracy& millrace, const TimeToAccuracy& peer, double wanted) {
  std::string text;
  const auto look = [&](const char* name, double accuracy) {
    if (accuracy >= wanted) return;  // false of NaN
    text += fmt::format("{}{} reached {:.2f} %", text.empty() ? "" : ", ", name, 100 * accuracy);
  };
  look("Millrace", millrace.accuracy);
  look("PyTorch", peer.accuracy);
  return text.empty() ? text : fmt::format("{}; wanted are {:.2f} %", text, 100 * wanted);
}

}  // namespace millrace::gpu
