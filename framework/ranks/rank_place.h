// Which of the processes of a run this one is: what the launcher that started it put into the environment, or options say.
#pragma once

#include <map>
#include <string>

namespace millrace {

using Environment = std::map<std::string, std::string>;
Environment current_environment();

struct RankPlace {
  int rank = 0, ranks = 1;
  std::string master = {};  // "node-1:29500": rank 0 listens there; "": it says where in a folder that all share
  std::string job = {};     // the launcher's name of this start of the job; "": unknown
  std::string source = {};  // "Slurm (SLURM_PROCID=3, SLURM_STEP_NUM_TASKS=8)"; "": the process is alone
  std::string notice = {};  // what the user should know: several tasks were asked for, and this process is alone; or ""
};

// What the command line says; "" where it says nothing.
struct RankOptions {
  std::string rank = {}, ranks = {}, master = {};
};

// Launchers that are known: torchrun and all that set RANK and WORLD_SIZE, Open MPI, MPICH and Intel MPI, Kubeflow Trainer
// (PET_*), Volcano, an indexed Job or JobSet of Kubernetes, other launchers with PMIx (both with --ranks), Slurm. One that starts
// others, as srun starts mpirun's daemons, may count fewer processes than they do; in the shell of one that has started a single
// process, options may say that this is one of several. Throws Error(usage) where two that must agree do not, naming both, where
// one is incomplete, and for a number that is none.
RankPlace find_rank(const RankOptions& options, const Environment& environment);

}  // namespace millrace
