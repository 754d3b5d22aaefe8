// A stage that changes gradients: the largest ones are sent, and the rest is added to the next step's (error feedback; Stich et
// al., "Sparsified SGD with memory", arXiv 1809.07599).
#include <millrace/backend/backend.h>
#include <millrace/batch.h>
#include <millrace/plugin.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace {

using namespace millrace;

// Before `allreduce`, for each replica separately, by one instance that handles all: selects the gradients that a sparse
// communicator would send. The rest is not in checkpoints; a resumed run begins without it.
class TopK : public Stage {
 public:
  struct Params {
    double share = 0.01;
  };
  static void describe(StageDescription<Params>& d) {
    d.name("top_k").text("Lets the largest gradients of each bucket pass, and adds the others to those of the next step.");
    d.input(payload::kGradientBucket).output(payload::kGradientBucket).serial();
    d.params.add("share", &Params::share).range(1e-6, 1).text("of the gradients that pass");
  }
  TopK(const Params& params, const StepContext& context) : params_(params), context_(context) {}

  void open() override {
    for (Device* device : context_.devices) replicas_.emplace_back().stream = device->make_stream("top_k");
  }

  void process(int, Packet packet, Output& output) override {
    auto& bucket = static_cast<GradientBucket&>(*packet.payload);
    Replica& replica = replicas_[static_cast<std::size_t>(bucket.replica)];
    std::vector<float>& left_out = replica.left_out[bucket.bucket];
    replica.stream->wait(bucket.ready);
    replica.stream->call([this, &replica, &left_out, data = bucket.data, elements = bucket.elements] {
      select(data, elements, left_out, replica.sizes);
    });
    bucket.ready = replica.stream->record();
    output.emit(0, std::move(packet));
  }

 private:
  struct Replica {
    std::map<int, std::vector<float>> left_out;  // by bucket; on the stream's thread, except the map itself
    std::vector<float> sizes;                    // in the current bucket
    std::unique_ptr<Stream> stream;              // last, so that its work ends before the other members are destroyed
  };

  // If some are equal, the first are selected.
  void select(float* gradients, std::size_t elements, std::vector<float>& left_out, std::vector<float>& sizes) const {
    left_out.resize(elements);
    sizes.resize(elements);
    for (std::size_t i = 0; i < elements; ++i) {
      left_out[i] += gradients[i];
      sizes[i] = std::abs(left_out[i]);
    }
    const auto count =
        std::clamp<std::size_t>(static_cast<std::size_t>(params_.share * static_cast<double>(elements)), 1, elements);
    std::nth_element(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(count) - 1, sizes.end(), std::greater<>());
    const float least = sizes[count - 1];
    auto equal =
        static_cast<std::ptrdiff_t>(count) - std::count_if(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(count),
                                                           [&](float size) { return size > least; });
    for (std::size_t i = 0; i < elements; ++i) {
      const float size = std::abs(left_out[i]);
      const bool passes = size > least || (size == least && equal-- > 0);
      gradients[i] = passes ? std::exchange(left_out[i], 0.0F) : 0.0F;
    }
  }

  const Params params_;
  const StepContext context_;
  std::deque<Replica> replicas_;  // in this process
};

}  // namespace

MILLRACE_PLUGIN("top_k", "1.0", "Sparse gradients with error feedback.") { registry.add_stage<TopK>(); }
