#include "library_plans.h"

#include <cstdio>

#include "cublaslt_linear.h"
#include "cudnn_convolution.h"
#include "errors.h"

namespace millrace::cuda {
namespace {

std::string name_of_device(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return properties.name;
}

// The fastest of the plans by measurement, or the only one.
template <class Plan, class Shape>
std::size_t pick(const std::vector<std::shared_ptr<const Plan>>& plans, const Shape& shape) {
  return plans.size() == 1 ? 0 : fastest_choice(plans, shape);
}

}  // namespace

LibraryPlanner::LibraryPlanner(int device, const PlanOptions& options, Warn warn)
    : device_(device),
      options_(options),
      warn_(warn ? std::move(warn) : [](std::string_view message) { fmt::print(stderr, "warning: {}\n", message); }) {}

LibraryPlanner::~LibraryPlanner() {
  cudaSetDevice(device_);  // for what the libraries destroy
}

void LibraryPlanner::open_cudnn() {
  if (!cudnn_) cudnn_ = std::make_shared<CudnnHandles>(std::make_shared<const CudnnApi>());
}

void LibraryPlanner::open_cublaslt() {
  if (!cublaslt_) cublaslt_ = std::make_shared<const CublasLtHandle>(std::make_shared<const CublasLtApi>());
}

// What may change the choice besides device and versions, which name the file.
std::string LibraryPlanner::key(const std::string& text) const {
  return fmt::format("{}{}{}, workspace {}", text, options_.tune == Tune::measure ? ", measured" : "",
                     options_.deterministic ? ", deterministic" : "", options_.workspace_limit);
}

PlanCache& LibraryPlanner::cache() {
  if (cache_) return *cache_;
  open_cudnn();
  open_cublaslt();
  const std::filesystem::path folder = default_plan_folder();
  const std::string file = plan_file_name(name_of_device(device_), cudnn_->api().version(), cublaslt_->api().version());
  cache_ = std::make_unique<PlanCache>(folder.empty() ? folder : folder / file, warn_);
  return *cache_;
}

std::shared_ptr<const LibraryPlan> LibraryPlanner::convolution(const ConvolutionShape& shape) {
  const std::lock_guard lock(mutex_);
  use_device(device_);
  const std::string name = key(text_of(shape));
  std::shared_ptr<const LibraryPlan>& plan = plans_[name];
  if (!plan) plan = make_convolution(shape, name);
  return plan;
}

std::shared_ptr<const LibraryPlan> LibraryPlanner::linear(const LinearShape& shape) {
  const std::lock_guard lock(mutex_);
  use_device(device_);
  const std::string name = key(text_of(shape));
  std::shared_ptr<const LibraryPlan>& plan = plans_[name];
  if (!plan) plan = make_linear(shape, name);
  return plan;
}

std::shared_ptr<const LibraryPlan> LibraryPlanner::make_convolution(const ConvolutionShape& shape, const std::string& name) {
  open_cudnn();
  const CudnnApi& api = cudnn_->api();
  const CudnnTarget target{.handle = cudnn_->planning()};
  if (const auto text = cache().find(name)) {
    if (auto choice = restore_choice(api, target, *text))
      return std::make_shared<ConvolutionPlan>(cudnn_, shape, std::move(*choice));
  }
  const bool measured = options_.tune == Tune::measure;
  auto choices = choose_engines(api, shape, target, options_, measured ? kMostMeasured : 1);
  std::vector<std::shared_ptr<const ConvolutionPlan>> plans;
  for (ConvolutionChoice& choice : choices) plans.push_back(std::make_shared<ConvolutionPlan>(cudnn_, shape, std::move(choice)));
  const auto& best = plans[pick(plans, shape)];
  if (measured || best->choice().engine.compiled) {
    if (const auto text = save(best->choice())) cache().put(name, *text);
  }
  return best;
}

std::shared_ptr<const LibraryPlan> LibraryPlanner::make_linear(const LinearShape& shape, const std::string& name) {
  open_cublaslt();
  const bool measured = options_.tune == Tune::measure;
  if (measured) {
    const auto text = cache().find(name);
    const auto choice = text ? restore_choice(*cublaslt_, shape, *text) : std::nullopt;
    if (choice) return std::make_shared<LinearPlan>(cublaslt_, shape, *choice);
  }
  const auto choices = choose_algorithms(*cublaslt_, shape, options_, measured ? kMostMeasured : 1);
  std::vector<std::shared_ptr<const LinearPlan>> plans;
  for (const ProductChoice& choice : choices) plans.push_back(std::make_shared<LinearPlan>(cublaslt_, shape, choice));
  const std::size_t best = pick(plans, shape);
  if (measured) cache().put(name, save(choices[best]));
  return plans[best];
}

}  // namespace millrace::cuda
