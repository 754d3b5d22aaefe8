// Environments of launchers, copied from their documentation.
#include "ranks/rank_place.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "millrace/error.h"

namespace millrace {
namespace {

struct Case {
  const char* name;
  Environment environment;
  RankOptions options;
  std::string expected;  // "rank of ranks @ master, job", or part of a message
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

std::string outcome(const Case& one) {
  try {
    const RankPlace place = find_rank(one.options, one.environment);
    return fmt::format("{} of {} @ {}, {}{}", place.rank, place.ranks, place.master, place.job,
                       place.notice.empty() ? "" : "; " + place.notice);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.message();
  }
}

class Launchers : public testing::TestWithParam<Case> {};
TEST_P(Launchers, SayWhichRankThisIs) {
  EXPECT_NE(outcome(GetParam()).find(GetParam().expected), std::string::npos) << outcome(GetParam());
}

const Environment kMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                          {"OMPI_COMM_WORLD_SIZE", "8"},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                          {"PMIX_RANK", "3"},
                          {"PMIX_NAMESPACE", "prterun-n1-77@1"}};
const Environment kSlurm = {{"SLURM_JOB_ID", "42"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "4"},
                            {"SLURM_NTASKS", "4"},  {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "2"}};
const Environment kTorchrun = {{"RANK", "5"},
                               {"LOCAL_RANK", "1"},
                               {"WORLD_SIZE", "8"},
                               {"MASTER_ADDR", "node-0"},
                               {"MASTER_PORT", "29400"},
                               {"TORCHELASTIC_RUN_ID", "abc"}};
const Environment kKubeflow = {{"PET_NNODES", "4"},          {"PET_NPROC_PER_NODE", "auto"},
                               {"PET_NODE_RANK", "1"},       {"PET_MASTER_ADDR", "job-node-0-0.job"},
                               {"PET_MASTER_PORT", "29500"}, {"JOB_COMPLETION_INDEX", "1"}};
const Environment kVolcano = {
    {"VC_TASK_INDEX", "1"}, {"VK_TASK_INDEX", "1"}, {"VC_WORKER_NUM", "2"}, {"VC_WORKER_HOSTS", "tr-worker-0.tr,tr-worker-1.tr"}};
const Environment kJobSet = {{"JOB_COMPLETION_INDEX", "3"}, {"HOSTNAME", "workers-0-3"}};

Environment operator+(Environment a, const Environment& b) {
  for (const auto& [name, value] : b) a[name] = value;
  return a;
}

INSTANTIATE_TEST_SUITE_P(
    All, Launchers,
    testing::Values(
        Case{"none", {{"HOME", "/root"}}, {}, "0 of 1 @ , "}, Case{"open_mpi", kMpi, {}, "3 of 8 @ , prterun-n1-77@1"},
        Case{"slurm", kSlurm, {}, "2 of 4 @ , 42.0."},
        Case{"mpich", {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, {.master = "n:1"}, "1 of 2 @ n:1, "},
        Case{"slurm_and_its_pmi2", kSlurm + Environment{{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}}, {}, "2 of 4 @ , 42.0."},
        Case{"a_rank_of_others", {{"PMI_RANK", "1"}}, {}, "0 of 1"},
        Case{"slurm_and_its_pmix", kSlurm + Environment{{"PMIX_RANK", "2"}, {"PMIX_NAMESPACE", "slurm.pmix.42.0"}}, {}, "2 of 4"},
        Case{"sbatch_without_srun",
             {{"SLURM_JOB_ID", "42"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}},
             {},
             "0 of 1 @ , ; Slurm has given this job 4 tasks, but this process runs alone: start it with srun"},
        Case{"a_requeued_job", kSlurm + Environment{{"SLURM_RESTART_COUNT", "2"}}, {}, "2 of 4 @ , 42.0.2"},
        Case{"torchrun", kTorchrun, {}, "5 of 8 @ node-0:29400, abc"},
        Case{"an_address_of_version_6", kTorchrun + Environment{{"MASTER_ADDR", "fd00::1"}}, {}, "5 of 8 @ [fd00::1]:29400"},
        Case{"torchrun_that_listens_itself",
             kTorchrun + Environment{{"TORCHELASTIC_USE_AGENT_STORE", "True"}},
             {},
             "@ node-0:29401"},
        Case{"kubeflow", kKubeflow, {}, "1 of 4 @ job-node-0-0.job:29500"},
        Case{"volcano", kVolcano, {}, "1 of 2 @ tr-worker-0.tr:29500"},
        Case{"volcano_with_two_tasks",
             kVolcano + Environment{{"VC_MASTER_NUM", "1"}},
             {},
             "0 of 1 @ , ; Volcano (VC_TASK_INDEX=1)"},
        Case{"jobset", kJobSet, {.ranks = "4", .master = "workers-0-0.workers"}, "3 of 4 @ workers-0-0.workers:29500"},
        Case{"an_indexed_job_of_single_runs",
             kJobSet,
             {},
             "0 of 1 @ , ; Kubernetes (JOB_COMPLETION_INDEX=3) does not set the number of"},
        Case{"pmix_alone", {{"PMIX_RANK", "1"}}, {.ranks = "2", .master = "n:1"}, "1 of 2 @ n:1"},
        Case{"options", {}, {"1", "2", "10.0.0.1:4000"}, "1 of 2 @ 10.0.0.1:4000"},
        Case{"a_master_elsewhere", kTorchrun, {.master = "10.0.0.9"}, "5 of 8 @ 10.0.0.9:29500"},
        Case{"torchrun_on_each_node_of_slurm", kTorchrun + kSlurm, {}, "5 of 8"},
        Case{"mpirun_within_slurm", kMpi + kSlurm, {}, "3 of 8"},
        Case{"contradiction",
             kTorchrun + kMpi,
             {},
             "torchrun (RANK=5, WORLD_SIZE=8) and Open MPI (OMPI_COMM_WORLD_RANK=3, OMPI_COMM_WORLD_SIZE=8) contradict each "
             "other"},
        Case{"a_stray_variable",
             kSlurm + Environment{{"RANK", "0"}, {"WORLD_SIZE", "1"}},
             {},
             "and Slurm (SLURM_PROCID=2, SLURM_STEP_NUM_TASKS=4)"},
        Case{"options_against_a_launcher", kSlurm, {.rank = "0"}, "the command line (--rank=0) and Slurm (SLURM_PROCID=2"},
        Case{"options_in_a_shell_of_slurm",
             kSlurm + Environment{{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}},
             {"1", "2", "n:1"},
             "1 of 2 @ n:1, "},
        Case{"a_half", {{"RANK", "1"}}, {}, "torchrun (RANK=1) is incomplete: WORLD_SIZE is not set"},
        Case{"half_an_option", {}, {.rank = "1"}, "--rank and --ranks belong together"},
        Case{"a_master_of_nobody", {}, {.master = "n"}, "--master belongs to --rank and --ranks"},
        Case{"no_number", {{"RANK", "one"}, {"WORLD_SIZE", "2"}}, {}, "RANK = 'one' must be a rank from 0 to"},
        Case{"a_rank_too_far", {{"RANK", "2"}, {"WORLD_SIZE", "2"}}, {}, "rank 2 is none of 2"}),
    [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace millrace
