#include "library_plans.h"

#include <cstdio>
#include <cstdlib>

#include "cublaslt/linear.h"
#include "cudnn/convolution.h"
#include "errors.h"

namespace millrace::cuda {
namespace {

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
  void report(const LibraryPlanner::Warn& warn, const LibraryPlan& taken) const {
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

LibraryPlanner::LibraryPlanner(Machine& machine, std::shared_ptr<DeviceLibraries> libraries, const PlanOptions& options,
                               const std::string& saved, Warn warn)
    : machine_(machine),
      libraries_(std::move(libraries)),
      options_(options),
      warn_(warn ? std::move(warn) : [&machine](std::string_view message) { machine.warn(message); }),
      record_(saved, warn_) {
  record_.here("device", machine_.info().name);
  record_.here("deterministic", options_.deterministic ? "true" : "false");
}

LibraryPlanner::~LibraryPlanner() {
  cudaSetDevice(machine_.info().index);  // for the libraries' destructors
}

// ---- State opened once ----

void LibraryPlanner::open_cudnn() {
  auto& cudnn = libraries_->cudnn;
  if (!cudnn) cudnn = std::make_shared<CudnnHandles>(std::make_shared<const CudnnApi>());
  name_library(kCudnn, cudnn->api().version());
}

void LibraryPlanner::open_cublaslt() {
  auto& cublaslt = libraries_->cublaslt;
  if (!cublaslt) cublaslt = std::make_shared<const CublasLtHandle>(std::make_shared<const CublasLtApi>());
  name_library(kCublasLt, cublaslt->api().version());
}

void LibraryPlanner::name_library(const char* name, std::size_t version) {
  if (named_.insert(name).second) record_.library(name, std::to_string(version));
}

PlanCache& LibraryPlanner::cache() {
  if (libraries_->cache) return *libraries_->cache;
  open_cudnn();
  open_cublaslt();
  const std::filesystem::path folder = default_plan_folder();
  const std::string file =
      plan_file_name(machine_.info().name, libraries_->cudnn->api().version(), libraries_->cublaslt->api().version());
  libraries_->cache = std::make_unique<PlanCache>(folder.empty() ? folder : folder / file, warn_);
  return *libraries_->cache;
}

Queue& LibraryPlanner::trials() {
  if (!trials_) trials_ = machine_.make_queue("trials of engines");
  return *trials_;
}

// ---- Plans ----

// Everything that may change the choice except device and versions, which are in the file's name.
std::string LibraryPlanner::key(const std::string& text) const {
  return fmt::format("{}{}{}{}, workspace {}", text, options_.tune == Tune::measure ? ", measured uncached" : "",
                     options_.deterministic ? ", deterministic" : "", options_.compiles ? "" : ", nothing compiled",
                     options_.workspace_limit);
}

// This planner's existing plan; else the process's, unless an earlier run saved another choice; else a new one.
template <class Make>
std::shared_ptr<const LibraryPlan> LibraryPlanner::known_or(const char* library, const std::string& about, const Make& make) {
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

std::shared_ptr<const LibraryPlan> LibraryPlanner::convolution(const ConvolutionShape& shape) {
  const std::lock_guard lock(libraries_->mutex);
  use_device(machine_.info().index);
  open_cudnn();
  return known_or(kCudnn, text_of(shape),
                  [&](const std::string& name, const Saved& saved) { return make_convolution(shape, name, saved); });
}

std::shared_ptr<const LibraryPlan> LibraryPlanner::linear(const LinearShape& shape) {
  const std::lock_guard lock(libraries_->mutex);
  use_device(machine_.info().index);
  open_cublaslt();
  return known_or(kCublasLt, text_of(shape),
                  [&](const std::string& name, const Saved& saved) { return make_linear(shape, name, saved); });
}

// The cache may contain the saved engine with its code.
std::shared_ptr<const ConvolutionChoice> LibraryPlanner::restore(const ConvolutionShape& shape, const Saved& saved,
                                                                 const Saved& cached) const {
  const CudnnApi& api = libraries_->cudnn->api();
  const CudnnTarget target{.handle = libraries_->cudnn->planning()};
  const bool same = saved && cached && (*cached == *saved || cached->starts_with(*saved + '\n'));
  std::optional<ConvolutionChoice> known;
  if (saved && !same) known = restore_choice(api, shape, target, options_, *saved);
  if (!known && cached) known = restore_compiled(api, shape, target, options_, *cached);
  return known ? std::make_shared<const ConvolutionChoice>(std::move(*known)) : nullptr;
}

ChosenPlan LibraryPlanner::make_convolution(const ConvolutionShape& shape, const std::string& name, const Saved& saved) {
  const auto& handles = libraries_->cudnn;
  const bool measured = options_.tune == Tune::measure;
  Tries tries(machine_, trials(), shape);
  const auto attempt = [&](bool timed) {
    return [&, timed](const std::shared_ptr<const ConvolutionChoice>& choice, std::string& why_not) {
      return tries.run(ConvolutionPlan(handles, shape, choice), timed, why_not);
    };
  };
  std::string why_not;
  const Saved cached = cache().find(name);
  auto choice = restore(shape, saved, cached);
  const bool restored = choice && attempt(false)(choice, why_not);
  if (!restored) {
    choice = choose_engine(handles->api(), shape, {.handle = handles->planning()}, options_, attempt(measured));
  }
  if ((measured && !restored) || (choice->engine.compiled && !(restored && cached))) cache().put(name, save_compiled(*choice));
  auto plan = std::make_shared<ConvolutionPlan>(handles, shape, choice);
  tries.report(warn_, *plan);
  return {std::move(plan), save(*choice)};
}

ChosenPlan LibraryPlanner::make_linear(const LinearShape& shape, const std::string& name, const Saved& saved) {
  const auto& handle = libraries_->cublaslt;
  const bool measured = options_.tune == Tune::measure;
  Tries tries(machine_, trials(), shape);
  const auto attempt = [&](bool timed) {
    return [&, timed](const ProductChoice& choice, std::string& why_not) {
      return tries.run(LinearPlan(handle, shape, choice), timed, why_not);
    };
  };
  std::string why_not;
  for (const Saved& known : {saved, measured ? cache().find(name) : std::nullopt}) {
    const auto choice = known ? restore_choice(*handle, shape, options_, *known) : std::nullopt;
    if (choice && attempt(false)(*choice, why_not)) return {std::make_shared<LinearPlan>(handle, shape, *choice), save(*choice)};
  }
  const ProductChoice choice = choose_algorithm(*handle, shape, options_, attempt(measured));
  if (measured) cache().put(name, save(choice));
  auto plan = std::make_shared<LinearPlan>(handle, shape, choice);
  tries.report(warn_, *plan);
  return {std::move(plan), save(choice)};
}

}  // namespace millrace::cuda
