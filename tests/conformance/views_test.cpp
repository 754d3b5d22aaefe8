// Several views of an image if the network's output is a map: on each backend the map of a mirrored view is mirrored back.
#include <gtest/gtest.h>

#include "millrace/error.h"
#include "replicas.h"

namespace millrace::conformance {
namespace {

constexpr std::size_t kMapChannels = 5, kMapHeight = 6, kMapWidth = 7;
const std::vector<View> kPlainView(1), kBothViews = {{.weight = 0.25}, {.flip_x = true, .weight = 0.75}};

// Every output sees three by three pixels; `symmetric`: only one.
std::shared_ptr<const Network> map_network(bool symmetric, bool wide = false) {
  const std::string kernel = symmetric ? "kernel = 1" : "kernel = 3, padding = 1";
  return testkit::network_from_text(
      fmt::format(
          "input = {{ channels = 3, height = {}, width = {} }}\n"
          "layers = [ {{ op = \"conv\", out = {}, {} }}, {{ op = \"gelu\" }}, {{ op = \"conv\", out = {}, kernel = 1 }} ]\n",
          kMapHeight, kMapWidth, wide ? 32 : 6, kernel, kMapChannels),
      with_simulation());
}

// Mirrors each row of each map.
std::vector<float> mirrored_maps(const std::vector<float>& maps, std::size_t width) {
  std::vector<float> mirrored(maps.size());
  for (std::size_t i = 0; i < maps.size(); ++i) mirrored[i] = maps[i - i % width + width - 1 - i % width];
  return mirrored;
}

struct Seen {
  std::vector<float> map;
  StepSums sums;
};

Seen seen_of(Replica& replica, const Ref<Batch>& batch, const std::vector<View>& views, const std::shared_ptr<const Loss>& loss,
             std::uint32_t count = kBatch) {
  Seen seen;
  replica.infer(batch, 0, count, views, loss, seen.sums)->wait();
  replica.finish();
  seen.map = replica.logits();
  return seen;
}

class MapViews : public InPrecision<bool> {
 protected:
  static const char* backend() { return std::get<0>(GetParam()); }
  static Precision precision() { return std::get<1>(GetParam()); }
  static bool wide() { return std::get<2>(GetParam()); }
  static Made compiled(const Network& network, const std::shared_ptr<const Loss>& loss = {}, bool planned = true) {
    Made made;
    made.backend = with_simulation().backends().find(backend())->create();
    made.device = made.backend->open(0, {});
    CompileOptions options;
    options.infer_batch = kBatch;
    options.precision = precision();
    options.request.sums_views = planned;
    options.request.read(network.result());
    if (loss) options.request.losses.emplace_back(loss);
    made.replica = made.device->compile(network, options);
    made.replica->start();
    testkit::randomise(network, *made.replica, 1);
    return made;
  }
};

// Compared with a batch of mirrored images, seen unchanged, whose maps the host mirrors.
TEST_P(MapViews, AreAddedWhereThePixelsAre) {
  const auto network = map_network(false, wide());
  const Ref<Batch> batch = batch_of(*network), mirrored = batch_of(*network);
  for (std::uint32_t n = 0; n < kBatch; ++n) mirrored->records[n].flip_x(network->input.width);
  for (const bool planned : {true, false}) {
    const Made made = compiled(*network, {}, planned);
    for (const std::uint32_t count : {kBatch, kBatch - 1}) {
      const std::vector<float> plain = seen_of(*made.replica, batch, kPlainView, nullptr, count).map;
      const std::vector<float> back = mirrored_maps(seen_of(*made.replica, mirrored, kPlainView, nullptr, count).map, kMapWidth);
      const std::vector<float> found = seen_of(*made.replica, batch, kBothViews, nullptr, count).map;
      ASSERT_EQ(found.size(), count * static_cast<std::size_t>(network->output().elements()));
      std::vector<float> expected(found.size());
      for (std::size_t i = 0; i < found.size(); ++i) expected[i] = 0.25F * plain[i] + 0.75F * back[i];
      EXPECT_LT(difference(found, expected), 1e-5) << count << " samples";
      EXPECT_GT(difference(plain, back), 1e-2) << "kernels that are not symmetric see another image";
      const std::vector<float> alone = seen_of(*made.replica, batch, {{.flip_x = true}}, nullptr, count).map;
      EXPECT_LT(difference(alone, back), 1e-5) << "one view, mirrored";
    }
  }
}

TEST_P(MapViews, AreReadByTheHostAsTheirSum) {
  const auto network = map_network(false, wide());
  const Made made = compiled(*network);
  const std::vector<float> map = seen_of(*made.replica, batch_of(*network), kBothViews, nullptr).map;
  const auto memory = made.device->host_buffer(map.size() * sizeof(float));
  auto* const host = reinterpret_cast<float*>(memory.get());
  const OutputCopy copy{network->result(), host};
  made.replica->read_outputs(std::span(&copy, 1))->wait();
  made.replica->finish();
  EXPECT_EQ(std::vector<float>(host, host + map.size()), map);
}

TEST_P(MapViews, OfASymmetricNetworkChangeNeitherTheMapNorTheFigures) {
  const auto loss = testkit::make_loss("pixel_cross_entropy");
  const auto network = map_network(true, wide());
  const LossData data(*network, *loss);
  const Made made = compiled(*network, loss);
  const Seen one = seen_of(*made.replica, data.batch, kPlainView, loss),
             both = seen_of(*made.replica, data.batch, kBothViews, loss);
  EXPECT_LT(difference(both.map, one.map), 1e-5);
  EXPECT_NEAR(both.sums.loss(), one.sums.loss(), 1e-5 * one.sums.loss());
  EXPECT_EQ(both.sums.weight(), one.sums.weight());
  EXPECT_GT(one.sums.weight(), 0);
}

TEST_P(MapViews, MayNotBeShifted) {
  const auto network = map_network(false, wide());
  const Made made = compiled(*network);
  StepSums sums;
  try {
    made.replica->infer(batch_of(*network), 0, kBatch, std::vector<View>{{.weight = 0.5}, {.dx = 1, .weight = 0.5}}, nullptr,
                        sums);
    made.replica->finish();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_EQ(error.message(),
              "the network's output is a map: it is summed over the image and its mirror image, not over shifted ones");
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, MapViews,
                         testing::Combine(testing::Values("cpu", "simulated"), testing::Values(Precision::fp32, Precision::bf16),
                                          testing::Bool()),
                         [](const auto& tested) {
                           return fmt::format("{}_{}{}", std::get<0>(tested.param), to_string(std::get<1>(tested.param)),
                                              std::get<2>(tested.param) ? "_wide" : "");
                         });

// The plain backend supports one map: the output of `relu` for an image.
TEST(MapViewsOfAnImage, AreThoseOfThePlainBackend) {
  const auto network = testkit::network_from_text(
      "input = { channels = 3, height = 6, width = 7, mean = [0.5, 0.4, 0.3], deviation = [0.2, 0.25, 0.3] }\n"
      "layers = [ { op = \"relu\" } ]\n",
      with_simulation());
  const Ref<Batch> batch = batch_of(*network);
  CompileOptions options;
  options.infer_batch = kBatch;
  options.request.sums_views = true;
  const auto on = [&](const std::shared_ptr<Backend>& backend) {
    const auto device = backend->open(0, {});
    const auto replica = device->compile(*network, options);
    replica->start();
    return seen_of(*replica, batch, kBothViews, nullptr).map;
  };
  const std::vector<float> expected = on(testkit::make_plain_backend());
  for (const char* name : {"cpu", "simulated"}) {
    if (with_simulation().backends().find(name) == nullptr) continue;
    EXPECT_LT(difference(on(with_simulation().backends().find(name)->create()), expected), 1e-6) << name;
  }
  EXPECT_GT(difference(mirrored_maps(expected, kMapWidth), expected), 1e-2);
}

}  // namespace
}  // namespace millrace::conformance
