// The outcome of requests to a run. Part of observer.h.
#pragma once

#include <cstdint>
#include <string>

namespace millrace {

enum class RequestKind { stop, save, validate, rate_factor, checkpoint };
const char* to_string(RequestKind kind);

// A request by RunControl: sent once when it is made, and once when it is completed or refused.
struct RequestEvent {
  enum class State { asked, completed, refused };
  RequestKind kind = RequestKind::stop;
  State state = State::asked;
  std::string by;          // "signal 15", "observer page"
  int signal = 0;          // signal that caused it; 0: none
  double factor = 1;       // for rate_factor
  std::uint64_t step = 0;  // steps done at completion: the request applies from the next step on
  std::string text;        // completed: the result, such as the file written, or why the run stops; refused: the reason
  double elapsed_seconds = 0;
};

}  // namespace millrace
