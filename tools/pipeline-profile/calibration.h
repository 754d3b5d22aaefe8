// Measurements from some steps of a pipeline, as input of models: a simulation (simulation.h), a closed form (forecast.h). A
// Profile (profile.h) is the user's view of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "all_reduce.h"
#include "simulation.h"

namespace millrace {

// Time of some threads: on a core, and waiting for one.
struct CoreTime {
  double seconds = 0, waited = 0;
  CoreTime& operator+=(const CoreTime& other);
  CoreTime& operator-=(const CoreTime& other);
  // The fraction of their runnable time in which they had a core; 1 if nothing was measured.
  double share() const { return seconds + waited > 0 ? seconds / (seconds + waited) : 1; }
};

// The work between two measurements of a run.
struct Window {
  double seconds = 0;
  double steps = 0;  // computed by devices, or batches without a device
  struct Stage {
    double busy = 0;  // seconds of threads
    std::uint64_t packets = 0, samples = 0;
    double computing = 0;  // seconds of cores
  };
  std::vector<Stage> stages = {};    // parallel to RunFacts::stages
  double submit_seconds = 0;         // core time in the stages after the batch
  double device_seconds = 0;         // computing and copying, over the replicas of this process
  std::uint64_t device_samples = 0;  // over the replicas of this process
  double reduce_seconds = 0;         // for sums of gradients; 0 if not measured
  double exposed_seconds = 0;        // replicas waiting only for sums, over the replicas of this process
  double waited_for_data = 0;
  CoreTime io = {}, data = {}, device = {};  // threads of this process; `device`: all except those of I/O and of data stages
  double other_seconds = 0;                  // other programs on this process's cores

  Window& operator+=(const Window& other);
};

// How steps share the host's cores.
struct StepShare {
  int cores = 1, replicas = 1;
  std::uint32_t batch = 1;  // over all replicas
  friend bool operator==(const StepShare&, const StepShare&) = default;
};
// A replica's needs when only steps use the cores.
struct StepsAlone {
  StepShare share;
  double sample_seconds = 0, runnable = 1;  // `runnable`: average number of threads that want a core
};

struct DeviceFacts {
  int replicas = 0;  // over all ranks
  int here = 0;      // those of this process
  std::string backend = {};
  int threads = 0;  // per replica, on this machine's cores; 0 if it has its own device
  bool submits_ahead = false;
  double fixed_share = 0;     // fraction of a step's time that is independent of its batch; measured by fixed_share_of()
  bool may_use_bf16 = false;  // bf16 would be faster than the run's float32
  std::vector<double> load = {};
  std::vector<double> bucket_bytes = {};     // in the order of filling
  std::vector<double> bucket_ready = {};     // the fraction of forward and backward after which each is filled
  std::vector<StepsAlone> alone = {};        // measured for the questions
  std::optional<NetworkModel> network = {};  // between replicas, one per process; empty if they share this process
};

// Constant facts of a run.
struct RunFacts {
  std::string graph = {};
  int cores = 1;
  int threads = 1, io_threads = 1;
  bool threads_are_chosen = false;       // the file leaves them to the run
  std::uint32_t batch = 1, buffers = 1;  // `batch`: over all ranks
  double batch_here = 1;                 // this process's part of `batch`
  bool batch_is_chosen = false;
  std::uint32_t chunk = 0;  // 0: chosen during the run
  struct Stage {
    std::string name;
    bool serial = false;
  };
  std::vector<Stage> stages = {};  // the source, and all up to the batch
  DeviceFacts devices = {};
  int image_side = 0;        // root of the number of pixels that the network sees; 0 if unknown
  double source_pixels = 0;  // average pixels of an image file; 0 if unknown
};

struct Calibration {
  RunFacts facts;
  std::vector<Window> windows = {};  // consecutive, after the warm-up

  Window sum() const { return sum_of(windows); }
  double images_per_second() const;

  static Window sum_of(const std::vector<Window>& windows);
};

// The graph as measured in these windows. Times are those of a thread with a core to itself: waiting for cores is removed, and
// returns in the simulation if its threads are too many.
SimulatedGraph graph_of(const RunFacts& facts, const std::vector<Window>& windows);

// Assigns cores to the graph's threads like a run, and as many data threads as a run would make if it may choose.
void share_cores_of(SimulatedGraph& graph, bool threads_are_chosen);

// The message if other programs wanted this many cores during the measurement: "" if it makes no difference.
std::string busy_text(double other_threads);

// From a second measurement with a smaller batch.
double fixed_share_of(const Calibration& whole, const Calibration& smaller);

// The chunk size that the run would choose for this graph.
std::uint32_t chunk_for(const RunFacts& facts, const SimulatedData& data);

}  // namespace millrace
