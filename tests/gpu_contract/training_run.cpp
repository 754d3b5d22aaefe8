#include "training_run.h"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <string>
#include <utility>

#include "millrace/batch.h"
#include "millrace/detail/random.h"
#include "millrace/detail/split.h"
#include "millrace/plugin.h"
#include "millrace/util/load_plugins.h"
#include "testkit/plain.h"

namespace millrace::testkit {
namespace {

constexpr ImageShape kImage{4, 4, 3};
constexpr int kClasses = 5;

// Reusable objects that return when unused.
class Home {
 public:
  void give(int item) {
    const std::scoped_lock lock(mutex_);
    free_.push_back(item);
    changed_.notify_all();
  }
  int take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !free_.empty(); });
    const int item = free_.front();
    free_.erase(free_.begin());
    return item;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> free_;
};

class CirculatingBatch : public Batch {
 public:
  CirculatingBatch(int number, std::uint32_t capacity, Home& home)
      : number_(number),
        home_(home),
        slots_(capacity),
        pixels_(capacity * kImage.bytes()),
        records_(capacity),
        labels_(capacity),
        weights_(capacity, 1.0F) {
    image = window = kImage;
    samples = slots_;
    pixels = pixels_.data();
    records = records_.data();
    labels = labels_.data();
    weights = weights_.data();
    count = global_count = capacity;
    weight = capacity;
  }

  // The content depends only on the step.
  void fill(std::uint64_t new_step) {
    if (in_flight != 0) fail(ErrorKind::run, "the batch of step {} came home while a device reads it", step);
    step = new_step;
    stream_hash = mix64(new_step);
    Draw draw(42, {0, new_step, 0, 0}, hash_text("content"));
    for (std::uint8_t& pixel : pixels_) pixel = static_cast<std::uint8_t>(draw.integer(0, 255));
    for (std::int32_t& label : labels_) label = static_cast<std::int32_t>(draw.integer(0, kClasses - 1));
  }

 private:
  void recycle() noexcept override { home_.give(number_); }

  const int number_;
  Home& home_;
  std::vector<Sample> slots_;
  std::vector<std::uint8_t> pixels_;
  std::vector<AugmentationRecord> records_;
  std::vector<std::int32_t> labels_;
  std::vector<float> weights_;
};

class CirculatingToken : public StepToken {
 public:
  explicit CirculatingToken(Home& home) : home_(home) {}

 private:
  void recycle() noexcept override { home_.give(0); }
  Home& home_;
};

class Training {
 public:
  Training(Backend& backend, const TrainingSetup& setup) : setup_(setup), network_(small_network(kImage, 8, kClasses)) {
    const std::string folder = MILLRACE_BINARY_DIR "/lib/millrace/plugins/";
    for (const char* plugin :
         {"forward_backward", "allreduce", "communicator_local", "optimizer", "metrics", "optimizers", "losses"})
      load_plugin(registry_, folder + plugin + ".so");
    make_replicas(backend);
    for (int r = 0; r < setup.replicas; ++r) {
      forward_backward_.push_back(make("forward_backward", setup.forward_backward, r));
      optimizer_.push_back(make("optimizer", setup.optimizer, r));
    }
    allreduce_ = make("allreduce", {}, -1);
    metrics_ = make("metrics", {}, -1);
    token_home_.give(0);
    for (std::size_t b = 0; b < setup.buffers; ++b) {
      const auto number = static_cast<int>(b);
      batches_.push_back(std::make_unique<CirculatingBatch>(number, setup.batch, batch_home_));
      batch_home_.give(number);
    }
  }

  ~Training() {  // submitted work uses the members; run() has reported its errors
    for (const auto& replica : replicas_) {
      try {
        replica->finish();
      } catch (const Error&) {
      }
    }
    reduce_output_.wait_until_free();  // the communicator owns the sums' checks
  }

  TrainingResult run() {
    for (std::uint64_t step = 0; step < setup_.steps; ++step) {
      token_home_.take();
      Packet packet;
      packet.sequence = step;
      token_.step = step;
      packet.token = Ref<StepToken>(&token_);
      Ref<CirculatingBatch> batch(batches_[static_cast<std::size_t>(batch_home_.take())].get());
      batch->fill(step);
      weights_.clear();
      for (const auto& replica : forward_backward_) {
        const std::vector<double> mine = replica->weigh(*batch);
        weights_.resize(mine.size());
        for (std::size_t i = 0; i < mine.size(); ++i) weights_[i] += mine[i];
      }
      packet.weights = weights_;
      packet.payload = std::move(batch);
      for (int r = 0; r < setup_.replicas; ++r)
        forward_backward_[static_cast<std::size_t>(r)]->process(0, packet, forward_output_);
    }
    const std::initializer_list<CollectingOutput*> outputs = {&forward_output_, &reduce_output_, &metrics_output_};
    for (CollectingOutput* output : outputs) output->wait_until_free();
    for (const auto& replica : replicas_) replica->finish();
    for (const CollectingOutput* output : outputs) {
      for (const Error& error : output->errors()) throw Error(error);
    }
    return result();
  }

 private:
  // Passes on a stage's output at once; one stage at a time.
  class Wire : public CollectingOutput {
   public:
    using Target = std::function<void(int port, Packet packet)>;
    explicit Wire(Target target) : target_(std::move(target)) {}
    void emit(int port, Packet packet) override {
      const std::scoped_lock lock(mutex_);
      target_(port, std::move(packet));
    }

   private:
    std::recursive_mutex mutex_;
    Target target_;
  };

  void make_replicas(Backend& backend) {
    context_.network = &network_;
    context_.registry = &registry_;
    CompileRequest request;
    registry_.stages().find("optimizer")->request(setup_.optimizer, context_, request);
    const std::vector<Share> shares = split(setup_.batch, static_cast<std::size_t>(setup_.replicas), setup_.load);
    for (const Share& share : shares) {
      devices_.push_back(backend.open(0, {}));
      CompileOptions options;
      options.train_batch = share.count;
      options.bucket_bytes = setup_.bucket_bytes;
      options.request = request;
      replicas_.push_back(devices_.back()->compile(network_, options));
      replicas_.back()->start();
      for (std::size_t p = 0; p < network_.parameters.size(); ++p) {
        replicas_.back()->write(kValue, static_cast<int>(p), initial_values(network_.parameters[p], 1));
      }
      context_.replicas.push_back(replicas_.back().get());
      context_.devices.push_back(devices_.back().get());
    }
    context_.graph = "train";
    context_.load = setup_.load;
    context_.batch_size = setup_.batch;
    context_.steps_per_epoch = static_cast<double>(setup_.steps) / 2;
    context_.total_steps = setup_.steps;
    context_.run = &services_;
  }

  std::shared_ptr<Stage> make(const char* name, const Value& table, int replica) {
    StepContext context = context_;
    context.name = name;
    context.replica = replica;
    Diagnostics errors;
    std::shared_ptr<Stage> stage = registry_.stages().find(name)->create(table, context, errors);
    errors.throw_if_any();
    stage->open();
    return stage;
  }

  TrainingResult result() {
    TrainingResult result;
    for (const auto& replica : replicas_) {
      std::vector<std::vector<float>>& values = result.values.emplace_back();
      for (std::size_t p = 0; p < network_.parameters.size(); ++p) values.push_back(replica->read(kValue, static_cast<int>(p)));
    }
    result.reports = services_.reports();
    std::sort(result.reports.begin(), result.reports.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
    return result;
  }

  const TrainingSetup setup_;
  const Network network_;
  Registry registry_;
  RecordedRun services_;
  StepContext context_;
  Home token_home_, batch_home_;
  CirculatingToken token_{token_home_};
  std::vector<double> weights_;  // in the step whose token is held
  std::vector<std::unique_ptr<CirculatingBatch>> batches_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<std::shared_ptr<Stage>> forward_backward_, optimizer_;
  std::shared_ptr<Stage> allreduce_, metrics_;
  CollectingOutput sink_output_, metrics_output_;
  Wire reduce_output_{[this](int, Packet packet) {
    const auto replica = static_cast<std::size_t>(packet.replica);
    optimizer_[replica]->process(0, std::move(packet), sink_output_);
  }};
  Wire forward_output_{[this](int port, Packet packet) {
    if (port == 0) {
      allreduce_->process(0, std::move(packet), reduce_output_);
    } else {
      metrics_->process(0, std::move(packet), metrics_output_);
    }
  }};
};

}  // namespace

TrainingResult train(Backend& backend, const TrainingSetup& setup) { return Training(backend, setup).run(); }

}  // namespace millrace::testkit
