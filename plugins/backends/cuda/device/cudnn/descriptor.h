// Objects of cuDNN's graph API: created, given attributes one by one, finalised, read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api.h"

namespace millrace::cuda {

template <class T>
struct CudnnType;
#define MILLRACE_CUDNN_TYPE(T, name)                           \
  template <>                                                  \
  struct CudnnType<T> {                                        \
    static constexpr cudnnBackendAttributeType_t value = name; \
  };
MILLRACE_CUDNN_TYPE(std::int64_t, CUDNN_TYPE_INT64)
MILLRACE_CUDNN_TYPE(std::int32_t, CUDNN_TYPE_INT32)
MILLRACE_CUDNN_TYPE(float, CUDNN_TYPE_FLOAT)
MILLRACE_CUDNN_TYPE(bool, CUDNN_TYPE_BOOLEAN)
MILLRACE_CUDNN_TYPE(char, CUDNN_TYPE_CHAR)
MILLRACE_CUDNN_TYPE(void*, CUDNN_TYPE_VOID_PTR)
MILLRACE_CUDNN_TYPE(cudnnHandle_t, CUDNN_TYPE_HANDLE)
MILLRACE_CUDNN_TYPE(cudnnDataType_t, CUDNN_TYPE_DATA_TYPE)
MILLRACE_CUDNN_TYPE(cudnnConvolutionMode_t, CUDNN_TYPE_CONVOLUTION_MODE)
MILLRACE_CUDNN_TYPE(cudnnPointwiseMode_t, CUDNN_TYPE_POINTWISE_MODE)
MILLRACE_CUDNN_TYPE(cudnnBackendHeurMode_t, CUDNN_TYPE_HEUR_MODE)
MILLRACE_CUDNN_TYPE(cudnnBackendNumericalNote_t, CUDNN_TYPE_NUMERICAL_NOTE)
MILLRACE_CUDNN_TYPE(cudnnBackendBehaviorNote_t, CUDNN_TYPE_BEHAVIOR_NOTE)
MILLRACE_CUDNN_TYPE(cudnnBackendKnobType_t, CUDNN_TYPE_KNOB_TYPE)
#undef MILLRACE_CUDNN_TYPE

// One descriptor, destroyed with its owner. Descriptors used as its attributes must live as long. `about` describes the graph in
// messages.
//
//   Descriptor tensor(api, CUDNN_BACKEND_TENSOR_DESCRIPTOR, shape_text);
//   tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT).finalize();
class Descriptor {
 public:
  Descriptor(const CudnnApi& api, cudnnBackendDescriptorType_t type, std::string about = {});
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept
      : api_(other.api_), descriptor_(std::exchange(other.descriptor_, nullptr)), about_(std::move(other.about_)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(about_, other.about_);
    return *this;
  }

  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, const T& value) {
    return set_raw(name, CudnnType<T>::value, 1, &value);
  }
  template <class T>
  Descriptor& set_all(cudnnBackendAttributeName_t name, std::span<const T> values) {
    return set_raw(name, CudnnType<T>::value, static_cast<std::int64_t>(values.size()), values.data());
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& value);
  Descriptor& set_descriptors(cudnnBackendAttributeName_t name, std::span<const Descriptor* const> values);
  Descriptor& set_text(cudnnBackendAttributeName_t name, const std::string& text);

  Descriptor& finalize();               // throws Error(device)
  bool try_finalize(std::string& why);  // false if cuDNN does not support it

  template <class T>
  T get(cudnnBackendAttributeName_t name) const {
    T value{};
    get_raw(name, CudnnType<T>::value, 1, &value);
    return value;
  }
  template <class T>
  std::vector<T> get_all(cudnnBackendAttributeName_t name, std::size_t most) const {
    std::vector<T> values(most);
    values.resize(static_cast<std::size_t>(get_raw(name, CudnnType<T>::value, static_cast<std::int64_t>(most), values.data())));
    return values;
  }
  // `into`: descriptors of the attribute's type; returns how many were filled.
  std::int64_t get(cudnnBackendAttributeName_t name, std::span<Descriptor> into) const;
  std::int64_t count(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const;
  std::string get_text(cudnnBackendAttributeName_t name) const;

  cudnnBackendDescriptor_t native() const { return descriptor_; }

 private:
  Descriptor& set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values);
  std::int64_t get_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most, void* values) const;

  const CudnnApi* api_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
  std::string about_;
};

}  // namespace millrace::cuda
