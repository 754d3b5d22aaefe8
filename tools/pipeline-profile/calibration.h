// What some steps of a pipeline have measured, for models to be made of it: a simulation (simulation.h), a closed form
// (forecast.h). What a user is told of a run is a Profile (profile.h).
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
  // The part of the time in which they could have computed that they did compute in; 1 where nothing was measured.
  double share() const { return seconds + waited > 0 ? seconds / (seconds + waited) : 1; }
};

// What was done between two looks at a run.
struct Window {
  double seconds = 0;
  double steps = 0;  // that devices have done, or batches where there is none
  struct Stage {
    double busy = 0;  // seconds of threads
    std::uint64_t packets = 0, samples = 0;
    double computing = 0;  // seconds of cores
  };
  std::vector<Stage> stages = {};    // as RunFacts::stages
  double submit_seconds = 0;         // of cores, in the stages after the batch
  double device_seconds = 0;         // of computing and copying, over the replicas of this process
  std::uint64_t device_samples = 0;  // over the replicas of this process
  double reduce_seconds = 0;         // of sums of gradients; 0 where they are not measured
  double exposed_seconds = 0;        // of replicas that waited for sums alone, over the replicas of this process
  double waited_for_data = 0;
  CoreTime io = {}, data = {}, device = {};  // threads of this process; `device`: all but those of I/O and of data stages
  double other_seconds = 0;                  // of this process's cores, in other programs

  Window& operator+=(const Window& other);
};

// How steps share the host's cores.
struct StepShare {
  int cores = 1, replicas = 1;
  std::uint32_t batch = 1;  // of all replicas
  friend bool operator==(const StepShare&, const StepShare&) = default;
};
// What a replica then needs, where nothing but steps has a core.
struct StepsAlone {
  StepShare share;
  double sample_seconds = 0, runnable = 1;  // `runnable`: threads that want a core, on average
};

struct DeviceFacts {
  int replicas = 0;  // of all ranks
  int here = 0;      // of them those of this process
  std::string backend = {};
  int threads = 0;  // of a replica, on this machine's cores; 0: it has its own device
  bool submits_ahead = false;
  double fixed_share = 0;     // of a step's time, what does not depend on its batch; fixed_share_of() measures it
  bool may_use_bf16 = false;  // it multiplies bf16 faster than float32, which the run uses
  std::vector<double> load = {};
  std::vector<double> bucket_bytes = {};     // in the order in which they are filled
  std::vector<double> bucket_ready = {};     // the part of forward and backward after which each is filled
  std::vector<StepsAlone> alone = {};        // what questions ask for was measured
  std::optional<NetworkModel> network = {};  // between replicas, each of which has a process; none: they share this one
};

// What does not change while it runs.
struct RunFacts {
  std::string graph = {};
  int cores = 1;
  int threads = 1, io_threads = 1;
  bool threads_are_chosen = false;       // the file leaves them to the run
  std::uint32_t batch = 1, buffers = 1;  // `batch`: of all ranks
  double batch_here = 1;                 // of `batch`, what this process computes
  bool batch_is_chosen = false;
  std::uint32_t chunk = 0;  // 0: chosen as the run goes
  struct Stage {
    std::string name;
    bool serial = false;
  };
  std::vector<Stage> stages = {};  // the source, and all up to the batch
  DeviceFacts devices = {};
  int image_side = 0;        // of what the network sees, the root of its pixels; 0: not known
  double source_pixels = 0;  // of an image in its file, on average; 0: not known
};

struct Calibration {
  RunFacts facts;
  std::vector<Window> windows = {};  // after the warm-up, one after the other

  Window sum() const { return sum_of(windows); }
  double images_per_second() const;

  static Window sum_of(const std::vector<Window>& windows);
};

// The graph as these windows measured it. Times are those of a thread that has a core to itself: what threads waited for cores is
// taken out, and comes back where the simulated threads are too many.
SimulatedGraph graph_of(const RunFacts& facts, const std::vector<Window>& windows);

// Gives threads of the graph the cores that a run would, and makes as many data threads as it would if it may choose.
void share_cores_of(SimulatedGraph& graph, bool threads_are_chosen);

// What is said where other programs wanted so many cores while a run was measured: "" where it makes no difference.
std::string busy_text(double other_threads);

// By a second measurement, with a smaller batch.
double fixed_share_of(const Calibration& whole, const Calibration& smaller);

// The size of chunks that the run would choose for this graph.
std::uint32_t chunk_for(const RunFacts& facts, const SimulatedData& data);

}  // namespace millrace
