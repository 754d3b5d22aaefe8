// A stage that reads gradients: counts their magnitudes by powers of ten.
#include <millrace/backend/backend.h>
#include <millrace/batch.h>
#include <millrace/plugin.h>
#include <millrace/util/output_file.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <memory>

namespace {

using namespace millrace;

// After `allreduce` all replicas have the same gradients: the first one's are counted when a bucket is ready, on its stream's
// thread. Later work waits for that, since `ready` becomes the event after the counting. Columns of the file are the step, the
// zeros, and the gradients from 1e-12 on, from 1e-11 on, ...; smaller ones count with the first.
class Histogram : public Stage {
 public:
  struct Params {
    std::int64_t every = 1;
    std::string file = "gradients.csv";
  };
  static void describe(StageDescription<Params>& d) {
    d.name("gradient_histogram").text("Writes how many gradients are how large, by powers of ten.");
    d.input(payload::kGradientBucket).output(payload::kGradientBucket).per_replica();
    d.params.add("every", &Params::every).range(1).unit("steps").text("from one line to the next");
    d.params.add("file", &Params::file).text("in the run's folder");
  }
  Histogram(const Params& params, const StepContext& context) : params_(params), context_(context) {}

  void open() override {
    if (context_.replica == 0 && context_.first_replica == 0) stream_ = context_.devices[0]->make_stream("gradient_histogram");
  }

  void process(int, Packet packet, Output& output) override {
    auto& bucket = static_cast<GradientBucket&>(*packet.payload);
    if (stream_ && (bucket.step + 1) % static_cast<std::uint64_t>(params_.every) == 0) {
      stream_->wait(bucket.ready);
      stream_->call([this, data = bucket.data, elements = bucket.elements, step = bucket.step,
                     is_last = bucket.bucket + 1 == bucket.buckets] {
        for (std::size_t i = 0; i < elements; ++i) ++counts_[row_of(data[i])];
        if (is_last) write(step);
      });
      bucket.ready = stream_->record();
    }
    output.emit(0, std::move(packet));
  }

 private:
  static constexpr int kSmallest = -12, kDecades = 16;

  static std::size_t row_of(float gradient) {
    if (gradient == 0) return 0;
    const int decade = static_cast<int>(std::floor(std::log10(std::abs(gradient)))) - kSmallest;
    return static_cast<std::size_t>(std::clamp(decade, 0, kDecades - 1)) + 1;
  }
  void write(std::uint64_t step) {
    std::ofstream file(output_path(context_, "file", params_.file), std::ios::app);
    file << step + 1;
    for (std::uint64_t& count : counts_) file << ',' << std::exchange(count, 0);
    file << '\n';
  }

  const Params params_;
  const StepContext context_;
  std::array<std::uint64_t, kDecades + 1> counts_{};
  std::unique_ptr<Stream> stream_;  // last, so that its work ends before the other members are destroyed
};

}  // namespace

MILLRACE_PLUGIN("histogram", "1.0", "Sizes of gradients.") { registry.add_stage<Histogram>(); }
