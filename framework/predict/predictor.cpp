#include "predict/predictor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "millrace/error.h"
#include "millrace/metrics/class_scores.h"
#include "millrace/util/affine.h"
#include "millrace/util/class_colours.h"
#include "millrace/util/load_plugins.h"
#include "plugin/silent_services.h"
#include "prepare/devices.h"

namespace millrace {
namespace {

constexpr const char* kInt8 = "int8";

// Keeps what a stage emits on one port, until its work on the device has ended.
class LastPacket final : public Output {
 public:
  explicit LastPacket(int port) : port_(port) {}
  void emit(int port, Packet packet) override {
    if (port == port_) packet_ = std::move(packet);
  }
  void fail(Error error) override { throw Error(std::move(error)); }
  Packet take() { return std::move(packet_); }
  ~LastPacket() override {
    Lock lock(mutex_);
    while (holds_ > 0) lock.wait(free_);
  }

 private:
  void begin_hold() override {
    const Lock lock(mutex_);
    ++holds_;
  }
  void end_hold() override {
    const Lock lock(mutex_);
    if (--holds_ == 0) free_.notify_all();
  }

  const int port_;
  Packet packet_;
  Mutex mutex_;
  std::condition_variable free_;
  int holds_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

Precision precision_for(const std::string& asked, const std::string& of_run, const DeviceInfo& device) {
  const std::string& text = asked.empty() ? of_run : asked;
  if (text == "fp32") return Precision::fp32;
  if (text == "tf32") return Precision::tf32;
  if (text == "bf16") return device.bf16 || !asked.empty() ? Precision::bf16 : Precision::fp32;
  if (text == "auto") return device.native_bf16 ? Precision::bf16 : Precision::fp32;
  fail(ErrorKind::usage, "precision: expected \"fp32\", \"tf32\", \"bf16\", \"int8\" or \"auto\", found \"{}\"", text);
}

PredictedTask task_of(const InferenceRecipe& recipe, const Registry& registry) {
  if (recipe.output == "classes") return PredictedTask::classes;
  if (recipe.output == "map") return PredictedTask::map;
  if (recipe.output == "image") return PredictedTask::image;
  if (recipe.output == "numbers") return predicts_labels(recipe, registry) ? PredictedTask::labels : PredictedTask::numbers;
  fail(ErrorKind::usage, "the weights do not define the meaning of the network's result: its output is \"{}\"", recipe.output);
}

std::uint64_t seed_of(const InferenceRecipe& recipe) { return static_cast<std::uint64_t>(recipe.seed); }

// The output of the stage that leads on to the predictions.
int port_to_predictions(const StageType& type) {
  for (const std::string_view payload : {payload::kPredictions, payload::kBatch}) {
    const auto found = std::ranges::find(type.outputs, payload, &Port::payload);
    if (found != type.outputs.end()) return static_cast<int>(found - type.outputs.begin());
  }
  fail(ErrorKind::usage, "the stage '{}' sends no predictions", type.name);
}

const StageType& stage_type(const std::string& name, const Registry& registry) {
  if (const StageType* const type = registry.stages().find(name)) return *type;
  fail(ErrorKind::usage, "no plugin has the stage '{}', which the weights need{}", name, skipped_clause(registry, name));
}

// Recipes come from anywhere, and stages cast their packets: each stage must take what the one before it sends. Throws
// Error(data).
void require_chain(const std::vector<InferenceRecipe::StageUse>& uses, std::string_view first, std::string_view last,
                   const Registry& registry) {
  std::string_view at_hand = first;
  for (const InferenceRecipe::StageUse& use : uses) {
    const StageType& type = stage_type(use.type, registry);
    if (type.inputs.size() != 1 || type.inputs.front().payload != at_hand)
      fail(ErrorKind::data, "the stage '{}' of the weights cannot take {}, which comes before it", use.name, at_hand);
    const auto sent = last == payload::kPredictions ? type.outputs.begin() + port_to_predictions(type)
                                                    : std::ranges::find(type.outputs, last, &Port::payload);
    if (sent == type.outputs.end()) fail(ErrorKind::data, "the stage '{}' of the weights does not send {}", use.name, last);
    at_hand = sent->payload;
  }
  if (at_hand != last) fail(ErrorKind::data, "the stages of the weights make {} of images, not {}", at_hand, last);
}

// Recipes name the stages after `batch`, except those of older versions.
std::vector<InferenceRecipe::StageUse> inference_of(const InferenceRecipe& recipe, const Registry& registry) {
  if (!recipe.predict.empty()) return recipe.predict;
  for (const auto& [name, type] : registry.stages()) {
    if (type.recipe_role == RecipeRole::inference) return {{name, name, {}, {}}};
  }
  fail(ErrorKind::usage, "no plugin has a stage that runs a network");
}

}  // namespace

// A batch of one image.
class PredictedBatch final : public Batch {
 public:
  PredictedBatch() {
    samples = {&sample_, 1};
    records = &record_;
    source_maps = &source_map_;
    labels = &label_;
    weights = &weight_;
    count = global_count = 1;
    weight = 1;
  }

  // Takes the prepared sample, as the stage `batch` does.
  void take(const ImageShape& input, Device& device) {
    const ImageView from = sample_.image();
    if (from.data == nullptr || from.shape.channels != input.channels || from.shape.height < input.height ||
        from.shape.width < input.width) {
      fail(ErrorKind::content, "the prepared image is {}, and the network's input {}", to_string(from.shape), to_string(input));
    }
    if (from.shape.bytes() > bytes_) {
      memory_ = device.host_buffer(from.shape.bytes());
      bytes_ = from.shape.bytes();
    }
    std::memcpy(memory_.get(), from.data, from.shape.bytes());
    pixels = memory_.get();
    image = from.shape;
    window = input;
    place_window(sample_, window);
    record_ = sample_.record;
    record_.noise = sample_.noise;
    record_.noise_seed = sample_.noise_seed;
    source_map_ = sample_.source_map();
  }

 private:
  void recycle() noexcept override {}  // belongs to its worker

  Sample sample_;
  AugmentationRecord record_;
  SourceMap source_map_;
  std::int32_t label_ = -1;
  float weight_ = 1;
  std::shared_ptr<std::uint8_t[]> memory_;
  std::size_t bytes_ = 0;
};

// A compiled network with its stages. Used by one thread at a time.
class ImagePrediction::Worker {
 public:
  explicit Worker(const Predictor& owner) : owner_(owner) {
    batch_.retain();  // its memory is this object's
    compile(owner.model_.network);
    predict_blank();
  }

  Ref<Predictions> run(const PredictedInput& input) {
    if (!network_) compile(owner_.model_.network);  // the last image's size could not be compiled
    prepare(input);
    const ImageShape prepared = batch_.samples[0].image().shape;
    if (owner_.own_size_ && !same_size(prepared, network_->input)) {
      std::string why;
      auto network = network_for_size(owner_.recipe_, prepared, owner_.registry_, why);
      if (!network) {
        fail(ErrorKind::content, "the network cannot take an image of {} x {}: {}. Cut or resize it", prepared.height,
             prepared.width, why);
      }
      compile(owner_.int8_ ? int8_network(*network, *owner_.int8_) : std::move(network));
    }
    return compute();
  }

  const Network& network() const { return *network_; }

 private:
  struct Step {
    std::shared_ptr<Stage> stage;
    int port;
  };

  static bool same_size(const ImageShape& a, const ImageShape& b) { return a.height == b.height && a.width == b.width; }

  // Touches the memory and prepares the weights, so that the first image takes no longer than others. Not for networks that take
  // seconds, perhaps by a damaged file.
  void predict_blank() {
    constexpr std::uint64_t kMost = 20'000'000'000, kMostPixels = std::uint64_t{1} << 22;  // multiply-adds; bytes
    std::uint64_t multiply_adds = 0;
    for (const Layer& layer : network_->layers) multiply_adds += layer.multiply_adds;
    if (multiply_adds > kMost || network_->input.bytes() > kMostPixels) return;
    Sample& sample = batch_.samples[0];
    sample.reset({}, {});
    const Image blank = sample.new_image(network_->input);
    std::memset(blank.data, 0, blank.shape.bytes());
    sample.set_image(blank);
    compute();
  }

  Ref<Predictions> compute() {
    batch_.take(network_->input, *owner_.device_);
    Packet packet;
    packet.payload = Ref<Payload>(&batch_);
    packet.count = 1;
    for (const Step& step : steps_) {
      LastPacket output(step.port);
      step.stage->process(0, std::move(packet), output);
      packet = output.take();
    }
    if (!packet.payload) fail(ErrorKind::run, "the network's stages sent no predictions");
    Ref<Predictions> values = Ref<Predictions>::adopt(static_cast<Predictions*>(packet.payload.detach()));
    values->ready->wait();
    return values;
  }

  void prepare(const PredictedInput& input) {
    Sample& sample = batch_.samples[0];
    const SampleKey key{};
    sample.reset(key, {});
    std::memcpy(sample.encoded.resize(input.bytes.size()), input.bytes.data(), input.bytes.size());
    sample.decoded = input.pixels;
    for (const Predictor::Step& step : owner_.preparation_) {
      Draw draw(seed_of(owner_.recipe_), key, hash_text(step.name));
      try {
        step.transform->process(sample, draw);
      } catch (...) {
        throw current_error().in(step.name);
      }
    }
  }

  void compile(std::shared_ptr<const Network> network) {
    steps_.clear();
    replica_.reset();
    network_ = nullptr;  // until all of it is done
    StepContext context;
    static_cast<DataContext&>(context) = owner_.context_;
    context.network = network.get();
    context.window = context.image = network->input;
    const std::vector<InferenceRecipe::StageUse> uses = inference_of(owner_.recipe_, owner_.registry_);
    CompileOptions options;
    options.infer_batch = 1;
    options.precision = owner_.precision_;
    options.seed = context.seed;
    options.plans = plans_for(owner_.device_->info(), 0, owner_.model_.metadata);
    request_ = {};
    for (const InferenceRecipe::StageUse& use : uses) {
      const StageType& type = stage_type(use.type, owner_.registry_);
      if (type.request) type.request(use.table, at(context, use, type), request_);
    }
    for (const LayerPort port : owner_.ports_) request_.read(port);
    request_.may_fold = true;
    options.request = request_;
    replica_ = owner_.device_->compile(*network, options);
    replica_->start();
    for (std::size_t i = 0; i < owner_.model_.weights.size(); ++i) {
      if (const std::vector<float>& values = owner_.model_.weights[i]; !values.empty())
        replica_->write(kValue, static_cast<int>(i), values);
    }
    context.replicas = {replica_.get()};
    context.devices = {owner_.device_.get()};
    context.replica = 0;
    context.batch_size = 1;
    context.request = &request_;
    for (const InferenceRecipe::StageUse& use : uses) {
      const StageType& type = stage_type(use.type, owner_.registry_);
      Diagnostics errors;
      steps_.push_back({type.create(use.table, at(context, use, type), errors), port_to_predictions(type)});
      errors.throw_if_any();
      steps_.back().stage->open();
    }
    network_ = std::move(network);
  }

  // The site of one stage, of whose outputs only one is taken.
  template <class Context>
  static const Context& at(Context& context, const InferenceRecipe::StageUse& use, const StageType& type) {
    context.name = use.name;
    context.taken.assign(type.outputs.size(), false);
    context.taken[static_cast<std::size_t>(port_to_predictions(type))] = true;
    return context;
  }

  const Predictor& owner_;
  std::shared_ptr<const Network> network_;
  CompileRequest request_;
  PredictedBatch batch_;
  std::unique_ptr<Replica> replica_;
  std::vector<Step> steps_;  // before the replica, which they use, is destroyed
};

ImagePrediction::ImagePrediction(const Predictor* predictor, Worker* worker, Ref<Predictions> values)
    : predictor_(predictor), worker_(worker), values_(std::move(values)) {}

ImagePrediction::ImagePrediction(ImagePrediction&& other) noexcept
    : predictor_(other.predictor_), worker_(std::exchange(other.worker_, nullptr)), values_(std::move(other.values_)) {}

ImagePrediction::~ImagePrediction() {
  values_ = nullptr;
  if (worker_ != nullptr) predictor_->return_worker(*worker_);
}

const Network& ImagePrediction::network() const { return worker_->network(); }

std::span<const float> ImagePrediction::numbers() const { return values_->result().row(0); }

std::span<const float> ImagePrediction::features(std::size_t layer) const {
  return values_->output(predictor_->ports_[layer]).row(0);
}

const Shape& ImagePrediction::layer_shape(std::size_t layer) const { return network().shape_of(predictor_->ports_[layer]); }

std::vector<float> ImagePrediction::scores() const {
  const std::span<const float> outputs = numbers();
  std::vector<float> scores(outputs.size());
  if (predictor_->task_ == PredictedTask::labels) {
    std::ranges::transform(outputs, scores.begin(), [](float x) { return static_cast<float>(1 / (1 + std::exp(-double{x}))); });
    return scores;
  }
  const ClassScores classes(outputs, network().layers.back().op == "softmax");
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = static_cast<float>(classes.probability(i));
  return scores;
}

std::vector<std::uint8_t> ImagePrediction::image(ImageShape& shape) const {
  const OutputPixels drawing(&network(), predictor_->draws_normalised_);
  std::vector<std::uint8_t> pixels;
  drawing.draw(numbers(), pixels);
  shape = drawing.shape();
  return pixels;
}

std::vector<std::uint8_t> ImagePrediction::class_map(bool of_source, ImageShape& shape) const {
  const Shape& output = network().output();
  const ImageShape& window = network().input;
  const ImageShape map{static_cast<int>(output[1]), static_cast<int>(output[2]), 1};
  const SourceMap& source = values_->samples[0].source;
  if (of_source && !source.is_known()) {
    fail(ErrorKind::usage, "a stage of the preparation does not record where pixels come from: ask for the map of the input");
  }
  std::vector<std::uint8_t> classes, placed;
  PixelClasses().find(numbers(), map.bytes(), classes);
  shape = of_source ? ImageShape{source.height, source.width, 1} : ImageShape{window.height, window.width, 1};
  const double x = double(window.width) / map.width, y = double(window.height) / map.height;
  const AffineMap to_picture =
      AffineMap::scale(x, y).then(AffineMap::translation((x - 1) / 2, (y - 1) / 2)).then(of_source ? source.map : AffineMap{});
  placed.resize(shape.bytes());
  constexpr std::uint8_t kFill[4] = {kUnknownClass, kUnknownClass, kUnknownClass, kUnknownClass};
  warp_affine(to_picture.inverse(), {classes.data(), map}, Interpolation::nearest, Border::constant, kFill,
              {placed.data(), shape});
  return placed;
}

Predictor::Predictor(const std::string& from, const PredictorOptions& options, const Registry& registry)
    : options_(options),
      registry_(registry),
      model_(read_model(from, registry)),
      recipe_(without_training_degradation(model_.recipe, registry)),
      task_(task_of(recipe_, registry)),
      own_size_(takes_own_size(recipe_, registry)),
      services_(std::make_unique<SilentServices>()) {
  for (const auto& [name, value] : {std::pair{"threads", options.threads}, {"workers", options.workers}}) {
    if (value < 0 || value > 1024) fail(ErrorKind::usage, "{}: expected 0 to 1024, found {}", name, value);
  }
  require_chain(recipe_.prepare, payload::kSampleChunk, payload::kImageChunk, registry);
  require_chain(inference_of(recipe_, registry), payload::kBatch, payload::kPredictions, registry);
  choose_int8();
  open_device();
  make_preparation();
  for (const std::string& layer : options.layers) ports_.push_back(find_output(context_, "layers", layer));
  read_normalisation();
  check_output();
  for (int i = 0; i < std::max(options.workers, 1); ++i) workers_.push_back(std::make_unique<ImagePrediction::Worker>(*this));
  if (!own_size_) model_.weights = {};
  const Lock lock(mutex_);
  for (const auto& worker : workers_) idle_.push_back(worker.get());
}

Predictor::~Predictor() = default;

void Predictor::choose_int8() {
  if (!options_.precision.empty() && options_.precision != kInt8) return;
  if (options_.precision.empty() && !options_.layers.empty()) return;  // folded normalisations would change them
  int8_ = int8_table_from(model_.metadata, model_.weights_file);
  if (!int8_ && options_.precision == kInt8) {
    fail(ErrorKind::usage,
         "'{}' has no scales for int8: pipeline-export RUN --int8 --weights FILE.safetensors writes weights that have",
         model_.weights_file);
  }
  const bool is_processor = options_.device.empty() || find_devices(options_.device, registry_).backend->name() == kHostBackend;
  if (int8_ && !is_processor && options_.precision == kInt8)
    fail(ErrorKind::usage, "device '{}': int8 is computed on the processor alone", options_.device);
  if (!is_processor) int8_.reset();
  if (int8_) model_ = in_int8(std::move(model_), *int8_);
}

void Predictor::open_device() {
  const std::string text = options_.device.empty() ? kHostBackend : options_.device;
  const FoundDevices found = find_devices(text, registry_);
  if (found.request.choices.size() > 1 || found.request.backend == "all")
    fail(ErrorKind::usage, "device '{}': one device computes predictions, such as cpu, gpu or cuda:1", text);
  DeviceOptions device;
  device.cores.assign(static_cast<std::size_t>(options_.threads), -1);  // none is pinned
  device.warn = [](std::string_view) {};
  device_ = found.backend->open(found.indices.front(), device);
  precision_ = int8_ ? Precision::fp32 : precision_for(options_.precision, recipe_.precision, device_->info());
}

void Predictor::make_preparation() {
  context_.graph = recipe_.graph;
  context_.seed = seed_of(recipe_);
  context_.network = model_.network.get();
  context_.window = model_.network->input;
  context_.run = services_.get();
  context_.registry = &registry_;
  context_.predicts = true;
  context_.classes = model_.classes;
  context_.colours = colours_from(model_.metadata);
  context_.samples_per_epoch = 1;
  for (const InferenceRecipe::StageUse& use : recipe_.prepare) {
    const StageType& type = stage_type(use.type, registry_);
    context_.name = use.name;
    Diagnostics errors;
    std::shared_ptr<Stage> stage = type.create(use.table, context_, errors);
    errors.throw_if_any();
    auto transform = std::dynamic_pointer_cast<SampleTransform>(stage);
    if (!transform) fail(ErrorKind::usage, "the stage '{}' needs a pipeline: it does not change one sample at a time", use.name);
    transform->open();
    if (const ImageShape shape = transform->image_shape(); shape != ImageShape{}) context_.image = shape;
    preparation_.push_back({std::move(transform), use.name});
  }
}

// As the sink that --predict chooses would draw.
void Predictor::read_normalisation() {
  constexpr const char *kSink = "write_images", *kKey = "normalised";
  if (task_ != PredictedTask::image) return;
  const Value* const table = recipe_.sinks.find(kSink);
  const Value* said = table != nullptr && table->kind() == Value::Kind::table ? table->find(kKey) : nullptr;
  const StageType* const type = registry_.stages().find(kSink);
  if (said == nullptr && type != nullptr) said = type->defaults.find(kKey);
  if (said != nullptr && said->kind() == Value::Kind::boolean) draws_normalised_ = said->boolean();
}

// The recipe and the network are independent parts of a file.
void Predictor::check_output() const {
  constexpr std::int64_t kMaxMapClasses = kUnknownClass;  // of 8-bit maps, where the largest value is unknown
  const Shape& output = model_.network->output();
  if (task_ == PredictedTask::map && (output.rank() != 3 || output[0] < 2 || output[0] > kMaxMapClasses)) {
    fail(ErrorKind::usage,
         "the weights are for a class of each pixel: the network's output must have 2 to {} channels of pixels, and is {}",
         kMaxMapClasses, to_string(output));
  }
  if (task_ == PredictedTask::classes && static_cast<std::int64_t>(output.elements()) != output[0]) {
    fail(ErrorKind::usage,
         "the weights are for the class of an image: the network's output must be a score of each class, and is {}",
         to_string(output));
  }
  if (task_ == PredictedTask::image) OutputPixels(model_.network.get(), draws_normalised_);
}

ImagePrediction::Worker& Predictor::take_worker() const {
  Lock lock(mutex_);
  while (idle_.empty()) lock.wait(free_);
  ImagePrediction::Worker& worker = *idle_.back();
  idle_.pop_back();
  return worker;
}

void Predictor::return_worker(ImagePrediction::Worker& worker) const noexcept {
  {
    const Lock lock(mutex_);
    idle_.push_back(&worker);  // has room: workers never become more
  }
  free_.notify_one();
}

ImagePrediction Predictor::predict(const PredictedInput& input) const {
  ImagePrediction prediction(this, &take_worker(), nullptr);
  prediction.values_ = prediction.worker_->run(input);
  return prediction;
}

}  // namespace millrace
