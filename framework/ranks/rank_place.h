// This process's rank in the run, from its launcher's environment or from options.
#pragma once

#include <map>
#include <string>

namespace millrace {

using Environment = std::map<std::string, std::string>;
Environment current_environment();

struct RankPlace {
  int rank = 0, ranks = 1;
  std::string master = {};  // "node-1:29500": address where rank 0 listens; "": it publishes its address in a shared folder
  std::string job = {};     // the launcher's identifier of this start of the job; "": unknown
  std::string source = {};  // "Slurm (SLURM_PROCID=3, SLURM_STEP_NUM_TASKS=8)"; "": a single process
  std::string notice = {};  // a notice for the user if several tasks were requested but this process is alone; else ""
};

// Command-line options; "" if not given.
struct RankOptions {
  std::string rank = {}, ranks = {}, master = {};
};

// Supported launchers: torchrun and all that set RANK and WORLD_SIZE, Open MPI, MPICH and Intel MPI, Kubeflow Trainer (PET_*),
// Volcano, an indexed Job or JobSet of Kubernetes, other launchers with PMIx (both with --ranks), Slurm. An outer launcher, such
// as srun starting mpirun's daemons, may count fewer processes. In the shell of a launcher that started a single process,
// options may declare several. Throws Error(usage) for contradictions, naming both sides, for an incomplete launcher, and for an
// invalid number.
RankPlace find_rank(const RankOptions& options, const Environment& environment);

}  // namespace millrace
