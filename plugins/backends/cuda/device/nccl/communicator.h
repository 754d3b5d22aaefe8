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

// The communicator's interface to one replica's device: a separate stream there, and its marks.
class NcclLane {
 public:
  virtual ~NcclLane() = default;
  virtual NcclRank rank() const = 0;
  virtual cudaStream_t stream() const = 0;
  virtual void wait(const Ref<Event>& event) = 0;  // makes the stream wait for the event; null: does nothing
  virtual Ref<Event> record() = 0;
  // Rounds in the stream. The rounded values are in the lane's memory, the same for each call; `to` receives its contents.
  virtual void* round(const float* from, std::size_t elements) = 0;
  virtual void widen(float* to, std::size_t elements) = 0;
};

// Type of the values sent and summed: float32, or gradients rounded to bf16, half the bytes.
enum class NcclWire { fp32, bf16 };

struct NcclOptions {
  NcclWire wire = NcclWire::fp32;
  NcclLimits limits = {};
  std::chrono::milliseconds connect{180'000};  // for connecting the devices, and for submitting one sum
  std::chrono::milliseconds look{100};         // polling interval of the watching thread
  std::chrono::milliseconds end{10'000};       // for pending work at destruction
};

// The sum of a bucket starts on each device as soon as that device has its gradients, and overlaps its other work.
//
// Reproducibility: every replica ends with identical bits, and so does every run on the same devices with the same NCCL. NCCL
// chooses the order of additions: it depends on the number of replicas, on the links between the devices and on the bucket's
// size. So, unlike "local", sums are not in replica order; results differ from "local" within rounding. With bf16 each addition
// rounds, in that order, while "local_bf16" only rounds the gradients and their sum.
//
// Nothing is broadcast: the framework writes the same initial values, float32, from the host to every replica before the first
// step. Every replica then has identical bits, as after a broadcast; parameters stay identical because every replica applies the
// same sums.
//
// Threading: all_reduce() from one thread at a time. The communicator's own thread watches pending sums: it polls NCCL for errors
// and measures time. On failure it ends communication on all devices, so that all submitted work and every returned event
// completes instead of hanging. The sums are invalid then: check() and the next all_reduce() throw Error(device) with step,
// bucket and device. The failure is recorded before it completes the first event.
//
// NCCL releases a device only after earlier work there has finished: if a device's own work never ends, the failure is still
// reported, but destruction waits.
//
// Destruction: stops that thread, waits for pending sums (and aborts them after a time limit), frees NCCL's communicators, then
// the streams. The replicas' gradients and the devices must outlive it.
class NcclCommunicator : public Communicator {
 public:
  // One lane for each replica of this process, in replica order, each on another device. Connects them with each other and with
  // those of other processes. Throws Error(device), and Error(peer) if another process is lost.
  NcclCommunicator(const NcclApi& api, std::vector<std::unique_ptr<NcclLane>> lanes, const NcclWorld& world,
                   const NcclOptions& options);
  ~NcclCommunicator() override;

  void all_reduce(std::span<const Ref<GradientBucket>> buckets) override;

  // Throws the failure, if any. From any thread.
  void check();

 private:
  struct Sum {
    Ref<Event> ready, done;
  };
  void submit(std::span<const Ref<GradientBucket>> buckets);
  void observe();  // REQUIRES: the lock is held
  void watch();
  bool drain();
  void end(const std::string& reason);

  std::optional<std::string> lost() const { return world_.lost ? world_.lost() : std::nullopt; }

  const NcclOptions options_;
  const NcclWorld world_;
  const std::vector<std::unique_ptr<NcclLane>> lanes_;  // before the group: streams must outlive NCCL's use of them
  NcclGroup group_;

  std::mutex mutex_;  // guards the fields below; the group's lock may be taken inside, never the other way round
  std::condition_variable changed_;
  NcclWatch watch_;
  std::vector<std::deque<Sum>> under_way_;  // by replica
  bool stopping_ = false;
  std::thread thread_;
};

// For Registry::add(). With one device NCCL is not loaded and buckets stay unchanged. Throws Error(usage) for devices of another
// backend and for two replicas on one device, which NCCL cannot do. With several processes all call it; a lost one ends the sums
// of the others with Error(peer).
std::unique_ptr<Communicator> make_nccl_communicator(const CommunicatorType::Setting& setting, NcclWire wire);

// The part of it that meets the other processes, over an NCCL that is open. Whatever it throws, they learn that this one will
// not come.
std::unique_ptr<Communicator> join_processes(const NcclApi& api, std::vector<std::unique_ptr<NcclLane>> lanes,
                                             const CommunicatorType::Setting& setting, NcclWire wire);

}  // namespace millrace::cuda
