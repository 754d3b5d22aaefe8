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

constexpr const char* kCudnn = "cuDNN";
constexpr const char* kCublasLt = "cuBLASLt";

}  // namespace

LibraryPlanner::LibraryPlanner(int device, const PlanOptions& options, const std::string& saved, Warn warn)
    : device_(device),
      options_(options),
      warn_(warn ? std::move(warn) : [](std::string_view message) { fmt::print(stderr, "warning: {}\n", message); }),
      record_(saved, warn_) {
  record_.here("device", name_of_device(device_));
  record_.here("deterministic", options_.deterministic ? "true" : "false");
}

LibraryPlanner::~LibraryPlanner() {
  cudaSetDevice(device_);  // for what the libraries destroy
}

template <class Plan, class Shape>
std::size_t LibraryPlanner::pick(const std::vector<std::shared_ptr<const Plan>>& plans, const Shape& shape) {
  if (plans.size() == 1) return 0;
  if (!measuring_) measuring_ = std::make_unique<CudaStream>(device_, "measuring");
  return fastest_choice(plans, shape, measuring_->native());
}

void LibraryPlanner::open_cudnn() {
  if (cudnn_) return;
  cudnn_ = std::make_shared<CudnnHandles>(std::make_shared<const CudnnApi>());
  record_.library(kCudnn, std::to_string(cudnn_->api().version()));
}

void LibraryPlanner::open_cublaslt() {
  if (cublaslt_) return;
  cublaslt_ = std::make_shared<const CublasLtHandle>(std::make_shared<const CublasLtApi>());
  record_.library(kCublasLt, std::to_string(cublaslt_->api().version()));
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
  const std::string about = text_of(shape);
  const auto saved = record_.find(kCudnn, about);
  const auto cached = cache().find(name);
  // What the cache has may be the same engine, and its code.
  const bool same = saved && cached && (*cached == *saved || cached->starts_with(*saved + '\n'));
  std::optional<ConvolutionChoice> known;
  if (saved && !same) known = restore_choice(api, shape, target, options_, *saved);
  if (!known && cached) known = restore_compiled(api, shape, target, options_, *cached);
  if (saved && (!known || save(*known) != *saved)) record_.refused(kCudnn, about);
  if (known) {
    if (known->engine.compiled && !cached) cache().put(name, save_compiled(*known));
    record_.put(kCudnn, about, save(*known));
    return std::make_shared<ConvolutionPlan>(cudnn_, shape, std::move(*known));
  }
  const bool measured = options_.tune == Tune::measure;
  auto choices = choose_engines(api, shape, target, options_, measured ? kMostMeasured : 1);
  std::vector<std::shared_ptr<const ConvolutionPlan>> plans;
  for (ConvolutionChoice& choice : choices) plans.push_back(std::make_shared<ConvolutionPlan>(cudnn_, shape, std::move(choice)));
  const auto& best = plans[pick(plans, shape)];
  if (measured || best->choice().engine.compiled) cache().put(name, save_compiled(best->choice()));
  record_.put(kCudnn, about, save(best->choice()));
  return best;
}

std::shared_ptr<const LibraryPlan> LibraryPlanner::make_linear(const LinearShape& shape, const std::string& name) {
  open_cublaslt();
  const bool measured = options_.tune == Tune::measure;
  const std::string about = text_of(shape);
  const auto saved = record_.find(kCublasLt, about);
  const auto cached = measured ? cache().find(name) : std::nullopt;
  std::optional<ProductChoice> known;
  if (saved) known = restore_choice(*cublaslt_, shape, options_, *saved);
  if (saved && !known) record_.refused(kCublasLt, about);
  if (!known && cached) known = restore_choice(*cublaslt_, shape, options_, *cached);
  if (known) {
    record_.put(kCublasLt, about, save(*known));
    return std::make_shared<LinearPlan>(cublaslt_, shape, *known);
  }
  const auto choices = choose_algorithms(*cublaslt_, shape, options_, measured ? kMostMeasured : 1);
  std::vector<std::shared_ptr<const LinearPlan>> plans;
  for (const ProductChoice& choice : choices) plans.push_back(std::make_shared<LinearPlan>(cublaslt_, shape, choice));
  const std::size_t best = pick(plans, shape);
  const std::string text = save(choices[best]);
  if (measured) cache().put(name, text);
  record_.put(kCublasLt, about, text);
  return plans[best];
}

}  // namespace millrace::cuda
