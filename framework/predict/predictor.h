// Predictions of one image at a time, on the caller's threads and without a graph.
//
//   Registry registry;
//   load_all_plugins(registry);
//   Predictor predictor("runs/photos/latest", {}, registry);
//   const ImagePrediction found = predictor.predict(encoded_image(bytes));
//   std::vector<float> scores = found.scores();
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/batch.h"
#include "millrace/util/output_pixels.h"
#include "predict/int8.h"
#include "util/mutex.h"

namespace millrace {

enum class PredictedTask : std::uint8_t { classes, labels, map, numbers, image };

struct PredictorOptions {
  int threads = 0;  // of each worker; 0: one for each processor that the calling thread may use
  int workers = 1;  // predictions that run at once; each worker has its own copy of the weights
  // "fp32", "bf16", or "int8" for weights with int8 scales, on the processor. "": int8 if the weights have its scales, else the
  // run's, or fp32 if the processor lacks that one.
  std::string precision;
  std::string device;               // one, as in run.devices: "cuda:1", "gpu", "auto"; "": the processor
  std::vector<std::string> layers;  // whose outputs ImagePrediction::features() returns
};

// A file's bytes, or pixels: (height, width, channels), 8 bits, contiguous. Both must stay valid during the call.
struct PredictedInput {
  std::span<const std::uint8_t> bytes;
  ImageShape pixels;  // empty: `bytes` are encoded
};

// One image's result. Occupies its worker until it is destroyed. REQUIRES: destroyed before its Predictor.
class ImagePrediction {
 public:
  ImagePrediction(ImagePrediction&& other) noexcept;
  ~ImagePrediction();

  const Network& network() const;
  std::span<const float> numbers() const;                    // the network's result, (C) or (C, H, W)
  std::span<const float> features(std::size_t layer) const;  // of PredictorOptions::layers, by index
  const Shape& layer_shape(std::size_t layer) const;
  std::vector<float> scores() const;                         // of classes or labels, from 0 to 1
  std::vector<std::uint8_t> image(ImageShape& shape) const;  // REQUIRES: task image
  // The class of each pixel of the network's input, or of the caller's image, with 255 where the network saw nothing. Throws
  // Error(usage) if a stage of the preparation does not record where pixels come from. REQUIRES: task map.
  std::vector<std::uint8_t> class_map(bool of_source, ImageShape& shape) const;

 private:
  friend class Predictor;
  class Worker;
  ImagePrediction(const class Predictor* predictor, Worker* worker, Ref<Predictions> values);

  const Predictor* predictor_;
  Worker* worker_;
  Ref<Predictions> values_;
};

// Thread-safe; calls beyond the number of workers wait. Throws Error: usage and data for models, content for images.
class Predictor {
 public:
  // `registry` must outlive it, and its plugins must be loaded.
  Predictor(const std::string& from, const PredictorOptions& options, const Registry& registry);
  ~Predictor();
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;

  ImagePrediction predict(const PredictedInput& input) const;

  const Model& model() const { return model_; }
  PredictedTask task() const { return task_; }
  Precision precision() const { return precision_; }  // in int8: fp32
  bool computes_in_int8() const { return int8_.has_value(); }
  bool takes_any_size() const { return own_size_; }  // else images are resized and cropped as in validation
  const std::vector<std::string>& layers() const { return options_.layers; }
  bool draws_normalised() const { return draws_normalised_; }  // see OutputPixels

 private:
  friend class ImagePrediction;
  struct Step {
    std::shared_ptr<SampleTransform> transform;
    std::string name;
  };

  void choose_int8();
  void open_device();
  void make_preparation();
  void read_normalisation();
  void check_output() const;
  ImagePrediction::Worker& take_worker() const;
  void return_worker(ImagePrediction::Worker& worker) const noexcept;

  const PredictorOptions options_;
  const Registry& registry_;
  Model model_;
  InferenceRecipe recipe_;  // of a user's images: without degradation by training
  PredictedTask task_;
  bool own_size_, draws_normalised_ = true;
  Precision precision_ = Precision::fp32;
  std::optional<Int8Table> int8_;  // set if it is used
  std::vector<LayerPort> ports_;   // of the layers
  std::unique_ptr<RunServices> services_;
  std::shared_ptr<Device> device_;
  DataContext context_;  // of images that have been prepared
  std::vector<Step> preparation_;

  mutable Mutex mutex_;
  mutable std::condition_variable free_;
  mutable std::vector<ImagePrediction::Worker*> idle_ MILLRACE_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<ImagePrediction::Worker>> workers_;
};

}  // namespace millrace
