// Each format, with files as its tool writes them.
#include "read_annotations_fixture.h"

namespace millrace {
namespace {

// A box over the columns 1, 2 and the rows 1, 2 of a.png: 6 x 4 pixels. b.png has no shapes.
const char* const kMap = "a.png 000000/011000/011000/000000";
const char* const kEmpty = "b.png 000000/000000/000000/000000";

class Formats : public ReadAnnotationsTest {
 protected:
  Formats() {
    image("a.png");
    image("b.png");
  }
  void expect_refused(const ReadAnnotations::Params& file, const std::string& message) {
    const std::string text = error_of(file);
    EXPECT_NE(text.find(message), std::string::npos) << text << "\nexpected: " << message;
  }
};

// ---- Pascal VOC ----

std::string voc(const std::string& objects, const std::string& file = "a.png",
                const std::string& size = "<width>6</width><height>4</height>") {
  return "<annotation>\n\t<folder>images</folder>\n\t<filename>" + file + "</filename>\n\t<path>C:\\photos\\" + file +
         "</path>\n\t<source><database>Unknown</database></source>\n\t<size>" + size +
         "<depth>3</depth></size>\n\t<segmented>0</segmented>\n" + objects + "</annotation>\n";
}
std::string voc_object(const std::string& name,
                       const std::string& box = "<xmin>2</xmin><ymin>2</ymin><xmax>3</xmax><ymax>3</ymax>", int difficult = 0) {
  return fmt::format(
      "\t<object>\n\t\t<name>{}</name>\n\t\t<pose>Unspecified</pose>\n\t\t<difficult>{}</difficult>\n\t\t<bndbox>{}</"
      "bndbox>\n\t</object>\n",
      name, difficult, box);
}

TEST_F(Formats, PascalVocCountsPixelsFromOne) {
  folder_.write("voc/a.xml", voc(voc_object("cat")));
  folder_.write("voc/b.xml", voc("", "b.png"));
  EXPECT_EQ(samples(params("voc")), (Texts{kMap, kEmpty}));
  EXPECT_NE(run_.warnings().back().find("has boxes alone"), std::string::npos) << run_.warnings().back();
  folder_.write("voc/a.xml",
                voc(voc_object("cat") + voc_object("dog", "<xmin>1</xmin><ymin>1</ymin><xmax>1</xmax><ymax>4</ymax>", 1)));
  EXPECT_EQ(samples(params("voc"))[0], "a.png x00000/x11000/x11000/x00000") << "difficult objects do not count";
}

TEST_F(Formats, PascalVocMayLackSizeAndExtension) {
  folder_.write("voc/a.xml", voc(voc_object("cat"), "a", "<width>0</width><height>0</height>"));
  folder_.write("voc/b.xml", voc("", "renamed.png"));
  EXPECT_EQ(samples(params("voc")), (Texts{kMap, kEmpty})) << "an image is found by the name of its file of annotations, too";
}

TEST_F(Formats, PascalVocIsRefusedByFileAndLine) {
  expect_refused(written("a.xml", voc(voc_object("cat", "<xmin>2</xmin><ymin>2</ymin><xmax>nan</xmax><ymax>3</ymax>"))),
                 "a.xml:8: nan is not a coordinate");
  expect_refused(written("a.xml", voc(voc_object("cat", "<xmin>2</xmin><ymin>two</ymin><xmax>3</xmax><ymax>3</ymax>"))),
                 "a.xml:8: 'ymin' must be a number, found 'two'");
  expect_refused(written("a.xml", voc(voc_object("cat", "<xmin>5</xmin><ymin>2</ymin><xmax>3</xmax><ymax>3</ymax>"))),
                 "a.xml:8: a box from 4, 1 to 3, 3 has a negative side");
  expect_refused(written("a.xml", voc(voc_object(""))), "a.xml:8: <object> has no <name>");
  expect_refused(written("a.xml", voc("", "a.png", "<width>6.5</width><height>4</height>")),
                 "a.xml:1: 6.5 is not a width or height");
  expect_refused(written("a.xml", "<annotation>\n<object>\n</annotation>"), "a.xml:3: this is not XML");
  folder_.write("voc/a.xml", voc(""));
  folder_.write("voc/copy.xml", voc(""));
  expect_refused(params("voc"), "'a.png' is annotated twice, in");
}

TEST_F(Formats, NamesInUnicodeAreFound) {
  image("caf\xc3\xa9 \xe7\x8c\xab.png");
  folder_.write("voc/c.xml",
                "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n" + voc(voc_object("\xe7\x8c\xab"), "caf\xc3\xa9 \xe7\x8c\xab.png"));
  EXPECT_EQ(samples(params("voc", Made::one_class)), Texts{"caf\xc3\xa9 \xe7\x8c\xab.png \xe7\x8c\xab"});
  folder_.write("voc/c.xml",
                "\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>\n" + voc(voc_object("caf\xe9"), "a.png"));
  EXPECT_NO_THROW(opened(params("voc", Made::one_class)));
}

// ---- YOLO ----

TEST_F(Formats, YoloGivesSharesOfTheImage) {
  folder_.write(
      "set/data.yaml",
      "# Ultralytics\npath: ../set\ntrain: images/train\nval: images/val\n\nnames:\n  0: cat # comment\n  1: 'big dog'\n");
  folder_.write("set/labels/a.txt", "0 0.333333 0.5 0.333333 0.5\r\n");
  EXPECT_EQ(samples(params("set/data.yaml")), (Texts{kMap, kEmpty})) << "an image without a file has no shapes";
  EXPECT_EQ(samples(params("set")), (Texts{kMap, kEmpty}));
  EXPECT_EQ(opened(params("set"))->classes(), (Texts{"background", "cat", "big dog"}));
  folder_.write("set/labels/a.txt", "1 0.166667 0.25 0.5 0.25 0.5 0.75 0.166667 0.75\n\n");
  folder_.write("set/labels/b.txt", "");
  EXPECT_EQ(samples(params("set")), (Texts{"a.png 000000/022000/022000/000000", kEmpty}));
}

TEST_F(Formats, YoloNamesItsClassesInEachOfItsForms) {
  folder_.write("set/labels/a.txt", "1 0.333333 0.5 0.333333 0.5\n");
  for (const char* names : {"names: [cat, dog]\nnc: 2\n", "nc: 2\nnames: ['cat',\n  \"dog\"]\n", "names:\n- cat\n- dog\nnc: 2\n",
                            "names: {0: cat, 1: dog}\n"}) {
    folder_.write("set/data.yaml", names);
    auto file = params("set", Made::one_class);
    file.empty = "leave out";
    EXPECT_EQ(samples(file), Texts{"a.png dog"}) << names;
  }
  folder_.write("set/classes.txt", "cat\nhorse\n");
  expect_refused(params("set"), "name different classes");
}

TEST_F(Formats, YoloFollowsOrientationWhichSwapsTheSides) {
  const std::string exif = std::string(
      "\xff\xe1\0\x22"
      "Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0",
      36);
  const std::string frame = std::string("\xff\xc0\0\x0b\x08\0\x06\0\x04\x01\x01\x11\0", 13);  // 4 wide, 6 high as stored
  folder_.write("images/c.jpg", "\xff\xd8" + exif + frame);
  folder_.write("set/data.yaml", "names: [cat]\n");
  folder_.write("set/labels/c.txt", "0 0.333333 0.5 0.333333 0.5\n");
  EXPECT_EQ(samples(params("set"))[2], "c.jpg 000000/011000/011000/000000");
}

TEST_F(Formats, YoloIsRefusedByFileAndLine) {
  folder_.write("set/data.yaml", "names: [cat, dog]\n");
  const std::pair<const char*, const char*> said[] = {
      {"0 0.5 0.5 0.5 0.5\n0 200 100 50 60\n", "a.txt:2: 200 is not a share of the image"},
      {"2 0.5 0.5 0.5 0.5\n", "a.txt:1: class 2 is unknown: 2 are named"},
      {"0 0.5 0.5 -0.5 0.5\n", "a.txt:1: -0.5 is not a share of the image"},
      {"0 0.5 0.5 nan 0.5\n", "a.txt:1: nan is not a share of the image"},
      {"0 0.5 0.5 0.5 0.5 0.9\n", "a.txt:1: 6 numbers"},
      {"0 0.5 0.5 0.5 0.5\n1 0.5\n", "a.txt:2: 2 numbers"},
      {"0 0.5 0.5 0.5 0.5\ncat 0.5\n", "a.txt:2: 'cat' is not a number"},
  };
  for (const auto& [text, message] : said) {
    folder_.write("set/labels/a.txt", text);
    expect_refused(params("set"), message);
  }
  expect_refused(params("set/labels"), "no .yaml file with `names` and no classes.txt names the classes");
  folder_.write("set/labels/a.txt", "");
  folder_.write("set/labels/c.txt", "");
  expect_refused(params("set"), "c.txt: 'images/c' has no matching image in");
}

// ---- LabelMe ----

std::string labelme(const std::string& shapes, const std::string& path = "..\\\\images\\\\a.png", const std::string& more = "") {
  return R"({"version": "5.2.1", "flags": {"blurred": false}, "shapes": [)" + shapes + R"(], "imagePath": ")" + path +
         R"(", "imageData": ")" + std::string(10'000, 'A') + R"(", )" + more + R"("imageHeight": 4, "imageWidth": 6})";
}
std::string labelme_shape(const std::string& label, const std::string& type, const std::string& points) {
  return fmt::format(R"({{"label": "{}", "points": {}, "group_id": null, "shape_type": "{}", "flags": {{}}}})", label, points,
                     type);
}

TEST_F(Formats, LabelMeHasPolygonsRectanglesAndCircles) {
  folder_.write("me/a.json", labelme(labelme_shape("cat", "rectangle", "[[3.0, 1.0], [1.0, 3.0]]")));
  folder_.write("me/b.json", labelme("", "b.png"));
  EXPECT_EQ(samples(params("me")), (Texts{kMap, kEmpty}));
  folder_.write("me/a.json", labelme(labelme_shape("dog", "polygon", "[[1, 1], [3, 1], [3, 3], [1, 3]]") + "," +
                                     labelme_shape("cat", "circle", "[[4.5, 2], [4.5, 3]]") + "," +
                                     labelme_shape("cat", "point", "[[1, 1]]")));
  EXPECT_EQ(samples(params("me"))[0], "a.png 000000/022010/022010/000000");
  EXPECT_NE(run_.warnings().back().find("1 point or line, which has no area"), std::string::npos) << run_.warnings().back();
}

TEST_F(Formats, LabelMeIsRefusedByFileAndPosition) {
  expect_refused(written("a.json", labelme(labelme_shape("cat", "mask", "[[1, 1], [3, 3]]"))),
                 "a.json: shapes[0]: shape_type 'mask' is not read");
  expect_refused(written("a.json", labelme(labelme_shape("cat", "rectangle", "[[1, 1]]"))),
                 "a.json: shapes[0]: a rectangle has 1 points");
  expect_refused(written("a.json", labelme(labelme_shape("cat", "polygon", "[[1, 1], [3]]"))),
                 "a.json: shapes[0]: points[1] has 1 coordinates");
  expect_refused(written("a.json", labelme(labelme_shape("cat", "polygon", "[[1, 1], [3, 1e12], [1, 4]]"))),
                 "a.json: shapes[0]: 1000000000000 is not a coordinate");
  expect_refused(written("a.json", R"({"shapes": [], "imagePath": 3})"), "a.json: 'imagePath' must be a text, found a number");
  expect_refused(written("a.json", "{\"shapes\": [\n{]}"), "a.json:2:2: this is not JSON");
}

TEST_F(Formats, LabelMesFlagsAreClassesOfTheImage) {
  auto text = labelme("", "a.png");
  text.replace(text.find("\"blurred\": false"), 16, "\"good\": true");
  EXPECT_EQ(samples(written("a.json", text, Made::one_class)), Texts{"a.png good"});
}

// ---- CVAT ----

std::string cvat(const std::string& shapes) {
  return "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<annotations>\n  <version>1.1</version>\n  <meta>\n    <task>\n      "
         "<labels>\n"
         "        <label><name>dog</name><color>#ff0000</color></label>\n        <label><name>cat</name></label>\n      "
         "</labels>\n"
         "    </task>\n  </meta>\n  <image id=\"0\" name=\"a.png\" width=\"6\" height=\"4\">\n" +
         shapes +
         "  </image>\n  <image id=\"1\" name=\"b.png\" subset=\"Train\" width=\"6\" height=\"4\">\n  </image>\n</annotations>\n";
}

TEST_F(Formats, CvatHasBoxesPolygonsMasksAndOrder) {
  const std::string box =
      R"(<box label="dog" source="manual" occluded="0" xtl="1.00" ytl="1.00" xbr="3.00" ybr="3.00" z_order="0"></box>)";
  EXPECT_EQ(samples(written("a.xml", cvat(box))), (Texts{kMap, kEmpty}));
  EXPECT_EQ(opened(params("a.xml"))->classes(), (Texts{"background", "dog", "cat"}));
  const std::string polygon = R"(<polygon label="cat" points="2.0,0.0;6.0,0.0;6.0,2.0;2.0,2.0" z_order="1"/>)";
  const std::string mask = R"(<mask label="cat" rle="1, 2, 1" left="0" top="2" width="2" height="2" z_order="2"/>)";
  EXPECT_EQ(samples(written("a.xml", cvat(mask + polygon + box)))[0], "a.png 002222/012222/021000/200000") << "by z_order";
  EXPECT_EQ(samples(written("a.xml", cvat(R"(<box label="dog" xtl="1" ytl="0" xbr="3" ybr="4" rotation="90.0"/>)")))[0],
            "a.png 000000/111100/111100/000000")
      << "turned about its middle";
}

TEST_F(Formats, CvatIsRefusedByFileAndLine) {
  expect_refused(written("a.xml", cvat("<box label=\"dog\" xtl=\"1\" ytl=\"1\" xbr=\"3\"/>\n")), "a.xml:13: <box> has no 'ybr'");
  expect_refused(written("a.xml", cvat("<mask label=\"dog\" rle=\"1, 2\" left=\"5\" top=\"2\" width=\"2\" height=\"2\"/>\n")),
                 "a.xml:13: a mask of 2 x 2 pixels at 5, 2 leaves its image");
  expect_refused(written("a.xml", cvat("<mask label=\"dog\" rle=\"1, 9\" left=\"0\" top=\"2\" width=\"2\" height=\"2\"/>\n")),
                 "a.xml:13: run 1 of a mask of 4 pixels has the length 9");
  expect_refused(written("a.xml", cvat("<polygon label=\"dog\" points=\"1,1;2,x\"/>\n")),
                 "a.xml:13: points: 'x' is not a number");
  expect_refused(written("a.xml", "<annotations>\n<track id=\"0\"/>\n</annotations>"), "a.xml:2: tracks of a video are not read");
  auto tagged = written("a.xml", cvat(R"(<polyline label="dog" points="1,1;2,2"/><tag label="cat"/>)"), Made::one_class);
  tagged.empty = "leave out";
  EXPECT_EQ(samples(tagged), Texts{"a.png cat"});
}

// ---- Label Studio ----

std::string studio(const std::string& results, const std::string& more = "",
                   const std::string& image = "/data/upload/1/0a1b2c3d-a.png") {
  return R"([{"id": 1, "annotations": [{"id": 2, "was_cancelled": true, "result": [{}]}, {"id": 3, "was_cancelled": false, "result": [)" +
         results + R"(]})" + more + R"(], "file_upload": "0a1b2c3d-a.png", "data": {"text": "x", "image": ")" + image + R"("}}])";
}
std::string result(const std::string& type, const std::string& value) {
  return fmt::format(
      R"({{"original_width": 6, "original_height": 4, "image_rotation": 0, "from_name": "label", "to_name": "image", "type": "{}", "value": {{{}}}}})",
      type, value);
}
const char* const kStudioBox =
    R"("x": 16.666666666666668, "y": 25, "width": 33.333333333333336, "height": 50, "rotation": 0, "rectanglelabels": ["cat"])";

TEST_F(Formats, LabelStudioGivesPercent) {
  EXPECT_EQ(samples(written("a.json", studio(result("rectanglelabels", kStudioBox)))), Texts{kMap});
  EXPECT_NE(run_.warnings().front().find("1 image without annotations, 'b.png'"), std::string::npos);
  EXPECT_EQ(samples(written("a.json", studio(result("rectanglelabels", kStudioBox), "", "/data/local-files/?d=images%2Fa.png"))),
            Texts{kMap});
  const std::string polygon = R"("points": [[50, 0], [100, 0], [100, 50], [50, 50]], "polygonlabels": ["dog"])";
  EXPECT_EQ(samples(written("a.json", studio(result("rectanglelabels", kStudioBox) + "," + result("polygonlabels", polygon))))[0],
            "a.png 000222/011222/011000/000000");
  const std::string turned =
      R"("x": 50, "y": 25, "width": 33.333333333333336, "height": 25, "rotation": 90, "rectanglelabels": ["cat"])";
  EXPECT_EQ(samples(written("a.json", studio(result("rectanglelabels", turned))))[0], "a.png 000000/001000/001000/000000")
      << "turned about its upper left corner";
}

TEST_F(Formats, LabelStudiosFirstAnnotationCountsAndChoicesAreClasses) {
  const std::string choice = R"({"type": "choices", "value": {"choices": ["good"]}})";
  const std::string other = R"(, {"id": 4, "result": [{"type": "choices", "value": {"choices": ["bad"]}}]})";
  EXPECT_EQ(samples(written("a.json", studio(choice, other), Made::one_class)), Texts{"a.png good"});
  EXPECT_NE(run_.warnings()[1].find("1 further annotation of a task"), std::string::npos) << run_.warnings()[1];
  expect_refused(written("a.json", studio(result("brushlabels", R"("rle": [1, 2], "brushlabels": ["cat"])"))),
                 "a.json: [0]: result[0]: brushes are not read");
  expect_refused(written("a.json", studio(result("rectanglelabels", R"("x": 1, "y": 2, "rectanglelabels": ["cat"])"))),
                 "result[0]: 'width' is missing");
  expect_refused(
      written("a.json", studio(result("rectanglelabels", R"("x": 1, "y": 2, "width": 2, "height": 2, "rectanglelabels": [3])"))),
      "a.json: [0]: a value has an unexpected type");
}

// ---- Lists of boxes ----

TEST_F(Formats, ListsOfBoxesHaveTheirUsualColumns) {
  EXPECT_EQ(samples(written("a.csv",
                            "\xef\xbb\xbf"
                            "filename,width,height,class,xmin,ymin,xmax,ymax\na.png,6,4,cat,1,1,3,3\nb.png,6,4,,,,,\n")),
            (Texts{kMap, kEmpty}));
  EXPECT_EQ(
      samples(written("a.csv", "image_path;xmin;ymin;xmax;ymax;label\n\"a.png\";1;1;3;3;\"cat; black\"\na.png;3;1;4;2;dog\n"))[0],
      "a.png 000000/011200/011000/000000");
}

TEST_F(Formats, ListsOfBoxesAreRefusedByFileAndLine) {
  const std::string head = "image_path,xmin,ymin,xmax,ymax,label\n";
  expect_refused(written("a.csv", head + "a.png,1,1,3,3,cat\na.png,1,1,3,cat\n"), "a.csv:3: 5 fields instead of 6");
  expect_refused(written("a.csv", head + "a.png,1,1,three,3,cat\n"), "a.csv:2: 'three' is not a number");
  expect_refused(written("a.csv", head + "a.png,1,1,inf,3,cat\n"), "a.csv:2: inf is not a coordinate");
  expect_refused(written("a.csv", head + "c.png,1,1,3,3,cat\n"), "a.csv:2: 'c.png' has no matching image in");
  expect_refused(written("a.csv", "file,label\na.png,cat\n"), "no annotations in a known format");
}

}  // namespace
}  // namespace millrace
