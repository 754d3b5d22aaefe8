// A property of all pictures, with few classes and many, and names of any length and script: texts do not overlap.
#include <cmath>

#include "bars.h"
#include "matrix.h"
#include "plot.h"
#include "sheet.h"
#include "texts_fixture.h"

namespace millrace::drawing {
namespace {

class OfClasses : public testing::TestWithParam<std::size_t> {
 protected:
  OfClasses() : names_(extreme_names(GetParam())), counts_(GetParam() * GetParam()) {
    for (std::size_t c = 0; c < GetParam(); ++c) {
      if (c % 7 == 6) continue;  // it does not occur
      counts_[c * GetParam() + c] = 1'234'567;
      counts_[c * GetParam() + (c + 1) % GetParam()] = 98'765;
    }
  }
  const std::vector<std::string> names_;
  std::vector<double> counts_;
};

TEST_P(OfClasses, ConfusionHasNoTextOverAnother) {
  expect_apart(confusion(ClassMatrix(counts_), names_, false, "validate, epoch 3"));
}

TEST_P(OfClasses, BarsHaveNoTextOverAnother) {
  expect_apart(class_scores(ClassMatrix(counts_), names_, true, std::string(300, 'm')));
  std::vector<double> counts(GetParam());
  for (std::size_t c = 0; c < counts.size(); ++c) counts[c] = std::pow(10.0, static_cast<double>(c % 13));
  expect_apart(label_histogram(counts, names_, "labels"));
}

INSTANTIATE_TEST_SUITE_P(Counts, OfClasses, testing::Values(1, 2, 3, 10, 24, 60, 121, 300, 1000));

TEST(Sheet, HasNoTextOverAnotherHoweverImagesAndNamesDiffer) {
  const std::vector<std::string> names = extreme_names(11);
  for (const ImageShape shape : {ImageShape{1, 1, 1}, {32, 32, 3}, {2000, 30, 3}, {30, 2000, 3}, {512, 512, 1}}) {
    const std::vector<std::uint8_t> pixels(shape.bytes(), 90);
    Sheet sheet;
    sheet.title = "25 of 400 mistakes, highest loss first";
    sheet.subtitle = std::string(400, 'x');
    for (std::size_t i = 0; i < 25; ++i) {
      SheetCell cell;
      if (i % 5 != 4) cell.images.assign(1 + i % 3, kept({pixels.data(), shape}));
      cell.is_bad = i % 5 == 4;
      cell.captions = {{names[i % 11]}, {names[(i + 1) % 11], kRed}};
      sheet.cells.push_back(cell);
    }
    for (const std::string& name : names) sheet.legend.push_back({name, kBlue});
    const Picture picture = draw(sheet);
    expect_apart(picture);
    EXPECT_LE(picture.width(), 1700);
  }
  Sheet none;
  none.title = "no mistakes";
  expect_apart(draw(none));
}

TEST(Sheet, KeepsImagesNoLargerThanTheyAreDrawn) {
  const std::vector<std::uint8_t> pixels(std::size_t{3} * 1024 * 2048, 7);
  const KeptImage image = kept({pixels.data(), {1024, 2048, 3}});
  EXPECT_EQ(image.shape, (ImageShape{192, 384, 3}));
  EXPECT_EQ(image.pixels, std::vector<std::uint8_t>(std::size_t{3} * 192 * 384, 7));
}

TEST(LabelHistogram, ShowsTheMostFrequentAndTheRarestOfManyClasses) {
  std::vector<double> counts;
  for (int c = 0; c < 1000; ++c) counts.push_back(c + 1);
  std::vector<std::string> names;
  for (int c = 0; c < 1000; ++c) names.push_back("n" + std::to_string(c));
  const Picture picture = label_histogram(counts, names, "labels");
  std::string all;
  for (const auto& text : picture.texts()) all += text.text + "\n";
  EXPECT_NE(all.find("1000 classes of 1 to 1,000 samples: the 60 most frequent ones, and the 60 rarest\n"), std::string::npos);
  for (const char* name : {"n999\n", "n940\n", "n59\n", "n0\n"}) EXPECT_NE(all.find(name), std::string::npos) << name;
  EXPECT_EQ(all.find("n500\n"), std::string::npos);
}

}  // namespace
}  // namespace millrace::drawing
