// Chooses library plans of one device, once per shape. Apart from cuda_machine.cpp, so that other tests need no library.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "cublaslt/api.h"
#include "cublaslt/linear.h"
#include "cuda_machine.h"
#include "cudnn/convolution.h"
#include "cudnn/handles.h"
#include "errors.h"
#include "plan_options.h"
#include "runtime/engine_trial.h"
#include "runtime/plan_record.h"

namespace millrace::cuda {

struct ChosenPlan {
  std::shared_ptr<const DevicePlan> plan;
  std::string text;  // the saved form of the choice
};

// cuDNN, cuBLASLt and the plans chosen, once per process and GPU: shared by all planners of one GPU, which fill it on first use.
// Handles take long to create; plans of equal shapes and options are the same for all networks. REQUIRES: `mutex` is held.
struct DeviceLibraries {
  std::mutex mutex;  // guards the fields below; held while a plan is made, since planning shares one of cuDNN's handles
  std::shared_ptr<CudnnHandles> cudnn;
  std::shared_ptr<const CublasLtHandle> cublaslt;
  std::map<std::string, ChosenPlan> plans;  // by shape and options
};

namespace {

using Warn = std::function<void(std::string_view)>;

constexpr const char* kCudnn = "cuDNN";
constexpr const char* kCublasLt = "cuBLASLt";

// Tries the plans of one shape, and remembers the failures.
class Tries {
 public:
  template <class Shape>
  Tries(Machine& machine, Queue& queue, const Shape& shape)
      : about_(text_of(shape)), trial_(machine, queue, TrialOperands::of(shape)) {}

  std::optional<double> run(const LibraryPlan& plan, bool timed, std::string& why_not) {
    const auto seconds = trial_.run(plan, timed, why_not);
    if (seconds) return seconds;
    ++failed_;
    last_ = fmt::format("{}: {}", plan.engine(), why_not);
    return std::nullopt;
  }
  void report(const Warn& warn, const LibraryPlan& taken) const {
    if (failed_ == 0) return;
    warn(fmt::format("of the engines for the {}, {} failed ({}); {} is taken", about_, failed_, last_, taken.engine()));
  }

 private:
  const std::string about_;
  EngineTrial trial_;
  std::size_t failed_ = 0;
  std::string last_;
};

}  // namespace

bool compiles_by_environment() {
  const char* value = std::getenv("MILLRACE_CUDA_RUNTIME_COMPILATION");
  const std::string_view text = value == nullptr ? "" : value;
  if (!text.empty() && text != "0" && text != "1")
    fail(ErrorKind::usage, "MILLRACE_CUDA_RUNTIME_COMPILATION = '{}': expected 0 or 1", text);
  return text != "0";
}

// Makes plans, and shares one among equal shapes. Every engine runs once on scratch memory before it is returned
// (engine_trial.h); failing ones are skipped with a warning. Libraries are loaded on first use. Choices that took long, because
// engines were timed or compiled at run time, are stored (Machine::choices()) by shape and options; the heuristics take about 10
// ms and run again in each process. Plans may outlive the planner. Choices saved by an earlier run take precedence
// (plan_record.h). Thread-safe; the device becomes the calling thread's current one.
class LibraryPlanner {
 public:
  // `machine` must outlive it.
  LibraryPlanner(Machine& machine, std::shared_ptr<DeviceLibraries> libraries, const PlanOptions& options,
                 const std::string& saved)
      : machine_(machine),
        libraries_(std::move(libraries)),
        options_(options),
        warn_([&machine](std::string_view message) { machine.warn(message); }),
        record_(saved, warn_) {
    record_.here("device", machine_.info().name);
    record_.here("deterministic", options_.deterministic ? "true" : "false");
  }

  ~LibraryPlanner() {
    cudaSetDevice(machine_.info().index);  // for the libraries' destructors
  }

  LibraryPlanner(const LibraryPlanner&) = delete;
  LibraryPlanner& operator=(const LibraryPlanner&) = delete;

  // Throw Error(usage) if the library has no engine, Error(device) if it is missing or fails.
  std::shared_ptr<const LibraryPlan> convolution(const ConvolutionShape& shape) {
    const std::lock_guard lock(libraries_->mutex);
    use_device(machine_.info().index);
    open_cudnn();
    return known_or(kCudnn, text_of(shape),
                    [&](const std::string& name, const Saved& saved) { return make_convolution(shape, name, saved); });
  }

  std::shared_ptr<const LibraryPlan> linear(const LinearShape& shape) {
    const std::lock_guard lock(libraries_->mutex);
    use_device(machine_.info().index);
    open_cublaslt();
    return known_or(kCublasLt, text_of(shape),
                    [&](const std::string& name, const Saved& saved) { return make_linear(shape, name, saved); });
  }

  std::string record() const { return record_.text(); }  // all choices, for a later run

 private:
  using Saved = std::optional<std::string>;

  // Everything that may change the choice except device and versions.
  std::string key(const std::string& text) const {
    return fmt::format("{}{}{}{}, workspace {}", text, options_.tune == Tune::measure ? ", measured uncached" : "",
                       options_.deterministic ? ", deterministic" : "", options_.compiles ? "" : ", nothing compiled",
                       options_.workspace_limit);
  }

  // This planner's existing plan; else the process's, unless an earlier run saved another choice; else a new one.
  template <class Make>
  std::shared_ptr<const LibraryPlan> known_or(const char* library, const std::string& about, const Make& make) {
    const std::string name = key(about);
    std::shared_ptr<const LibraryPlan>& plan = plans_[name];
    if (plan) return plan;
    const Saved saved = record_.find(library, about);
    const auto known = libraries_->plans.find(name);
    const bool takes_known = known != libraries_->plans.end() && (!saved || *saved == known->second.text);
    const ChosenPlan chosen = takes_known ? known->second : make(name, saved);
    if (saved && chosen.text != *saved) record_.refused(library, about);
    if (!saved && !takes_known) libraries_->plans[name] = chosen;
    record_.put(library, about, chosen.text);
    return plan = chosen.plan;
  }

  void open_cudnn() {
    auto& cudnn = libraries_->cudnn;
    if (!cudnn) cudnn = std::make_shared<CudnnHandles>(std::make_shared<const CudnnApi>());
    name_library(kCudnn, cudnn->api().version());
  }

  void open_cublaslt() {
    auto& cublaslt = libraries_->cublaslt;
    if (!cublaslt) cublaslt = std::make_shared<const CublasLtHandle>(std::make_shared<const CublasLtApi>());
    name_library(kCublasLt, cublaslt->api().version());
  }

  void name_library(const char* name, std::size_t version) {
    if (named_.insert(name).second) record_.library(name, std::to_string(version));
  }

  // Choices that took long, for later processes.
  Saved kept(const std::string& name) const { return machine_.choices().find("choice for " + name); }
  void keep(const std::string& name, const std::string& choice) { machine_.choices().put("choice for " + name, choice, warn_); }

  Queue& trials() {
    if (!trials_) trials_ = machine_.make_queue("trials of engines");
    return *trials_;
  }

  ChosenPlan make_convolution(const ConvolutionShape& shape, const std::string& name, const Saved& saved) {
    const auto& handles = libraries_->cudnn;
    const bool measured = options_.tune == Tune::measure;
    Tries tries(machine_, trials(), shape);
    const auto attempt = [&](bool timed) {
      return [&, timed](const std::shared_ptr<const ConvolutionChoice>& choice, std::string& why_not) {
        return tries.run(ConvolutionPlan(handles, shape, choice), timed, why_not);
      };
    };
    std::string why_not;
    const Saved cached = kept(name);
    auto choice = restore(shape, saved, cached);
    const bool restored = choice && attempt(false)(choice, why_not);
    if (!restored) {
      choice = choose_engine(handles->api(), shape, {.handle = handles->planning()}, options_, attempt(measured));
    }
    if ((measured && !restored) || (choice->engine.compiled && !(restored && cached))) keep(name, save_compiled(*choice));
    auto plan = std::make_shared<ConvolutionPlan>(handles, shape, choice);
    tries.report(warn_, *plan);
    return {std::move(plan), save(*choice)};
  }

  // The cache may contain the saved engine with its code.
  std::shared_ptr<const ConvolutionChoice> restore(const ConvolutionShape& shape, const Saved& saved, const Saved& cached) const {
    const CudnnApi& api = libraries_->cudnn->api();
    const CudnnTarget target{.handle = libraries_->cudnn->planning()};
    const bool same = saved && cached && (*cached == *saved || cached->starts_with(*saved + '\n'));
    std::optional<ConvolutionChoice> known;
    if (saved && !same) known = restore_choice(api, shape, target, options_, *saved);
    if (!known && cached) known = restore_compiled(api, shape, target, options_, *cached);
    return known ? std::make_shared<const ConvolutionChoice>(std::move(*known)) : nullptr;
  }

  ChosenPlan make_linear(const LinearShape& shape, const std::string& name, const Saved& saved) {
    const auto& handle = libraries_->cublaslt;
    const bool measured = options_.tune == Tune::measure;
    Tries tries(machine_, trials(), shape);
    const auto attempt = [&](bool timed) {
      return [&, timed](const ProductChoice& choice, std::string& why_not) {
        return tries.run(LinearPlan(handle, shape, choice), timed, why_not);
      };
    };
    std::string why_not;
    for (const Saved& known : {saved, measured ? kept(name) : std::nullopt}) {
      const auto choice = known ? restore_choice(*handle, shape, options_, *known) : std::nullopt;
      if (choice && attempt(false)(*choice, why_not))
        return {std::make_shared<LinearPlan>(handle, shape, *choice), save(*choice)};
    }
    const ProductChoice choice = choose_algorithm(*handle, shape, options_, attempt(measured));
    if (measured) keep(name, save(choice));
    auto plan = std::make_shared<LinearPlan>(handle, shape, choice);
    tries.report(warn_, *plan);
    return {std::move(plan), save(choice)};
  }

  Machine& machine_;
  const std::shared_ptr<DeviceLibraries> libraries_;  // all private functions require its mutex
  const PlanOptions options_;
  const Warn warn_;
  PlanRecord record_;
  std::set<std::string> named_;  // libraries whose versions are in the record
  std::unique_ptr<Queue> trials_;
  std::map<std::string, std::shared_ptr<const LibraryPlan>> plans_;
};

std::shared_ptr<DeviceLibraries> Gpu::libraries() {
  const std::lock_guard lock(mutex_);
  if (!libraries_) libraries_ = std::make_shared<DeviceLibraries>();
  return libraries_;
}

LibraryPlanner& CudaMachine::planner(const PlanChoice& how) {
  const auto known = std::find_if(planners_.begin(), planners_.end(), [&](const Planner& planner) { return planner.how == how; });
  if (known != planners_.end()) return *known->planner;
  PlanOptions options;
  options.tune = how.tune;
  options.deterministic = how.deterministic;
  options.compiles = compiles_by_environment();
  auto made = std::make_shared<LibraryPlanner>(*this, gpu_->libraries(), options, how.saved);
  return *planners_.emplace_back(how, std::move(made)).planner;
}

std::shared_ptr<const LibraryPlan> CudaMachine::plan(const ConvolutionShape& shape, const PlanChoice& how) {
  const std::lock_guard lock(planning_);
  return planner(how).convolution(shape);
}

std::shared_ptr<const LibraryPlan> CudaMachine::plan(const LinearShape& shape, const PlanChoice& how) {
  const std::lock_guard lock(planning_);
  return planner(how).linear(shape);
}

std::string CudaMachine::plans(const PlanChoice& how) {
  const std::lock_guard lock(planning_);
  for (const Planner& planner : planners_) {
    if (planner.how == how) return planner.planner->record();
  }
  return {};
}

}  // namespace millrace::cuda
