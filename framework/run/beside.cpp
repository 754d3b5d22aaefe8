#include "run/beside.h"

#include "millrace/error.h"

namespace millrace {

void start_beside(Graph& graph, const std::function<void()>& start_thread) {
  try {
    start_thread();
  } catch (...) {
    const Error error = current_error();
    graph.stop();
    graph.resume();
    try {
      graph.wait();
    } catch (const Error&) {  // the first one counts
    }
    throw Error(error);
  }
}

}  // namespace millrace
