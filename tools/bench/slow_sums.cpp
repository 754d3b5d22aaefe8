// Sums over the replicas of one process, with a simulated network speed: used by tools/bench/ranks_pair.py.
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>

#include "millrace/backend/backend.h"
#include "millrace/communicator.h"
#include "millrace/plugin.h"

namespace {

using namespace millrace;

// Buckets cross the network one after the other, while backward computes the next ones. MILLRACE_SLOW_SUMS is its speed in bytes
// per second, 0: unlimited. The file named by MILLRACE_SLOW_SUMS_LOG gets a line for each bucket: its number and its bytes.
class SlowSums final : public Communicator {
 public:
  explicit SlowSums(std::span<Device* const> devices) : stream_(devices[0]->make_stream("slow sums")) {
    if (const char* const speed = std::getenv("MILLRACE_SLOW_SUMS")) speed_ = std::atof(speed);
  }
  ~SlowSums() override {
    const char* const path = std::getenv("MILLRACE_SLOW_SUMS_LOG");
    if (path == nullptr) return;
    std::ofstream log(path);
    for (const auto& [bucket, bytes] : bytes_) log << bucket << ' ' << bytes << '\n';
  }

  void all_reduce(std::span<const Ref<GradientBucket>> buckets) override {
    GradientBucket& first = *buckets[0];
    std::vector<const float*> all;
    for (const auto& bucket : buckets) {
      stream_->wait(bucket->ready);
      all.push_back(bucket->data);
    }
    const std::size_t bytes = bytes_[first.bucket] = first.elements * sizeof(float);
    if (speed_ > 0) {
      const std::chrono::duration<double> takes(static_cast<double>(bytes) / speed_);
      stream_->call([takes] { std::this_thread::sleep_for(takes); });
    }
    stream_->sum(first.data, all, first.elements);
    for (const auto& bucket : buckets.subspan(1)) stream_->copy(bucket->data, first.data, first.elements);
    for (const auto& bucket : buckets) bucket->ready = stream_->record();
  }

 private:
  const std::unique_ptr<Stream> stream_;
  double speed_ = 0;
  std::map<int, std::size_t> bytes_;  // by bucket
};

}  // namespace

MILLRACE_PLUGIN("slow_sums", "1.0", "Sums of gradients that take as long as over a network.") {
  registry.add(CommunicatorType{{"slow_sums", "simulates a network of a given speed"}, "", [](const auto& setting) {
                                  return std::make_unique<SlowSums>(setting.devices);
                                }});
}
