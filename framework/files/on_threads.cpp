#include "millrace/util/on_threads.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "millrace/error.h"

namespace millrace {

void on_threads(std::size_t count, std::size_t threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::vector<std::optional<Error>> errors(count);
  const auto body = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        errors[i] = current_error();
        next = count;
      }
    }
  };
  std::vector<std::jthread> others;  // also joined if the system cannot start more
  for (std::size_t i = 1; i < std::min(count, threads); ++i) others.emplace_back(body);
  body();
  for (std::jthread& other : others) other.join();
  for (const std::optional<Error>& error : errors) {
    if (error) throw Error(*error);
  }
}

}  // namespace millrace
