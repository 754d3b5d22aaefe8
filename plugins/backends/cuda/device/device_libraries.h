// cuDNN, cuBLASLt and the plans chosen, once per process and GPU.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "cublaslt/api.h"
#include "cudnn/handles.h"
#include "device_plan.h"
#include "plan_cache.h"

namespace millrace::cuda {

struct ChosenPlan {
  std::shared_ptr<const DevicePlan> plan;
  std::string text;  // the saved form of the choice
};

// Shared by all planners of one GPU (library_plans.h), which fill it on first use. Handles take long to create; plans of equal
// shapes and options are the same for all networks. REQUIRES: `mutex` is held.
struct DeviceLibraries {
  std::mutex mutex;  // guards the fields below; held while a plan is made, since planning shares one of cuDNN's handles
  std::shared_ptr<CudnnHandles> cudnn;
  std::shared_ptr<const CublasLtHandle> cublaslt;
  std::unique_ptr<PlanCache> cache;
  std::map<std::string, ChosenPlan> plans;  // by shape and options
};

}  // namespace millrace::cuda
