// Class metrics and the calibration error compared with NumPy, to 1e-9. tests/reference/README.md, figures.json.
#include <algorithm>

#include "../../plugins/stages/write_evaluation/calibration.h"
#include "millrace/metrics/class_matrix.h"
#include "reference_fixture.h"

namespace millrace::reference {
namespace {

constexpr double kBound = 1e-9;

// The step results of a network with the case's outputs.
struct Evaluated {
  explicit Evaluated(const Json& tested) : classes(tested["classes"]) {
    const auto samples = tested["samples"].get<std::size_t>();
    const std::vector<float> values =
        tensor_of({{"shape", {samples, classes}}, {"phase", tested["phase"]}, {"scale", tested["scale"]}, {"offset", 0.0}});
    matrix.resize(classes * classes);
    for (std::size_t n = 0; n < samples; ++n) {
      std::vector<double> outputs(values.begin() + static_cast<std::ptrdiff_t>(n * classes),
                                  values.begin() + static_cast<std::ptrdiff_t>((n + 1) * classes));
      const auto label = tested["labels"][n].get<std::size_t>();
      outputs[label] = static_cast<double>(static_cast<float>(outputs[label] + tested["raised"].get<double>()));
      const auto largest = std::max_element(outputs.begin(), outputs.end());
      double sum = 0;
      for (const double output : outputs) sum += std::exp(output - *largest);
      const auto predicted = static_cast<std::size_t>(largest - outputs.begin());
      matrix[label * classes + predicted] += 1;
      calibration.add(1 / sum, predicted == label);
    }
  }

  std::size_t classes;
  std::vector<double> matrix;
  Calibration calibration;
};

TEST(FigureReference, AreThoseOfNumPy) {
  const Json file = read_reference("figures.json");
  ASSERT_FALSE(file["cases"].empty());
  for (const Json& tested : file["cases"]) {
    SCOPED_TRACE(fmt::format("{} classes", tested["classes"].get<int>()));
    const Evaluated evaluated(tested);
    EXPECT_EQ(evaluated.matrix, tested["matrix"].get<std::vector<double>>());
    const ClassMatrix matrix(evaluated.matrix);
    const Json &figures = tested["figures"], &by_class = tested["by_class"];
    EXPECT_NEAR(matrix.accuracy(), figures["accuracy"].get<double>(), kBound);
    EXPECT_NEAR(matrix.mean_accuracy(), figures["mean_recall"].get<double>(), kBound);
    EXPECT_NEAR(matrix.mean_precision(), figures["mean_precision"].get<double>(), kBound);
    EXPECT_NEAR(matrix.mean_f1(), figures["mean_f1"].get<double>(), kBound);
    EXPECT_NEAR(matrix.mean_iou(), figures["mean_iou"].get<double>(), kBound);
    EXPECT_NEAR(matrix.weighted_iou(), figures["weighted_iou"].get<double>(), kBound);
    EXPECT_NEAR(evaluated.calibration.expected_error(), figures["calibration_error"].get<double>(), kBound);
    for (std::size_t c = 0; c < evaluated.classes; ++c) {
      EXPECT_NEAR(matrix.accuracy(c), by_class["recall"][c].get<double>(), kBound) << c;
      EXPECT_NEAR(matrix.precision(c), by_class["precision"][c].get<double>(), kBound) << c;
      EXPECT_NEAR(matrix.f1(c), by_class["f1"][c].get<double>(), kBound) << c;
      EXPECT_NEAR(matrix.iou(c), by_class["iou"][c].get<double>(), kBound) << c;
    }
  }
}

}  // namespace
}  // namespace millrace::reference
