// Networks compiled for a backend and computed once: compared by tests of layers.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "discovered.h"
#include "testkit/conformance_compute.h"
#include "testkit/gradient_check.h"
#include "testkit/layer_examples.h"
#include "testkit/losses.h"
#include "testkit/networks.h"
#include "testkit/plain.h"
#include "testkit/precisions.h"

namespace millrace::conformance {

inline bool computes(const char* backend, Precision precision) {
  return testkit::computes(*with_simulation().backends().find(backend), precision);
}

// Tests of a backend in a precision; skipped if either is not available.
template <class... More>
class InPrecision : public testing::TestWithParam<std::tuple<const char*, Precision, More...>> {
 protected:
  void SetUp() override {
    const char* backend = std::get<0>(this->GetParam());
    if (with_simulation().backends().find(backend) == nullptr) GTEST_SKIP() << "not built: " << backend;
    if (!computes(backend, std::get<1>(this->GetParam()))) GTEST_SKIP() << backend << " has no bf16 on this processor";
  }
};

inline Made compile(const char* backend, const Network& network, Precision precision, bool recompute = false,
                    std::vector<std::shared_ptr<const Loss>> losses = {}) {
  return compile(with_simulation(), backend, network, precision, recompute, std::move(losses));
}

// Loss and gradients of one training pass.
inline std::vector<float> results(const Network& network, Replica& replica, const Ref<Batch>& batch) {
  StepSums sums;
  replica.ingest(batch, 0, batch->count);
  replica.forward(3);
  replica.loss(testkit::cross_entropy(), batch->weight, sums);
  replica.backward([](int, Ref<Event>) {});
  std::vector<float> all = replica.logits();
  for (std::size_t p = 0; p < network.parameters.size(); ++p) {
    if (!network.parameters[p].trainable) continue;
    const std::vector<float> gradient = replica.read("gradient", static_cast<int>(p));
    all.insert(all.end(), gradient.begin(), gradient.end());
  }
  replica.finish();  // `sums` may be destroyed now
  return all;
}

inline double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double far = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    far += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(far / norm);
}

}  // namespace millrace::conformance
