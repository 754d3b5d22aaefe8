// predict.h for C++17: a model that closes itself, vectors for buffers, exceptions for statuses.
//
//   const millrace::predict::Model model("runs/photos/latest");
//   const auto scores = model.scores(millrace::predict::encoded(bytes.data(), bytes.size()));
//   std::cout << model.classes()[scores.best()];
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "millrace/predict.h"

namespace millrace::predict {

class Error : public std::runtime_error {
 public:
  explicit Error(const millrace_error& error) : std::runtime_error(error.text), status_(error.status) {}
  millrace_status status() const noexcept { return status_; }

 private:
  millrace_status status_;
};

// An image of the caller, which must live until the call returns.
struct Image {
  millrace_pixels pixels{};  // without data: encoded
  const void* bytes = nullptr;
  std::size_t size = 0;
};
inline Image encoded(const void* bytes, std::size_t size) { return {{}, bytes, size}; }
inline Image pixels(const void* data, int width, int height, millrace_format format, std::ptrdiff_t stride = 0) {
  return {{sizeof(millrace_pixels), data, width, height, stride, format}, nullptr, 0};
}

// (channels, height, width), or (height, width, channels) of pictures.
template <class T>
struct Result {
  std::vector<T> values;
  int channels = 0, height = 0, width = 0;

  std::size_t best() const { return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin()); }
};

// Thread-safe.
class Model {
 public:
  // `layers`: for features(); replaces those of the options.
  explicit Model(const std::string& path, millrace_options options = {}, const std::vector<std::string>& layers = {}) {
    std::vector<const char*> names;
    for (const std::string& layer : layers) names.push_back(layer.c_str());
    options.size = sizeof options;
    options.layers = names.data();
    options.layer_count = names.size();
    millrace_model* opened = nullptr;
    check([&](millrace_error* error) { return millrace_open(path.c_str(), &options, &opened, error); });
    model_.reset(opened);
  }

  millrace_description describe() const {
    millrace_description description{};
    description.size = sizeof description;
    check([&](millrace_error* error) { return millrace_describe(get(), &description, error); });
    return description;
  }
  std::vector<std::string> names(millrace_names of) const {
    std::vector<std::string> all;
    for (const char* name = nullptr; (name = millrace_name(get(), of, all.size())) != nullptr;) all.emplace_back(name);
    return all;
  }
  std::vector<std::string> classes() const { return names(MILLRACE_CLASS_NAMES); }

  Result<float> numbers(const Image& image) const { return predict<float>(image, MILLRACE_NUMBERS); }
  Result<float> scores(const Image& image) const { return predict<float>(image, MILLRACE_SCORES); }
  Result<float> features(const Image& image, const std::string& layer) const {
    return predict<float>(image, MILLRACE_FEATURES, layer.c_str());
  }
  Result<std::uint8_t> picture(const Image& image) const { return predict<std::uint8_t>(image, MILLRACE_PICTURE); }
  Result<std::uint8_t> class_map(const Image& image, bool of_image = true) const {
    return predict<std::uint8_t>(image, of_image ? MILLRACE_CLASS_OF_IMAGE : MILLRACE_CLASS_OF);
  }

  millrace_model* get() const { return model_.get(); }

 private:
  struct Close {
    void operator()(millrace_model* model) const noexcept { millrace_close(model); }
  };

  template <class Call>
  static void check(Call&& call) {
    millrace_error error{};
    if (call(&error) != MILLRACE_OK) throw Error(error);
  }

  // Repeats a prediction whose result is larger than all before.
  template <class T>
  Result<T> predict(const Image& image, millrace_kind kind, const char* layer = nullptr) const {
    std::atomic<std::size_t>& largest = sizes_[static_cast<std::size_t>(kind)];
    Result<T> result;
    for (std::size_t room = std::max<std::size_t>(largest, 1024);;) {
      result.values.resize(room);
      millrace_output output{};
      output.size = sizeof output;
      output.kind = kind;
      output.layer = layer;
      output.data = result.values.data();
      output.bytes = room * sizeof(T);
      millrace_error error{};
      const millrace_status status = image.pixels.data != nullptr
                                         ? millrace_predict_pixels(get(), &image.pixels, &output, 1, &error)
                                         : millrace_predict_encoded(get(), image.bytes, image.size, &output, 1, &error);
      if (status != MILLRACE_OK && status != MILLRACE_BUFFER) throw Error(error);
      const std::size_t needed = output.needed / sizeof(T);
      for (std::size_t known = largest; known < needed && !largest.compare_exchange_weak(known, needed);) continue;
      if (status == MILLRACE_BUFFER) {
        room = needed;  // of this call: other threads may have other images
        continue;
      }
      result.values.resize(needed);
      result.channels = output.channels;
      result.height = output.height;
      result.width = output.width;
      return result;
    }
  }

  std::unique_ptr<millrace_model, Close> model_;
  mutable std::array<std::atomic<std::size_t>, MILLRACE_FEATURES + 1> sizes_{};  // of the largest results, in elements
};

}  // namespace millrace::predict
