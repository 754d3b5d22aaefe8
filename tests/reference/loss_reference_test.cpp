// Every loss compared with PyTorch: value and gradient, on every backend in float32. tests/reference/README.md, losses.json.
#include <gtest/gtest.h>

#include <numeric>

#include "millrace/loss.h"
#include "reference_fixture.h"
#include "testkit/losses.h"
#include "testkit/networks.h"

namespace millrace::reference::loss_reference_test {
namespace {

// The targets, as in the file.
struct Targets {
  Targets(const Json& tested, const ImageShape& image)
      : batch(exact_batch(tested["output"]["shape"][0].get<std::uint32_t>(), image)) {
    if (tested.contains("labels")) copy(tested["labels"], batch->labels);
    if (tested.contains("second_labels")) copy(tested["second_labels"], batch->second_labels);
    if (tested.contains("shares")) copy(tested["shares"], batch->shares);
    copy(tested["weights"], batch->weights);
    batch->weight = std::accumulate(batch->weights, batch->weights + batch->count, 0.0);
    if (tested.contains("numbers")) {
      numbers = tensor_of(tested["numbers"]);
      batch->numbers = numbers.data();
      batch->numbers_per_sample = tested["numbers"]["shape"][1];
    }
    if (!tested.contains("targets")) return;
    const LossInfo& info = *with_simulation().losses().find(tested["loss"].get<std::string>())->info;
    const bool classes = info.target == LossTarget::classes;
    batch->target.kind = classes ? TargetSpec::Kind::classes : TargetSpec::Kind::image;
    bytes = tested["targets"].get<std::vector<std::uint8_t>>();
    batch->targets = bytes.data();
  }
  template <class T>
  static void copy(const Json& from, T* to) {
    for (const Json& value : from) *to++ = value.get<T>();
  }
  Ref<Batch> batch;
  std::vector<float> numbers;
  std::vector<std::uint8_t> bytes;
};

void expect_near(const std::vector<float>& values, const char* what, const Json& summary) {
  const double error = reference_error(values, summary), of_pytorch = summary["float64_difference"];
  EXPECT_LE(error, reference_bound(summary)) << what << ": " << error / of_pytorch << " times PyTorch's error, " << of_pytorch;
}

void expect_agreement(const char* backend, const Json& tested) {
  const Json& output = tested["output"];
  const ImageShape image = exact_image({output["shape"].get<std::vector<std::int64_t>>()});
  const ExactInput outputs("output", output, image);
  const auto network = testkit::network_from_text(exact_network(image, outputs.text()), with_simulation());
  const auto loss = testkit::example_loss(*with_simulation().losses().find(tested["loss"].get<std::string>()),
                                          {tested["table"], network->output()});
  const Targets targets(tested, image);
  const CompiledNetwork made = compile_exact(backend, *network, targets.batch->count, loss);
  outputs.write(*network, *made.replica);

  const std::int64_t places = network->output().elements() / network->output()[0];
  const double divisor = loss->weight(*targets.batch, {0, targets.batch->count}, places);
  EXPECT_DOUBLE_EQ(divisor, tested["divisor"].get<double>());
  StepSums sums;
  made.replica->ingest(targets.batch, 0, targets.batch->count);
  made.replica->forward(0);
  made.replica->loss(loss, divisor, sums);
  made.replica->backward([](int, Ref<Event>) {});
  made.replica->finish();
  expect_near({static_cast<float>(sums.loss() / sums.weight())}, "value", output["value"]);
  expect_near(outputs.gradient(*network, *made.replica), "gradient", output["gradient"]);
}

std::vector<std::string> loss_names() {
  std::vector<std::string> names;
  for (const auto& [name, type] : with_simulation().losses()) names.push_back(name);
  return names;
}

class LossReference : public testing::TestWithParam<std::string> {};

TEST_P(LossReference, IsWithinThreeTimesPyTorchsOwnError) {
  const Json file = read_reference("losses.json");
  int cases = 0;
  for (const Json& tested : file["cases"]) {
    if (tested["loss"] != GetParam()) continue;
    ++cases;
    for (const char* backend : kReferenceBackends) {
      SCOPED_TRACE(fmt::format("{}, {}: {}", backend, tested["table"].get<std::string>(), tested["output"]["shape"].dump()));
      expect_agreement(backend, tested);
    }
  }
  EXPECT_GT(cases, 0) << "a loss without a reference: add it to tests/reference/make_losses.py";
}

INSTANTIATE_TEST_SUITE_P(Losses, LossReference, testing::ValuesIn(loss_names()), by_name);

}  // namespace
}  // namespace millrace::reference::loss_reference_test
