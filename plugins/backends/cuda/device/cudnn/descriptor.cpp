#include "descriptor.h"

#include <fmt/format.h>

namespace millrace::cuda {

Descriptor::Descriptor(const CudnnApi& api, cudnnBackendDescriptorType_t type, std::string about)
    : api_(&api), about_(std::move(about)) {
  api_->check(api_->cudnnBackendCreateDescriptor(type, &descriptor_),
             fmt::format("cudnnBackendCreateDescriptor({})", static_cast<int>(type)), about_);
}

Descriptor::~Descriptor() {
  if (descriptor_ != nullptr) api_->cudnnBackendDestroyDescriptor(descriptor_);
}

Descriptor& Descriptor::set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                                const void* values) {
  api_->check(api_->cudnnBackendSetAttribute(descriptor_, name, type, count, values),
             fmt::format("cudnnBackendSetAttribute({})", static_cast<int>(name)), about_);
  return *this;
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& value) {
  return set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.descriptor_);
}

Descriptor& Descriptor::set_descriptors(cudnnBackendAttributeName_t name, std::span<const Descriptor* const> values) {
  std::vector<cudnnBackendDescriptor_t> natives;
  for (const Descriptor* value : values) natives.push_back(value->descriptor_);
  return set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(natives.size()), natives.data());
}

Descriptor& Descriptor::set_text(cudnnBackendAttributeName_t name, const std::string& text) { return set_all<char>(name, text); }

Descriptor& Descriptor::finalize() {
  api_->check(api_->cudnnBackendFinalize(descriptor_), "cudnnBackendFinalize", about_);
  return *this;
}

bool Descriptor::try_finalize(std::string& why) {
  const cudnnStatus_t status = api_->cudnnBackendFinalize(descriptor_);
  if (status != CUDNN_STATUS_SUCCESS) why = api_->reason(status);
  return status == CUDNN_STATUS_SUCCESS;
}

std::int64_t Descriptor::get_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most,
                                 void* values) const {
  std::int64_t found = 0;
  api_->check(api_->cudnnBackendGetAttribute(descriptor_, name, type, most, &found, values),
             fmt::format("cudnnBackendGetAttribute({})", static_cast<int>(name)), about_);
  return found;
}

std::int64_t Descriptor::get(cudnnBackendAttributeName_t name, std::span<Descriptor> into) const {
  std::vector<cudnnBackendDescriptor_t> natives;
  for (const Descriptor& descriptor : into) natives.push_back(descriptor.descriptor_);
  return get_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(natives.size()), natives.data());
}

std::int64_t Descriptor::count(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const {
  return get_raw(name, type, 0, nullptr);
}

std::string Descriptor::get_text(cudnnBackendAttributeName_t name) const {
  std::string text(static_cast<std::size_t>(count(name, CUDNN_TYPE_CHAR)), '\0');
  const std::int64_t found = get_raw(name, CUDNN_TYPE_CHAR, static_cast<std::int64_t>(text.size()), text.data());
  text.resize(static_cast<std::size_t>(found));
  while (!text.empty() && text.back() == '\0') text.pop_back();  // cuDNN counts the terminating zero
  return text;
}

}  // namespace millrace::cuda
