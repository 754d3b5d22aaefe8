// libmillrace_predict: the C interface over Predictor. Every function that can fail runs in guarded().
#include "millrace/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "millrace/error.h"
#include "millrace/util/load_plugins.h"
#include "predict/predictor.h"
#include "util/out_of_memory.h"

using millrace::Error;
using millrace::ErrorKind;
using millrace::fail;

// The opaque handle.
struct millrace_model {
  millrace_model(const char* path, const millrace::PredictorOptions& options)
      : predictor((millrace::load_all_plugins(registry), path), options, registry),
        numbers(number_names(predictor.model().recipe)) {}

  millrace::Registry registry;  // outlives the predictor
  millrace::Predictor predictor;
  std::vector<std::string> numbers;  // names
};

namespace {

using millrace::ImagePrediction;
using millrace::ImageShape;
using millrace::PredictedTask;
using millrace::Predictor;
using millrace::PredictorOptions;
using millrace::Shape;

// What a call throws that cannot be an ErrorKind.
struct Refusal {
  millrace_status status;
  std::string text;
};

template <class... Args>
[[noreturn]] void refuse(millrace_status status, fmt::format_string<Args...> text, Args&&... args) {
  throw Refusal{status, fmt::format(text, std::forward<Args>(args)...)};
}

millrace_status report(millrace_status status, const char* text, millrace_error* error) noexcept {
  if (error == nullptr) return status;
  error->status = status;
  std::size_t end = std::min(std::strlen(text), sizeof error->text - 1);
  while (end > 0 && text[end] != 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;  // whole characters
  std::memcpy(error->text, text, end);
  error->text[end] = 0;
  return status;
}

millrace_status status_of(const Error& error, millrace_status usual) {
  if (lacks_memory(error)) return MILLRACE_MEMORY;
  if (error.kind() == ErrorKind::content) return MILLRACE_IMAGE;
  if (error.kind() == ErrorKind::device) return MILLRACE_DEVICE;
  if (error.kind() == ErrorKind::usage || error.kind() == ErrorKind::data || error.kind() == ErrorKind::storage) return usual;
  return MILLRACE_FAILED;
}

// `usual`: of errors that the model or the call causes.
template <class Work>
millrace_status guarded(millrace_status usual, millrace_error* error, Work&& work) noexcept {
  try {
    work();
    return report(MILLRACE_OK, "", error);
  } catch (const Refusal& refusal) {
    return report(refusal.status, refusal.text.c_str(), error);
  } catch (const Error& problem) {
    return report(status_of(problem, usual), problem.what(), error);
  } catch (const std::bad_alloc&) {
    return report(MILLRACE_MEMORY, "out of memory", error);
  } catch (const std::exception& problem) {
    return report(MILLRACE_FAILED, problem.what(), error);
  } catch (...) {
    return report(MILLRACE_FAILED, "an unknown exception", error);
  }
}

template <class T>
void require(const T* pointer, const char* name) {
  if (pointer == nullptr) refuse(MILLRACE_ARGUMENT, "{} is NULL", name);
}

// The fields of a structure of the caller's version that this version knows, and zeros for those that it lacks.
template <class T>
T known_part(const T* given, const char* name) {
  T whole{};
  require(given, name);
  if (given->size < sizeof(std::size_t)) refuse(MILLRACE_ARGUMENT, "{}: set its size to sizeof({})", name, name);
  std::memcpy(&whole, given, std::min(given->size, sizeof whole));
  return whole;
}

template <class T>
void give_back(T whole, T* to) {
  whole.size = to->size;
  std::memcpy(to, &whole, std::min(to->size, sizeof whole));
}

PredictorOptions options_of(const millrace_options* given) {
  PredictorOptions options;
  if (given == nullptr) return options;
  const auto said = known_part(given, "millrace_options");
  options.threads = said.threads;
  options.workers = said.workers;
  if (said.precision < MILLRACE_AS_TRAINED || said.precision > MILLRACE_INT8)
    refuse(MILLRACE_ARGUMENT, "precision: {} is unknown", said.precision);
  static constexpr const char* kPrecisions[] = {"", "fp32", "bf16", "int8"};  // by millrace_precision
  options.precision = kPrecisions[said.precision];
  if (said.device != nullptr) options.device = said.device;
  for (std::size_t i = 0; i < said.layer_count; ++i) {
    require(said.layers, "millrace_options.layers");
    require(said.layers[i], "a name in millrace_options.layers");
    options.layers.emplace_back(said.layers[i]);
  }
  return options;
}

millrace_task task_of(PredictedTask task) {
  switch (task) {
    case PredictedTask::classes: return MILLRACE_CLASSES;
    case PredictedTask::labels: return MILLRACE_LABELS;
    case PredictedTask::map: return MILLRACE_CLASS_MAP;
    case PredictedTask::numbers: return MILLRACE_REGRESSION;
    case PredictedTask::image: return MILLRACE_RESTORATION;
  }
  return MILLRACE_REGRESSION;
}

// Rows without gaps, in R, G, B or grey.
std::vector<std::uint8_t> packed(const millrace_pixels& pixels, ImageShape& shape) {
  constexpr std::int32_t kLargest = 65'535;
  require(pixels.data, "millrace_pixels.data");
  if (pixels.format < MILLRACE_GREY || pixels.format > MILLRACE_BGRA)
    refuse(MILLRACE_ARGUMENT, "format: {} is unknown", pixels.format);
  if (pixels.width < 1 || pixels.height < 1 || pixels.width > kLargest || pixels.height > kLargest)
    refuse(MILLRACE_IMAGE, "expected an image of 1 to {} rows and columns, found {} x {}", kLargest, pixels.height, pixels.width);
  const bool grey = pixels.format == MILLRACE_GREY, alpha = pixels.format >= MILLRACE_RGBA;
  const bool reversed = pixels.format == MILLRACE_BGR || pixels.format == MILLRACE_BGRA;
  const std::ptrdiff_t channels = grey ? 1 : alpha ? 4 : 3, row = channels * pixels.width;
  const std::ptrdiff_t stride = pixels.stride == 0 ? row : pixels.stride;
  if (std::abs(stride) < row) refuse(MILLRACE_ARGUMENT, "stride: a row has {} bytes, found {}", row, stride);
  shape = {pixels.height, pixels.width, grey ? 1 : 3};
  std::vector<std::uint8_t> out(shape.bytes());
  std::uint8_t* to = out.data();
  for (std::ptrdiff_t y = 0; y < pixels.height; ++y) {
    const std::uint8_t* from = static_cast<const std::uint8_t*>(pixels.data) + y * stride;
    if (channels == shape.channels && !reversed) {
      to = std::copy_n(from, row, to);
      continue;
    }
    for (std::ptrdiff_t x = 0; x < pixels.width; ++x, from += channels) {
      for (const int c : {0, 1, 2}) *to++ = from[reversed ? 2 - c : c];
    }
  }
  return out;
}

class OutputWriter {
 public:
  OutputWriter(const Predictor& predictor, const ImagePrediction& prediction) : predictor_(predictor), prediction_(prediction) {}

  // Sets the shape, and writes unless the buffer is too small.
  void write(millrace_output& output) {
    switch (output.kind) {
      case MILLRACE_NUMBERS: return write(output, prediction_.numbers(), prediction_.network().output());
      case MILLRACE_SCORES: {
        const std::vector<float> scores = prediction_.scores();
        return write(output, std::span(scores), {static_cast<std::int64_t>(scores.size())});
      }
      case MILLRACE_CLASS_OF: return write(output, &ImagePrediction::class_map, false);
      case MILLRACE_CLASS_OF_IMAGE: return write(output, &ImagePrediction::class_map, true);
      case MILLRACE_PICTURE: return write(output, &ImagePrediction::image);
      default: {
        const std::size_t layer = layer_of(output, predictor_);
        return write(output, prediction_.features(layer), prediction_.layer_shape(layer));
      }
    }
  }

  bool lacks_room() const { return lacks_room_; }

  static std::size_t layer_of(const millrace_output& output, const Predictor& predictor) {
    require(output.layer, "millrace_output.layer");
    const auto found = std::ranges::find(predictor.layers(), output.layer);
    if (found == predictor.layers().end())
      refuse(MILLRACE_ARGUMENT, "the layer '{}' is not among millrace_options.layers", output.layer);
    return static_cast<std::size_t>(found - predictor.layers().begin());
  }

 private:
  template <class Of, class... Args>
  void write(millrace_output& output, Of of, Args... args) {
    ImageShape shape;
    const std::vector<std::uint8_t> pixels = (prediction_.*of)(args..., shape);
    copy(output, pixels.data(), pixels.size(), {shape.channels, shape.height, shape.width});
  }
  void write(millrace_output& output, std::span<const float> values, const Shape& shape) {
    copy(output, values.data(), values.size_bytes(), shape);
  }

  void copy(millrace_output& output, const void* data, std::size_t bytes, const Shape& shape) {
    output.needed = bytes;
    const auto extent = [&](int axis) { return shape.rank() > axis ? static_cast<std::int32_t>(shape[axis]) : 1; };
    output.channels = extent(0);
    output.height = extent(1);
    output.width = extent(2);
    if (output.data == nullptr) return;
    if (output.bytes < bytes) lacks_room_ = true;
    if (output.bytes >= bytes) std::memcpy(output.data, data, bytes);
  }

  const Predictor& predictor_;
  const ImagePrediction& prediction_;
  bool lacks_room_ = false;
};

// Before anything is computed.
void require_kind(const millrace_output& output, const Predictor& predictor) {
  const PredictedTask task = predictor.task();
  const auto only_for = [&](bool fits, const char* what) {
    if (!fits) refuse(MILLRACE_ARGUMENT, "kind {} is for {}", output.kind, what);
  };
  switch (output.kind) {
    case MILLRACE_NUMBERS: return;
    case MILLRACE_SCORES: return only_for(task == PredictedTask::classes || task == PredictedTask::labels, "classes and labels");
    case MILLRACE_CLASS_OF:
    case MILLRACE_CLASS_OF_IMAGE: return only_for(task == PredictedTask::map, "networks with a class for each pixel");
    case MILLRACE_PICTURE: return only_for(task == PredictedTask::image, "networks that restore images");
    case MILLRACE_FEATURES: return void(OutputWriter::layer_of(output, predictor));
    default: refuse(MILLRACE_ARGUMENT, "kind: {} is unknown", output.kind);
  }
}

void predict(const millrace_model& model, const millrace::PredictedInput& input, millrace_output* outputs, std::size_t count) {
  if (count > 0) require(outputs, "outputs");
  const auto at = [&](std::size_t i) {  // of the caller's version, which may have shorter ones
    return reinterpret_cast<millrace_output*>(reinterpret_cast<char*>(outputs) + i * outputs->size);
  };
  std::vector<millrace_output> wanted;
  for (std::size_t i = 0; i < count; ++i) {
    wanted.push_back(known_part(at(i), "millrace_output"));
    if (wanted.back().size != outputs->size) refuse(MILLRACE_ARGUMENT, "outputs of several sizes");
  }
  for (const millrace_output& output : wanted) require_kind(output, model.predictor);
  bool lacks_room = false;
  {
    const ImagePrediction prediction = model.predictor.predict(input);
    OutputWriter writer(model.predictor, prediction);
    for (millrace_output& output : wanted) writer.write(output);
    lacks_room = writer.lacks_room();
  }
  for (std::size_t i = 0; i < count; ++i) give_back(wanted[i], at(i));
  if (!lacks_room) return;
  const auto small =
      std::ranges::find_if(wanted, [](const auto& each) { return each.data != nullptr && each.bytes < each.needed; });
  refuse(MILLRACE_BUFFER, "the buffer of output {} has {} bytes, and the result {}", small - wanted.begin(), small->bytes,
         small->needed);
}

}  // namespace

const char* millrace_version(void) { return MILLRACE_VERSION; }

const char* millrace_status_name(millrace_status status) {
  constexpr const char* kNames[] = {"MILLRACE_OK",     "MILLRACE_ARGUMENT", "MILLRACE_MODEL",  "MILLRACE_IMAGE",
                                    "MILLRACE_BUFFER", "MILLRACE_DEVICE",   "MILLRACE_MEMORY", "MILLRACE_FAILED"};
  const auto index = static_cast<std::size_t>(status);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

millrace_status millrace_open(const char* path, const millrace_options* options, millrace_model** model, millrace_error* error) {
  if (model != nullptr) *model = nullptr;
  return guarded(MILLRACE_MODEL, error, [&] {
    require(path, "path");
    require(model, "model");
    *model = new millrace_model(path, options_of(options));
  });
}

void millrace_close(millrace_model* model) { delete model; }

millrace_status millrace_describe(const millrace_model* model, millrace_description* description, millrace_error* error) {
  return guarded(MILLRACE_ARGUMENT, error, [&] {
    require(model, "model");
    auto told = known_part(description, "millrace_description");
    const Predictor& predictor = model->predictor;
    const millrace::Network& network = *predictor.model().network;
    told.task = task_of(predictor.task());
    told.height = network.input.height;
    told.width = network.input.width;
    told.channels = network.input.channels;
    told.keeps_size = predictor.takes_any_size() ? 1 : 0;
    told.precision = predictor.computes_in_int8()                         ? MILLRACE_INT8
                     : predictor.precision() == millrace::Precision::bf16 ? MILLRACE_BFLOAT16
                                                                          : MILLRACE_FLOAT32;
    told.classes = predictor.model().classes.size();
    told.numbers = model->numbers.size();
    told.layers = network.layers.size();
    told.network = network.name.c_str();
    told.weights = predictor.model().weights_file.c_str();
    give_back(told, description);
  });
}

const char* millrace_name(const millrace_model* model, millrace_names of, size_t index) {
  if (model == nullptr) return nullptr;
  const millrace::Model& content = model->predictor.model();
  const std::string* name = nullptr;
  if (of == MILLRACE_CLASS_NAMES && index < content.classes.size()) name = &content.classes[index];
  if (of == MILLRACE_NUMBER_NAMES && index < model->numbers.size()) name = &model->numbers[index];
  if (of == MILLRACE_LAYER_NAMES && index < content.network->layers.size()) name = &content.network->layers[index].name;
  return name == nullptr ? nullptr : name->c_str();
}

millrace_status millrace_predict_pixels(const millrace_model* model, const millrace_pixels* pixels, millrace_output* outputs,
                                        size_t count, millrace_error* error) {
  return guarded(MILLRACE_ARGUMENT, error, [&] {
    require(model, "model");
    ImageShape shape;
    const std::vector<std::uint8_t> bytes = packed(known_part(pixels, "millrace_pixels"), shape);
    predict(*model, {bytes, shape}, outputs, count);
  });
}

millrace_status millrace_predict_encoded(const millrace_model* model, const void* bytes, size_t size, millrace_output* outputs,
                                         size_t count, millrace_error* error) {
  return guarded(MILLRACE_ARGUMENT, error, [&] {
    require(model, "model");
    require(bytes, "bytes");
    predict(*model, {{static_cast<const std::uint8_t*>(bytes), size}, {}}, outputs, count);
  });
}
