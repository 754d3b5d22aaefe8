// Measures reading small objects from a server on the loopback interface, and the processor time per read on this side. The
// server is Python and shares the machine, so objects per second depend more on it than on the plugin.
//
//   ninja storage_s3_bench && build/release/tests/storage_s3_bench [OBJECTS [THREADS [BYTES]]]
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "millrace/sample.h"
#include "server.h"

namespace {

double seconds_of(const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec); }

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

int main(int count, char** arguments) {
  using namespace millrace;
  using namespace millrace::s3::test;
  const auto argument = [&](int index, int otherwise) { return count > index ? std::atoi(arguments[index]) : otherwise; };
  const int objects = argument(1, 20'000), threads = argument(2, 16), bytes = argument(3, 3000);
  const TemporaryFolder folder;
  for (int i = 0; i < objects; ++i) {
    put(folder.path(), "data", std::to_string(i), content(static_cast<std::size_t>(bytes), static_cast<unsigned>(i)));
  }
  Server server(folder.path(), 1000);
  s3::S3 storage(environment(patient(variables(server.url()))));

  const double start = now();
  std::vector<std::string> names;
  storage.list("s3://data", [&](const Storage::Object& object) { names.push_back(object.name); });
  std::printf("listed %zu objects in %.2f s\n", names.size(), now() - start);

  const double begin = now(), used = processor_seconds();
  std::atomic<std::size_t> next{0};
  {
    std::vector<std::jthread> readers;
    for (int t = 0; t < threads; ++t) {
      readers.emplace_back([&] {
        ByteBuffer buffer;
        for (std::size_t i = next++; i < names.size(); i = next++) storage.read("s3://data/" + names[i], buffer);
      });
    }
  }
  const double wall = now() - begin, processor = processor_seconds() - used;
  std::printf("read %zu objects of %d bytes with %d threads in %.2f s: %.0f objects/s, %.0f us of processor time each\n",
              names.size(), bytes, threads, wall, static_cast<double>(names.size()) / wall,
              1e6 * processor / static_cast<double>(names.size()));
  std::printf("connections: %s, requests: %s\n", server.control("connections").c_str(), server.control("requests").c_str());
}
