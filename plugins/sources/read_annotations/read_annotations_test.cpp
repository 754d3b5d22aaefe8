#include "label_map.h"
#include "read_annotations_fixture.h"

namespace millrace {
namespace {

// Two images, two classes, whose ids are not in order; the annotations come first.
std::string coco(const std::string& annotations, const std::string& images = "") {
  return R"({"info": {"year": 2026, "nested": {"a": 1}}, "annotations": [)" + annotations + R"(], "images": [)" +
         R"({"id": 7, "file_name": "a.png", "width": 6, "height": 4}, {"id": 9, "file_name": "b.png", "width": 6, "height": 4})" +
         images + R"(], "categories": [{"id": 5, "name": "dog"}, {"id": 2, "name": "cat"}]})";
}
std::string shape(int image, int category, const std::string& outline) {
  return fmt::format(R"({{"id": 1, "image_id": {}, "category_id": {}, {}}})", image, category, outline);
}

class Coco : public ReadAnnotationsTest {
 protected:
  Coco() {
    image("a.png");
    image("b.png");
  }
};

TEST_F(Coco, LaterShapesCoverEarlierOnesAndCrowdsCoverNothing) {
  const auto file = written(
      "a.json", coco(shape(7, 2, R"("segmentation": [[1, 1, 5, 1, 5, 3, 1, 3]], "iscrowd": 0)") + "," +
                     shape(7, 5, R"("bbox": [0, 0, 2, 2])") + "," + shape(7, 5, R"("iscrowd": 1, "bbox": [4, 0, 2, 4])")));
  EXPECT_EQ(samples(file), (Texts{"a.png 2200xx/22111x/01111x/0000xx", "b.png 000000/000000/000000/000000"}));
  EXPECT_EQ(opened(file)->classes(), (Texts{"background", "cat", "dog"}));
}

TEST_F(Coco, AMaskIsListedOrPackedColumnByColumn) {
  // Pixels (row 1, column 0), (row 2, column 0) and (row 0, column 1).
  const std::string map = "a.png 010000/100000/100000/000000";
  EXPECT_EQ(samples(written("a.json", coco(shape(7, 2, R"("segmentation": {"size": [4, 6], "counts": [1, 2, 1, 1, 19]})"))))[0],
            map);
  EXPECT_EQ(samples(written("a.json", coco(shape(7, 2, R"("segmentation": {"size": [4, 6], "counts": "121Ob0"})"))))[0], map);
}

TEST_F(Coco, SeveralPolygonsAreOneShape) {
  EXPECT_EQ(
      samples(written("a.json", coco(shape(7, 5, R"("segmentation": [[0, 0, 1, 0, 1, 1, 0, 1], [4, 2, 6, 2, 6, 4, 4, 4]])"))))[0],
      "a.png 200000/000000/000022/000022");
}

TEST_F(Coco, GivesAClassToEachImage) {
  auto file = written("a.json", coco(shape(7, 5, R"("bbox": [0, 0, 2, 2])") + "," + shape(9, 2, R"("bbox": [0, 0, 2, 2])")),
                      Made::one_class);
  EXPECT_EQ(samples(file), (Texts{"a.png dog", "b.png cat"}));
  EXPECT_EQ(opened(file)->classes(), (Texts{"cat", "dog"}));
  file.classes = Value(Array{Value("dog"), Value("cat")});
  EXPECT_EQ(opened(file)->label(0), 0);
  file.classes = Value(Array{Value("dog")});
  EXPECT_NE(error_of(file).find("a.json: annotations[1]: class 'cat' is not among `classes`"), std::string::npos)
      << error_of(file);
  file.leave_out = {"*"};
  file.empty = "leave out";
  EXPECT_EQ(samples(file), Texts{"a.png dog"});
}

TEST_F(Coco, AnImageOfTwoClassesHasNone) {
  const auto file = written("a.json", coco(shape(7, 5, R"("bbox": [0, 0, 2, 2])") + "," + shape(7, 2, R"("bbox": [0, 0, 2, 2])")),
                            Made::one_class);
  EXPECT_NE(error_of(file).find("images/a.png' has shapes of classes 'cat' and 'dog'"), std::string::npos) << error_of(file);
}

TEST_F(Coco, ImagesWithoutShapesAreBackgroundOrRefusedOrLeftOut) {
  auto file = written("a.json", coco(shape(7, 5, R"("bbox": [0, 0, 2, 2])")), Made::one_class);
  EXPECT_NE(error_of(file).find("images/b.png' has no shapes"), std::string::npos) << error_of(file);
  file.empty = "background";
  EXPECT_EQ(samples(file), (Texts{"a.png dog", "b.png background"}));
  file.empty = "leave out";
  EXPECT_EQ(samples(file), Texts{"a.png dog"});
  file.target = Made::map;
  EXPECT_EQ(samples(file).size(), 1U);
}

TEST_F(Coco, CountsLabelsAndShapes) {
  auto file = written("a.json",
                      coco(shape(7, 5, R"("bbox": [0, 0, 2, 2])") + "," + shape(7, 5, R"("bbox": [0, 0, 1, 2])") + "," +
                           shape(7, 2, R"("bbox": [0, 0, 2, 2], "iscrowd": 1)") + "," + shape(9, 2, R"("bbox": [0, 0, 2, 2])")),
                      Made::labels);
  file.numbers = {"dog", "cat"};
  EXPECT_EQ(samples(file), (Texts{"a.png 1,0", "b.png 0,1"}));
  file.target = Made::counts;
  EXPECT_EQ(samples(file), (Texts{"a.png 2,0", "b.png 0,1"}));
  file.numbers = {"dog"};
  EXPECT_EQ(samples(file), (Texts{"a.png 2", "b.png 0"}));
  file.numbers = {"dog", "dgo"};
  EXPECT_EQ(samples(file), (Texts{"a.png 2,0", "b.png 0,0"}));
  EXPECT_NE(run_.warnings().back().find("class 'dgo' has no shape in"), std::string::npos) << run_.warnings().back();
}

TEST_F(Coco, IgnoredClassesDoNotCount) {
  auto file = written("a.json", coco(shape(7, 2, R"("bbox": [0, 0, 2, 2])") + "," + shape(7, 5, R"("bbox": [3, 0, 2, 2])")));
  file.ignored = {"cat"};
  EXPECT_EQ(samples(file)[0], "a.png xx0110/xx0110/000000/000000");
  EXPECT_EQ(opened(file)->classes(), (Texts{"background", "dog"}));
  file.ignored = {};
  file.leave_out = {"cat"};
  EXPECT_EQ(samples(file)[0], "a.png 000110/000110/000000/000000");
}

TEST_F(Coco, BackgroundMayHaveAnyPlaceAmongTheClasses) {
  auto file = written("a.json", coco(shape(7, 2, R"("bbox": [0, 0, 2, 2])")));
  Value cat(Table{}), background(Table{}), dog(Table{});
  cat.set("name", Value("cat"));
  background.set("name", Value("background"));
  dog.set("name", Value("dog"));
  file.classes = Value(Array{cat, background, dog});
  EXPECT_EQ(samples(file)[0], "a.png 001111/001111/111111/111111");
}

TEST_F(Coco, RefusesWhatDoesNotFitByFileAndPosition) {
  const std::pair<std::string, const char*> said[] = {
      {shape(8, 2, R"("bbox": [0, 0, 2, 2])"), "annotations[0]: image_id 8 is not among `images`"},
      {shape(7, 3, R"("bbox": [0, 0, 2, 2])"), "annotations[0]: category_id 3 is not among `categories`"},
      {shape(7, 2, R"("bbox": [0, 0, -2, 2])"), "annotations[0]: bbox has the size -2 x 2"},
      {shape(7, 2, R"("bbox": [0, 0, 1e300, 2])"), "annotations[0]: 1e+300 is not a coordinate"},
      {shape(7, 2, R"("bbox": [0, 0, NaN, 2])"), "a.json:1:"},
      {shape(7, 2, R"("bbox": [0, 0, 1e999, 2])"), "a number is too large"},
      {shape(7, 2, R"("bbox": [0, 0, "2", 2])"), "annotations[0]: bbox[2] must be a number, found a text"},
      {shape(7, 2, R"("bbox": [0, 0, 2])"), "annotations[0]: bbox has 3 numbers"},
      {shape(7, 2, R"("segmentation": [[0, 0, 1, 1, 2]])"), "annotations[0]: a polygon has 5 coordinates"},
      {shape(7, 2, R"("segmentation": [])"), "annotations[0]: 'bbox' is missing"},
      {shape(7, 2, R"("segmentation": {"size": [6, 4], "counts": [24]})"), "annotations[0]: segmentation.size is [6, 4]"},
      {shape(7, 2, R"("segmentation": {"size": [4, 6], "counts": [1, 2]})"),
       "the runs of a mask cover 3 pixels, and 'a.png' has 24"},
      {shape(7, 2, R"("segmentation": {"size": [4, 6], "counts": [25, -1]})"), "segmentation.counts[1] is -1"},
      {shape(7, 2, R"("segmentation": {"size": [4, 6], "counts": "1Q"})"), "the packed mask is cut off"},
      {shape(7, 2, R"("segmentation": {"size": [4, 6], "counts": "0O"})"), "segmentation.counts: run 1 has the length -1"},
      {shape(7, 2, R"("segmentation": {"size": [4, 6], "counts": "oooooooooo0"})"), "is not a packed mask"},
  };
  for (const auto& [annotation, message] : said) {
    const std::string text = error_of(written("a.json", coco(annotation)));
    EXPECT_NE(text.find(message), std::string::npos) << text << "\nexpected: " << message;
    EXPECT_NE(text.find("a.json"), std::string::npos) << text;
  }
  const std::string hostile = R"(, {"id": 1, "file_name": "c.png", "width": 60000, "height": 60000})";
  image("c.png");
  EXPECT_NE(error_of(written("a.json", coco("", hostile))).find("images[2]: 60000 x 60000 is not the size of an image"),
            std::string::npos);
}

TEST_F(Coco, ShapesThatCoverNothingAreCountedAndLeftOut) {
  const auto file =
      written("a.json", coco(shape(7, 2, R"("bbox": [2, 2, 0, 2])") + "," + shape(7, 2, R"("segmentation": [[1, 1, 3, 3]])") +
                             "," + shape(7, 2, R"("bbox": [6, 0, 3, 3])") + "," + shape(7, 2, R"("bbox": [-4, -3, 6, 4])")));
  EXPECT_EQ(samples(file)[0], "a.png 110000/000000/000000/000000") << "a shape partly outside is cut";
  ASSERT_FALSE(run_.warnings().empty());
  EXPECT_NE(run_.warnings()[0].find("2 shapes without area, such as 'a.png'; 1 shape outside its image, 'a.png'"),
            std::string::npos)
      << run_.warnings()[0];
}

TEST_F(Coco, ImagesThatAreMissingOrNamedTwiceAreRefused) {
  const std::string more = R"(, {"id": 11, "file_name": "c.png", "width": 6, "height": 4})";
  auto file = written("a.json", coco(shape(7, 2, R"("bbox": [0, 0, 2, 2])"), more));
  EXPECT_NE(error_of(file).find("a.json: images[2]: 'c.png' has no matching image in"), std::string::npos) << error_of(file);
  file.unpaired = "skip";
  EXPECT_EQ(samples(file).size(), 2U);
  const std::string twice = R"(, {"id": 11, "file_name": "./a.png", "width": 6, "height": 4})";
  EXPECT_NE(error_of(written("a.json", coco("", twice))).find("'a.png' is annotated twice, in"), std::string::npos);
  image("others/d.png");
  const std::size_t before = run_.warnings().size();
  EXPECT_EQ(samples(written("a.json", coco(shape(7, 2, R"("bbox": [0, 0, 2, 2])")))).size(), 2U);
  EXPECT_NE(run_.warnings()[before].find("1 image without annotations, 'others/d.png'"), std::string::npos)
      << run_.warnings()[before];
}

TEST_F(Coco, AnImageOfAnotherSizeIsABadSample) {
  image("a.png", 12, 8);
  const auto source = opened(written("a.json", coco(shape(7, 2, R"("bbox": [0, 0, 2, 2])"))));
  Sample sample;
  const Error error = testkit::error_of([&] { testkit::read(*source, 0, sample); });
  EXPECT_EQ(error.kind(), ErrorKind::content);
  EXPECT_EQ(error.message(), "the image is 12 x 8, and the annotations were made on 6 x 4 pixels (width x height)");
}

TEST_F(Coco, NamesOfAnotherMachineAreFoundBelowTheFolderOfImagesAlone) {
  folder_.write("secret.png", "x");
  const std::pair<const char*, const char*> names[] = {{"C:\\\\Users\\\\me\\\\day\\\\c.png", "day/c.png"},
                                                       {"/data/set/day/c.png", "day/c.png"},
                                                       {"images/day/c.png", "day/c.png"},
                                                       {"c.png", "day/c.png"},
                                                       {"../../c.png", "day/c.png"},
                                                       {"../secret.png", ""},
                                                       {"night/c.png", ""},
                                                       {"..", ""}};
  image("day/c.png");
  for (const auto& [name, path] : names) {
    const std::string more = fmt::format(R"(, {{"id": 11, "file_name": "{}", "width": 6, "height": 4}})", name);
    const auto file = written("a.json", coco("", more));
    if (*path == '\0') {
      EXPECT_NE(error_of(file).find("has no matching image"), std::string::npos) << name;
    } else {
      EXPECT_EQ(samples(file).back().substr(0, 9), path) << name;
    }
  }
  image("night/c.png");
  const auto file = written("a.json", coco("", R"(, {"id": 11, "file_name": "c.png", "width": 6, "height": 4})"));
  EXPECT_NE(error_of(file).find("'c.png' may be 'day/c.png' or another image of this name"), std::string::npos) << error_of(file);
}

TEST_F(Coco, AFolderIsReadAloneWithTheClassesOfAll) {
  image("train/c.png");
  const std::string more = R"(, {"id": 11, "file_name": "c.png", "width": 6, "height": 4})";
  auto file = written("a.json", coco(shape(11, 5, R"("bbox": [0, 0, 2, 2])"), more));
  file.folder = "train";
  EXPECT_EQ(samples(file), Texts{"train/c.png 220000/220000/000000/000000"});
  file.folder = "val";
  EXPECT_NE(error_of(file).find("a.json' leaves no image of"), std::string::npos) << error_of(file);
}

TEST_F(Coco, EachObjectCanBeASample) {
  std::vector<std::uint8_t> pixels(24);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(10 * i);
  ByteBuffer png;
  write_png(pixels.data(), 6, 4, png);
  folder_.write("images/a.png", testkit::text(png));
  auto file = written("a.json",
                      coco(shape(7, 5, R"("bbox": [1, 1, 2, 2])") + "," + shape(7, 2, R"("bbox": [4.5, 2.5, 4, 1])") + "," +
                           shape(7, 2, R"("bbox": [0, 0, 2, 2], "iscrowd": 1)") + "," +
                           shape(7, 5, R"("segmentation": {"size": [4, 6], "counts": [1, 2, 1, 1, 19]})")),
                      Made::one_class);
  file.samples = "objects";
  const auto parts = [&] {
    const auto source = opened(file);
    Texts texts;
    Sample sample;
    for (std::uint64_t index = 0; index < source->size(); ++index) {
      testkit::read(*source, index, sample);
      EXPECT_EQ(sample.encoded.size(), sample.decoded.bytes());
      EXPECT_LE(sample.encoded.size(), source->largest_encoded());
      EXPECT_EQ(sample.url, folder_ / "images/a.png");
      texts.push_back(fmt::format("{} {} x {} from {}", source->classes()[static_cast<std::size_t>(sample.label)],
                                  sample.decoded.width, sample.decoded.height, sample.encoded.data()[0] / 10));
    }
    return texts;
  };
  EXPECT_EQ(parts(), (Texts{"dog 2 x 2 from 7", "cat 2 x 2 from 16", "dog 2 x 3 from 0"})) << "in whole pixels, within the image";
  file.margin = 0.5;
  EXPECT_EQ(parts(), (Texts{"dog 4 x 4 from 0", "cat 4 x 2 from 14", "dog 3 x 4 from 0"}));
  file.target = Made::map;
  EXPECT_EQ(testkit::error_of([&] { ReadAnnotations(file, context_); }).message(),
            "samples: objects have a class each: target = \"class\"");
}

TEST_F(Coco, TheFingerprintFollowsImagesAndAnnotations) {
  const auto file = written("a.json", coco(shape(7, 2, R"("bbox": [0, 0, 2, 2])")));
  const std::uint64_t first = opened(file)->fingerprint(), listing = opened(file)->listing_hash();
  EXPECT_EQ(opened(file)->fingerprint(), first);
  written("a.json", coco(shape(7, 2, R"("bbox": [0, 0, 2, 3])")) + " ");
  EXPECT_NE(opened(file)->fingerprint(), first);
  EXPECT_EQ(opened(file)->listing_hash(), listing);
}

TEST_F(Coco, AFolderMayHoldSeveralFilesAndOthers) {
  folder_.write("all/one.json", coco(""));
  folder_.write("all/notes.json", "{\"author\": 1}");
  folder_.write("all/readme.txt", "Boxes of cats.");
  EXPECT_EQ(samples(params("all")).size(), 2U);
  EXPECT_NE(run_.warnings()[0].find("2 files of annotations in no known format"), std::string::npos) << run_.warnings()[0];
  EXPECT_NE(error_of(written("x/notes.json", "{}")).find("no annotations in a known format"), std::string::npos);
  EXPECT_NE(error_of(params("images")).find("no file whose name ends in .json"), std::string::npos);
}

TEST_F(ReadAnnotationsTest, RefusesParametersThatDoNotFit) {
  image("a.png");
  auto wrong = written("a.json", coco(""));
  const auto said = [&] { return testkit::error_of([&] { ReadAnnotations(wrong, context_); }).message(); };
  wrong.balance = true;
  EXPECT_EQ(said(), "balance: pixels have classes here, images do not");
  wrong.target = Made::labels;
  EXPECT_EQ(said(), "numbers: expected the classes to learn, such as [\"cat\", \"dog\"]");
  wrong.target = Made::one_class;
  wrong.classes = Value(Array{Value("cat"), Value("cat")});
  EXPECT_EQ(said(), "classes[1]: 'cat' is listed twice");
  wrong.classes = Value(Array{Value(3)});
  EXPECT_EQ(said(), "classes[0]: expected a name, or { name = \"...\" }, found 3");
}

}  // namespace
}  // namespace millrace
