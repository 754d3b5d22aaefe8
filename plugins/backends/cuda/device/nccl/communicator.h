// Sums of gradients over several NVIDIA devices, of this process and others, by NCCL.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "group.h"
#include "millrace/communicator.h"
#include "watch.h"

namespace millrace::cuda {

// What the communicator needs of one replica's device: a stream of its own there, and marks in it.
class NcclLane {
 public:
  virtual ~NcclLane() = default;
  virtual NcclRank rank() const = 0;
  virtual cudaStream_t stream() const = 0;
  virtual void wait(const Ref<Event>& event) = 0;  // of the stream for the event; null: nothing to wait for
  virtual Ref<Event> record() = 0;
  // In the stream. The rounded values are in memory of the lane's own, the same for each call; `to` gets what is there then.
  virtual void* round(const float* from, std::size_t elements) = 0;
  virtual void widen(float* to, std::size_t elements) = 0;
};

// What is sent and added: float32, or gradients rounded to bf16, half the bytes.
enum class NcclWire { fp32, bf16 };

struct NcclOptions {
  NcclWire wire = NcclWire::fp32;
  NcclLimits limits = {};
  std::chrono::milliseconds connect{180'000};  // for connecting the devices, and for submitting one sum
  std::chrono::milliseconds look{100};         // how often the thread that watches looks at what is under way
  std::chrono::milliseconds end{10'000};       // for what is under way when the communicator is destroyed
};

// The sum of a bucket starts on each device as soon as that device has its gradients, and overlaps whatever else the device does.
//
// Same bits: every replica ends with the same bits, and so does every run on the same devices with the same NCCL. The order of
// the additions is NCCL's own, though: it depends on the number of replicas, on the links between the devices and on the bucket's
// size. So, unlike "local", sums are not in replica order; results differ from "local" within rounding. With bf16 each addition
// rounds, in that order, where "local_bf16" rounds the gradients and their sum alone.
//
// Nothing is broadcast: the framework writes the same initial values, float32, from the host to every replica before the first
// step. Every replica then holds the same bits, as after a broadcast from the first; what is trained stays the same, since every
// replica applies the same sums to it.
//
// Threads: all_reduce() by one thread at a time. A thread of the communicator's own looks after what is under way: it asks NCCL
// for errors and measures time. When something fails it ends communication on all devices, so that all submitted work, and every
// event handed out, comes to an end instead of hanging. The sums are garbage then: check() and the next all_reduce() throw
// Error(device) that names step, bucket and device. The failure is known before the first event completes because of it.
//
// NCCL lets go of a device only when what was submitted there before has come to an end: when a device's own work never ends, the
// failure is reported all the same, but destruction waits.
//
// Destruction: stops that thread, waits for what is under way (and ends it when that takes too long), frees NCCL's communicators,
// then the streams. The replicas' gradients and the devices must outlive it.
class NcclCommunicator : public Communicator {
 public:
  // One lane for each replica of this process, in replica order; no two on one device. Connects them, and with those of other
  // processes. Throws Error(device), and Error(peer) where another process is lost.
  NcclCommunicator(const NcclApi& api, std::vector<std::unique_ptr<NcclLane>> lanes, const NcclWorld& world,
                   const NcclOptions& options);
  ~NcclCommunicator() override;

  void all_reduce(std::span<const Ref<GradientBucket>> buckets) override;

  // Throws what has failed since. From any thread.
  void check();

 private:
  struct Sum {
    Ref<Event> ready, done;
  };
  void submit(std::span<const Ref<GradientBucket>> buckets);
  void observe();  // with the lock
  void watch();
  bool drain();
  void end(const std::string& reason);

  std::optional<std::string> lost() const { return world_.lost ? world_.lost() : std::nullopt; }

  const NcclOptions options_;
  const NcclWorld world_;
  const std::vector<std::unique_ptr<NcclLane>> lanes_;  // before the group: its streams outlive NCCL's use of them
  NcclGroup group_;

  std::mutex mutex_;  // of all that follows; the group's own lock may be taken inside, never the other way round
  std::condition_variable changed_;
  NcclWatch watch_;
  std::vector<std::deque<Sum>> under_way_;  // by replica
  bool stopping_ = false;
  std::thread thread_;
};

// For Registry::add(). With one device NCCL is not even opened and
// buckets stay as they are. Throws Error(usage) for devices of another backend and for two replicas on one device, which NCCL
// cannot do. Of several processes all call it; one that is lost ends the sums of the others, with Error(peer).
std::unique_ptr<Communicator> make_nccl_communicator(const CommunicatorType::Setting& setting, NcclWire wire);

// The part of it that meets the other processes, over an NCCL that is open. Whatever it throws, they learn that this one will
// not come.
std::unique_ptr<Communicator> join_processes(const NcclApi& api, std::vector<std::unique_ptr<NcclLane>> lanes,
                                             const CommunicatorType::Setting& setting, NcclWire wire);

}  // namespace millrace::cuda
