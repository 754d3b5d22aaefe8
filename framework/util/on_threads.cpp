#include "millrace/util/on_threads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <iterator>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "millrace/error.h"

namespace millrace {
namespace {

std::ptrdiff_t threads_of_process() {
  std::error_code ignored;
  return std::distance(std::filesystem::directory_iterator("/proc/self/task", ignored), std::filesystem::directory_iterator());
}

}  // namespace

void try_threads(std::size_t count) {
  const std::ptrdiff_t before = threads_of_process();
  std::vector<std::jthread> threads;
  {
    std::promise<void> all_tried;  // its end lets them go
    const std::shared_future<void> end = all_tried.get_future().share();
    for (std::size_t i = 0; i < count; ++i) threads.emplace_back([end] { end.wait(); });
  }
  threads.clear();
  // A thread that has been joined still counts for a moment.
  constexpr auto kPatience = std::chrono::milliseconds(200);  // other threads may have been started meanwhile
  const auto last = std::chrono::steady_clock::now() + kPatience;
  while (threads_of_process() > before && std::chrono::steady_clock::now() < last)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

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
