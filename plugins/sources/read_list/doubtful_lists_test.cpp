// Valid lists that are probably wrong.
#include "read_list_fixture.h"

#include "testkit/messages.h"

namespace millrace {
namespace {

using Texts = std::vector<std::string>;

TEST_F(ReadListTest, NamesWithoutTheirEndingAreFoundWithIt) {
  for (const char* name : {"1.jpg", "2.jpg"}) folder_.write(name, name);
  auto params = list("file_name,label\n1,a\n2.jpg,b\n");
  opened(params);
  EXPECT_MESSAGE(run_.warnings().back());
  params.ending = ".jpg";
  EXPECT_EQ(samples(params), (Texts{"1.jpg:0:", "2.jpg:1:"}));
  EXPECT_EQ(run_.warnings().size(), 1U);
  EXPECT_NE(error_of(list("file_name,label\n1,a\n")).message().find("ending = \".jpg\""), std::string::npos);
  folder_.write("c/3.jpg", "3");
  EXPECT_MESSAGE(error_of(list("file_name,label\nc\\3.jpg,a\n")).message());
}

TEST_F(ReadListTest, LabelsThatSeemWrongAreWarnedAbout) {
  for (const char* name : {"1.jpg", "2.jpg"}) folder_.write(name, name);
  auto params = list("file_name,label\n1.jpg,1\n2.jpg,2\n1.jpg,1\n1.jpg,2\n");
  opened(params);
  EXPECT_EQ(
      run_.warnings(),
      (Texts{fmt::format("1 file of '{}' is listed again with another label, such as '1.jpg' in lines 4 and 5", params.path),
             fmt::format("class '0' has no file in '{}', but all others have some: do its labels begin with 1?", params.path)}));
}

TEST_F(ReadListTest, AWordForNoValueAndOtherEndingsAreTold) {
  for (const char* name : {"1.PNG", "2.jpg"}) folder_.write(name, name);
  opened(list("file_name,label\n2.jpg,a\n2.jpg,a\n1.PNG,nan\n"));
  EXPECT_MESSAGE(run_.warnings().back());
  EXPECT_MESSAGE(error_of(list("file_name,label\n1.png,a\n")).message());
  EXPECT_MESSAGE(error_of(list("file_name,label\n'2.jpg',a\n")).message());
}

TEST_F(ReadListTest, NamesInAnotherFormAreFound) {
  folder_.write("A01.JPG", "1");
  folder_.write("cafe\xcc\x81.jpg", "2");
  folder_.write("red car.jpg", "3");
  folder_.write("list/0.jpg", "4");
  const std::pair<const char*, const char*> said[] = {
      {"a01.jpg", "'A01.JPG' exists: the list differs in upper and lower case"},
      {"caf\xc3\xa9.jpg", "'cafe\\xcc\\x81.jpg' exists, and the list has 'caf\\xc3\\xa9.jpg'"},
      {"red%20car.jpg", "red car.jpg' exists: the list has encoded paths"},
      {"0.jpg", "/list/0.jpg' exists: root = \""}};
  for (const auto& [name, hint] : said) {
    const std::string message = error_of(list(fmt::format("file_name,label\n{},a\n", name))).message();
    EXPECT_NE(message.find(hint), std::string::npos) << message;
  }
}

TEST_F(ReadListTest, LabelsWithLineEndsAndEmptyRowsAreOfSpreadsheets) {
  for (const char* name : {"1.jpg", "2.jpg"}) folder_.write(name, name);
  EXPECT_EQ(samples(list("file_name,label\n1.jpg,\"cat\n\"\n\"2.jpg\n\",\"\r\ncat \"\n,\n,\n", "list.CSV")),
            (Texts{"1.jpg:0:", "2.jpg:0:"}));
  EXPECT_NE(error_of(list("filename,label\n1.jpg,a\n")).message().find("file = \"filename\" selects it"), std::string::npos);
}

TEST_F(ReadListTest, AColumnThatTellsPartsApartIsWarnedOf) {
  for (const char* name : {"1.jpg", "2.jpg"}) folder_.write(name, name);
  const auto warned = [this](const std::string& column, const char* first, const char* second) {
    const std::size_t before = run_.warnings().size();
    const auto params = list(fmt::format("file_name,label,{}\n1.jpg,a,{}\n2.jpg,b,{}\n", column, first, second));
    opened(params);
    const bool is_said = run_.warnings().size() == before + 1 &&
                         run_.warnings().back().starts_with(fmt::format("'{}' has a column '{}'", params.path, column));
    EXPECT_TRUE(is_said || run_.warnings().size() == before);
    return is_said;
  };
  for (const char* column : {"split", "Set", "data set", "dataset", "subset", "partition"})
    EXPECT_TRUE(warned(column, "train", "test"));
  for (const char* column : {"is_valid", "is_test"}) EXPECT_TRUE(warned(column, "False", "True"));
  EXPECT_TRUE(warned("fold", "0", "1"));
  EXPECT_FALSE(warned("split", "train", "train")) << "a list of one part";
  EXPECT_FALSE(warned("dataset", "vienna", "rosendahl")) << "where images are from";
  EXPECT_FALSE(warned("settings", "train", "test"));
}

TEST_F(ReadListTest, AColumnOfPartsThatIsUsedIsNotWarnedOf) {
  for (const char* name : {"1.jpg", "2.jpg"}) folder_.write(name, name);
  auto params = list("file_name,label,fold\n1.jpg,a,0\n2.jpg,b,1\n");
  params.numbers = {"fold"};
  opened(params);
  params.labels = "none";
  params.numbers = {};
  opened(params);
  EXPECT_EQ(run_.warnings(), Texts{});
  opened(
      list("{\"file_name\": \"1.jpg\", \"label\": 0, \"split\": \"train\"}\n"
           "{\"file_name\": \"2.jpg\", \"label\": 1, \"split\": \"val\"}\n",
           "list.jsonl"));
  EXPECT_EQ(run_.warnings().size(), 1U);
}

TEST_F(ReadListTest, LabelsThatSeemValuesAreWarnedOf) {
  for (const char* name : {"1.jpg", "2.jpg"}) folder_.write(name, name);
  opened(list("file_name,label\n1.jpg,10115\n2.jpg,80331\n"));
  ASSERT_EQ(run_.warnings().size(), 1U);
  EXPECT_MESSAGE(run_.warnings()[0]);
}

// The square of a price in cents, as a loss, and its effect on weights.
TEST_F(ReadListTest, NumbersThatAreHugeAreWarnedOf) {
  for (const char* name : {"1.jpg", "2.jpg"}) folder_.write(name, name);
  const auto warned = [this](const std::string& second) {
    auto params = list("file_name,x\n1.jpg,3\n2.jpg," + second + "\n");
    params.numbers = {"x"};
    const std::size_t before = run_.warnings().size();
    opened(params);
    return run_.warnings().size() - before;
  };
  EXPECT_EQ(warned("-9999"), 0U);
  ASSERT_EQ(warned("-1e9"), 1U);
  EXPECT_MESSAGE(run_.warnings()[0]);
}

TEST_F(ReadListTest, AFileOnTwoLinesIsWarnedOfWhereItsListIsDivided) {
  for (const char* name : {"1.jpg", "2.jpg"}) folder_.write(name, name);
  auto params = list("file_name,label\n1.jpg,cat\n2.jpg,dog\n1.jpg,cat\n");
  opened(params);
  EXPECT_EQ(run_.warnings().size(), 0U) << "it counts twice, which may be meant";
  params.part = {0, 0.5};
  opened(params);
  ASSERT_EQ(run_.warnings().size(), 1U);
  EXPECT_MESSAGE(run_.warnings()[0]);
}

TEST_F(ReadListTest, AColumnOfOneNumberIsWarnedOf) {
  for (const char* name : {"1.jpg", "2.jpg"}) folder_.write(name, name);
  auto params = list("file_name,x,y\n1.jpg,7,0\n2.jpg,8,0\n");
  params.numbers = {"x", "y"};
  opened(params);
  EXPECT_EQ(run_.warnings(),
            Texts{fmt::format("column 'y' of '{}' is 0 in all 2 rows, so nothing can be learned from it", params.path)});
  params.join = true;
  opened(params);
  EXPECT_EQ(run_.warnings().size(), 1U) << "boxes";
  params = list("file_name,x,y\n1.jpg,7,0\n");
  params.numbers = {"x", "y"};
  opened(params);
  EXPECT_EQ(run_.warnings().size(), 1U) << "one file";
}

TEST_F(ReadListTest, AColumnOfNumbersThatIsListedTwiceIsAMistake) {
  auto params = list("file_name,x,y\n1.jpg,7,0\n");
  params.numbers = {"x", "y", "x"};
  const Error error = error_of(params);
  EXPECT_EQ(error.kind(), ErrorKind::usage);
  EXPECT_MESSAGE(error.message());
}

}  // namespace
}  // namespace millrace
