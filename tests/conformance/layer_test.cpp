// Requirements of every layer, checked on its own examples: correct gradients on each backend, and equal results on all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

#include "millrace/error.h"
#include "millrace/kernels/portable.h"
#include "millrace/layer.h"
#include "replicas.h"
#include "testkit/gradient_check.h"
#include "testkit/layer_examples.h"

namespace millrace::conformance::layer_test {
namespace {

std::vector<std::string> layer_names() {
  std::vector<std::string> names;
  for (const auto& [name, type] : with_simulation().layers()) names.push_back(name);
  return names;
}

class EveryLayer : public testing::TestWithParam<std::string> {
 protected:
  // Calls use(network) for each example.
  template <class Use>
  void for_each_example(const Use& use) const {
    const LayerType& type = *with_simulation().layers().find(GetParam());
    for (const LayerExample& example : type.examples) {
      for (const bool wide : {false, true}) {
        const std::string text = testkit::example_network(type, example, wide);
        SCOPED_TRACE(text);
        use(*testkit::network_from_text(text, with_simulation()));
      }
    }
  }
  // Calls use(call) for each kernel call of the layer's passes.
  template <class Use>
  void for_each_call(const Use& use) const {
    for_each_example([&](const Network& network) {
      for (const Layer& layer : network.layers) {
        if (!layer.portable) continue;
        Pass pass(layer.input_shapes);
        layer.portable->forward(pass);
        layer.portable->backward(pass);
        for (const PassCall& call : pass.calls()) use(call);
      }
    });
  }
};

TEST_P(EveryLayer, DescribesItself) { expect_passes("layer", "description", GetParam()); }
TEST_P(EveryLayer, NamesAnUnknownKey) { expect_passes("layer", "refusals", GetParam()); }
TEST_P(EveryLayer, HasTheGradientsOfItsForward) { expect_passes("layer", "gradients", GetParam()); }

TEST_P(EveryLayer, ComputesTheSameOnAllBackends) {
  for_each_example([&](const Network& network) {
    const Ref<Batch> batch = batch_of(network);
    const std::vector<float> on_cpu = results(network, *compile("cpu", network, Precision::fp32).replica, batch);
    const std::vector<float> simulated = results(network, *compile("simulated", network, Precision::fp32).replica, batch);
    ASSERT_EQ(on_cpu.size(), simulated.size());
    EXPECT_LT(difference(simulated, on_cpu), 1e-5);  // 7e-6 after a batch norm of six vectors, which amplifies rounding
    if (!computes("cpu", Precision::bf16)) return;
    const std::vector<float> rounded = results(network, *compile("cpu", network, Precision::bf16).replica, batch);
    EXPECT_LT(difference(rounded, on_cpu), 6e-2);
  });
}

TEST_P(EveryLayer, ComputesTheSameBitsWhenRecomputed) {
  for_each_example([&](const Network& network) {
    const Ref<Batch> batch = batch_of(network);
    const bool wide = network.layers.front().name == "wide";
    for (const char* const backend : {"cpu", "simulated"}) {
      if (wide && backend == std::string_view("simulated")) continue;  // only backend cpu lays such maps out in another way
      SCOPED_TRACE(backend);
      const std::vector<float> kept = results(network, *compile(backend, network, Precision::fp32).replica, batch);
      EXPECT_EQ(results(network, *compile(backend, network, Precision::fp32, true).replica, batch), kept);
    }
  });
}

// With a CUDA toolkit, every kernel of a layer has device code.
TEST_P(EveryLayer, HasDeviceCode) {
  if (!MILLRACE_HAS_CUDA) GTEST_SKIP() << "built without a CUDA toolkit";
  for_each_call([](const PassCall& call) {
    EXPECT_NE(call.kernel->first.on_device, nullptr) << call.kernel->first.name;
    const bool twice = call.kernel->form == PortableForm::sum;
    EXPECT_TRUE(!twice || call.kernel->second.on_device != nullptr) << call.kernel->first.name;
  });
}

// The fastest of several calls over numbers of either sign, in nanoseconds per element.
template <class T, class Each>
double nanoseconds(const PassCall& call, const Each& each) {
  constexpr std::int64_t kCount = 4096;
  std::vector<std::vector<T>> arrays(call.reads.size() + 1, std::vector<T>(kCount));
  std::vector<const T*> in;
  for (std::size_t t = 0; t < call.reads.size(); ++t) {
    for (std::size_t i = 0; i < kCount; ++i) {
      arrays[t][i] = from_float<T>(static_cast<float>((i * 7919 + t * 101) % 4001) / 1000 - 2);
    }
    in.push_back(arrays[t].data());
  }
  double shortest = 1e9;
  for (int i = 0; i < 50; ++i) {
    const auto start = std::chrono::steady_clock::now();
    each(call.functor.data(), in.data(), arrays.back().data(), kCount);
    shortest = std::min(shortest, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count());
  }
  return shortest / kCount;
}

#ifdef NDEBUG
constexpr bool kOptimised = true;
#else
constexpr bool kOptimised = false;
#endif

// A scalar loop over values takes 3.5 ns and more if numbers of either sign take different branches, with any instruction set. A
// simple vectorised one takes 0.1 to 1.1 ns, and a long formula gains from wider vectors. Failing measurements are repeated:
// another thread may have used part of the core.
template <class T, class Each>
void expect_vectors(const PassCall& call, const Each& each) {
  const InstructionSet set = instruction_set();
  double best = 1e9, plain = 1e9;
  for (int attempt = 0; attempt < 10; ++attempt) {
    best = std::min(best, nanoseconds<T>(call, each));
    if (best < 1.5) return;
    ASSERT_TRUE(use_instruction_set(InstructionSet::plain));
    plain = std::min(plain, nanoseconds<T>(call, each));
    ASSERT_TRUE(use_instruction_set(set));
    if (best < plain / 1.5) return;
  }
  ADD_FAILURE() << call.kernel->first.name << ": " << best << " ns, and " << plain << " ns without vectors";
}

TEST_P(EveryLayer, ComputesValuesInVectors) {
  if (!kOptimised || instruction_set() < InstructionSet::avx512) GTEST_SKIP() << "a debug build, or a processor without AVX-512";
  for_each_call([](const PassCall& call) {
    if (call.kernel->form != PortableForm::each) return;
    expect_vectors<float>(call, call.kernel->each);
    expect_vectors<Bf16>(call, call.kernel->each_bf16);
  });
}

INSTANTIATE_TEST_SUITE_P(Layers, EveryLayer, testing::ValuesIn(layer_names()), by_name);

TEST(Layer, WithoutExamplesIsRefused) {
  Registry registry;
  LayerType type;
  type.name = "untested";
  try {
    registry.add(type);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the layer type 'untested' has no examples, which its tests are made from");
  }
}

}  // namespace
}  // namespace millrace::conformance::layer_test
