// What becomes of what a run is asked for. Part of observer.h.
#pragma once

#include <cstdint>
#include <string>

namespace millrace {

enum class RequestKind { stop, save, validate, rate_factor, checkpoint };
const char* to_string(RequestKind kind);

// What a RunControl was asked for: once when it was asked, and once when that was completed or refused.
struct RequestEvent {
  enum class State { asked, completed, refused };
  RequestKind kind = RequestKind::stop;
  State state = State::asked;
  std::string by;          // "signal 15", "observer page"
  int signal = 0;          // that asked for it; 0: none did
  double factor = 1;       // of rate_factor
  std::uint64_t step = 0;  // steps done when it was completed: the next one is the first that it concerns
  std::string text;        // completed: what was done, such as the file that was written, or why the run stops; refused: why
  double elapsed_seconds = 0;
};

}  // namespace millrace
