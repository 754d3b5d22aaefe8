#include "read_list_fixture.h"

#include <thread>

#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

using Texts = std::vector<std::string>;

TEST_F(ReadListTest, ReadsFilesRelativeToTheListWithClassesSortedByName) {
  folder_.write("images/1.jpg", "one");
  folder_.write("2.jpg", "two");
  const auto params = list("file_name,label\nimages/1.jpg,wren\n2.jpg,crow\nimages/1.jpg,wren\n");
  EXPECT_EQ(samples(params), (Texts{"one:1:", "two:0:", "one:1:"}));
  EXPECT_EQ(opened(params)->classes(), (Texts{"crow", "wren"}));
  EXPECT_EQ(opened(params)->largest_encoded(), 3U);
}

TEST_F(ReadListTest, TakesAbsolutePathsAndAnotherRoot) {
  folder_.write("elsewhere/1.jpg", "one");
  const std::string absolute = folder_.write("2.jpg", "two");
  auto params = list("file_name,label\n1.jpg,a\n" + absolute + ",a\nfile://" + absolute + ",a\n", "lists/x.csv");
  params.root = folder_ / "elsewhere";
  EXPECT_EQ(samples(params), (Texts{"one:0:", "two:0:", "two:0:"}));
}

TEST_F(ReadListTest, ReadsTabsAndLinesOfJson) {
  folder_.write("1.jpg", "one");
  folder_.write("2.jpg", "two");
  EXPECT_EQ(samples(list("file_name\tlabel\n1.jpg\tb\n2.jpg\ta\n", "list.tsv")), (Texts{"one:1:", "two:0:"}));
  EXPECT_EQ(samples(list("{\"file_name\": \"1.jpg\", \"label\": 7}\n{\"file_name\": \"2.jpg\", \"label\": 0}\n", "list.jsonl")),
            (Texts{"one:7:", "two:0:"}));
}

TEST_F(ReadListTest, FindsTheListThatHuggingFacePutsIntoAFolder) {
  folder_.write("1.jpg", "one");
  ReadList::Params params = list("file_name,label\n1.jpg,a\n", "metadata.csv");
  params.path = folder_.path().string();
  EXPECT_EQ(samples(params), Texts{"one:0:"});
  params.path = folder_ / "empty";
  std::filesystem::create_directories(params.path);
  EXPECT_MESSAGE(error_of(params).message());
  folder_.write("empty/metadata.jsonl", "");
  std::filesystem::create_symlink("gone.csv", folder_ / "empty/metadata.csv");  // this was meant rather than the other
  EXPECT_MESSAGE(error_of(params).message());
}

TEST_F(ReadListTest, ReadsImagesThatHaveNoClass) {
  folder_.write("1.jpg", "one");
  folder_.write("2.jpg", "two");
  auto params = list("file_name,label\n1.jpg,a\n2.jpg,b\n");
  params.labels = "none";
  EXPECT_EQ(samples(params), (Texts{"one:-1:", "two:-1:"}));
  params = list("file_name\n2.jpg\n1.jpg\n");
  params.labels = "none";
  params.classes = {"cat", "dog"};  // the network's
  EXPECT_EQ(samples(params), (Texts{"two:-1:", "one:-1:"}));
  EXPECT_EQ(opened(params)->classes(), params.classes);
  EXPECT_TRUE(run_.warnings().empty());
  params.label = "label";
  EXPECT_NE(error_of(params).message().find("exclude each other"), std::string::npos);
}

TEST_F(ReadListTest, ReadsNumbersForRegression) {
  folder_.write("1.jpg", "one");
  auto params = list("file_name,x,y,kind\n1.jpg,0.5,-2e3,a\n1.jpg, 1 ,0,b\n");
  params.numbers = {"y", "x"};
  EXPECT_EQ(samples(params), (Texts{"one:-1:-2000,0.5", "one:-1:0,1"}));
  EXPECT_TRUE(opened(params)->classes().empty());
  params.label = "kind";
  EXPECT_EQ(samples(params), (Texts{"one:0:-2000,0.5", "one:1:0,1"}));
}

TEST_F(ReadListTest, AColumnMayBeLabelAndNumberAtOnce) {
  folder_.write("1.jpg", "one");
  auto params = list("file_name,age\n1.jpg,3\n1.jpg, 1\n");
  params.label = "age";
  params.numbers = {"age"};
  EXPECT_EQ(samples(params), (Texts{"one:3:3", "one:1:1"}));
}

TEST_F(ReadListTest, JoinsTheLinesOfAFileIntoRowsOfOneSample) {
  folder_.write("1.jpg", "one");
  folder_.write("2.jpg", "two");
  auto params = list("file_name,kind,x,y\n1.jpg,wren,1,2\n2.jpg,crow,3,4\n1.jpg,crow,5,6\n");
  params.join = true;
  params.label = "kind";
  params.numbers = {"x", "y"};
  const auto source = opened(params);
  EXPECT_EQ(source->size(), 2U);
  EXPECT_EQ(source->numbers(), 3U);
  EXPECT_TRUE(source->has_rows());
  EXPECT_EQ(source->classes(), (Texts{"crow", "wren"}));
  Sample sample;
  testkit::read(*source, 0, sample);
  EXPECT_EQ(sample.numbers, (std::vector<float>{1, 1, 2, 0, 5, 6}));
  EXPECT_EQ(sample.label, -1);
  testkit::read(*source, 1, sample);
  EXPECT_EQ(sample.numbers, (std::vector<float>{0, 3, 4}));
}

TEST_F(ReadListTest, WithNothingToJoinEachFileIsOneSampleWithoutRows) {
  folder_.write("1.jpg", "one");
  auto params = list("file_name\n1.jpg\n1.jpg\n");
  params.join = true;
  params.labels = "none";
  const auto source = opened(params);
  EXPECT_EQ(source->size(), 1U);
  EXPECT_EQ(source->numbers(), 0U);
  EXPECT_FALSE(source->has_rows());
}

TEST_F(ReadListTest, JoinsSeveralLabelsOfAnImage) {
  folder_.write("1.jpg", "one");
  auto params = list("file_name,label\n1.jpg,7\n1.jpg,2\n");
  params.join = true;
  const auto source = opened(params);
  Sample sample;
  testkit::read(*source, 0, sample);
  EXPECT_EQ(sample.numbers, (std::vector<float>{7, 2}));
  EXPECT_EQ(source->classes().size(), 8U);
}

TEST_F(ReadListTest, SaysWhereAFileLiesWithoutReadingIt) {
  folder_.write("1.jpg", "one");
  const auto source = opened(list("file_name,label\n1.jpg,a\n"));
  SampleOrigin origin;
  EXPECT_TRUE(source->place(0, origin));
  EXPECT_EQ(origin.url, folder_ / "1.jpg");
}

TEST_F(ReadListTest, LabelsThatDifferByBlanksAroundThemAreOneClass) {
  folder_.write("1.jpg", "one");
  EXPECT_EQ(opened(list("file_name, label\n1.jpg, cat\n1.jpg,cat \n1.jpg,\" cat\"\n"))->classes(), Texts{"cat"});
}

TEST_F(ReadListTest, IntegersAreClassNumbersWhenAllLabelsAre) {
  folder_.write("1.jpg", "one");
  const auto params = list("file_name,label\n1.jpg,10\n1.jpg,9\n1.jpg,0\n");
  EXPECT_EQ(samples(params), (Texts{"one:10:", "one:9:", "one:0:"}));
  EXPECT_EQ(opened(params)->classes().size(), 11U);
  EXPECT_EQ(opened(params)->classes()[10], "10");
  EXPECT_EQ(opened(list("file_name,label\n1.jpg,10\n1.jpg,9\n1.jpg,x\n"))->classes(), (Texts{"10", "9", "x"}));
}

TEST_F(ReadListTest, GivenClassesNumberTheLabels) {
  folder_.write("1.jpg", "one");
  auto params = list("file_name,label\n1.jpg,dog\n1.jpg,cat\n");
  params.classes = {"cat", "dog", "owl"};
  EXPECT_EQ(samples(params), (Texts{"one:1:", "one:0:"}));
  EXPECT_MESSAGE(run_.warnings().back());
  params = list("file_name,label\n1.jpg,1\n1.jpg,0\n");
  params.classes = {"cat", "dog", "owl"};
  EXPECT_EQ(samples(params), (Texts{"one:1:", "one:0:"}));
}

// Labels of a list that counts from 0, and classes that count from 1.
TEST_F(ReadListTest, LabelsAreAllNamesOrAllPositions) {
  folder_.write("1.jpg", "one");
  auto params = list("file_name,label\n1.jpg,0\n1.jpg,1\n1.jpg,2\n");
  params.classes = {"1", "2", "3"};
  EXPECT_EQ(samples(params), (Texts{"one:0:", "one:1:", "one:2:"}));
  EXPECT_MESSAGE(run_.warnings().back());
  params = list("file_name,label\n1.jpg,1\n1.jpg,2\n1.jpg,3\n");
  params.classes = {"1", "2", "3"};
  EXPECT_EQ(samples(params), (Texts{"one:0:", "one:1:", "one:2:"}));
  EXPECT_MESSAGE(run_.warnings().back());
  params = list("file_name,label\n1.jpg,1\n1.jpg,2\n1.jpg,3\n");
  params.classes = {"cat", "dog", "owl"};
  EXPECT_MESSAGE(error_of(params).message());
  params = list("file_name,label\n1.jpg,dog\n1.jpg,0\n");
  params.classes = {"cat", "dog", "owl"};
  EXPECT_EQ(error_of(params).message(),
            params.path +
                ":3:7: column 'label': '0' is not among the 3 `classes`; either all labels are names or all are positions, and "
                "'dog' is a name");
}

// For polarities and years, and for folders with such names, which `pipeline-data split` writes.
TEST_F(ReadListTest, IntegersAreNamesWhereClassesNameThem) {
  folder_.write("1.jpg", "one");
  auto params = list("file_name,label\n1.jpg,10\n1.jpg,-1\n1.jpg,2\n1.jpg,-1\n");
  EXPECT_MESSAGE(error_of(params).message());
  params.classes = {"-1", "2", "10"};
  EXPECT_EQ(samples(params), (Texts{"one:2:", "one:0:", "one:1:", "one:0:"}));
  EXPECT_NE(error_of(list("file_name,label\n1.jpg,cat\n1.jpg,-1\n")).message().find("classes = [\"-1\", \"cat\"]"),
            std::string::npos);
}

TEST_F(ReadListTest, SaysWhereALabelIsWrong) {
  folder_.write("1.jpg", "one");
  auto params = list("file_name,label\n1.jpg,dgo\n");
  params.classes = {"cat", "dog"};
  EXPECT_MESSAGE(error_of(params).message());
  EXPECT_EQ(error_of(params).kind(), ErrorKind::data);
  params = list("file_name,label\n1.jpg,2\n");
  params.classes = {"cat", "dog"};
  EXPECT_MESSAGE(error_of(params).message());
  params = list("file_name,label\n1.jpg,-1\n");
  EXPECT_EQ(error_of(params).message(), params.path +
                                            ":2:7: column 'label': -1 is not a class number, which begin at 0. If it is a class, "
                                            "set classes = [\"-1\"], or with data.path --set 'data.classes=[\"-1\"]'; if it "
                                            "marks a missing label, remove such lines");
  params = list("file_name,label\n1.jpg,\n");
  EXPECT_MESSAGE(error_of(params).message());
  params = list("file_name,label\n1.jpg,2000000\n");
  EXPECT_MESSAGE(error_of(params).message());
}

TEST_F(ReadListTest, SaysWhereANumberIsWrong) {
  folder_.write("1.jpg", "one");
  for (const char* wrong : {"", "1,500", "nan", "1e99", "0x10", "12a"}) {
    auto params = list(fmt::format("file_name,x\n1.jpg,\"{}\"\n", wrong));
    params.numbers = {"x"};
    const char* const comma =
        std::string_view(wrong) == "1,500" ? " with a decimal point, since a comma may separate thousands" : "";
    EXPECT_EQ(error_of(params).message(),
              fmt::format("{}:2:7: column 'x': expected a number{}, found '{}'", params.path, comma, wrong));
  }
}

TEST_F(ReadListTest, AMissingFileIsABadSampleAndAWarningThatNamesTheLine) {
  folder_.write("1.jpg", "one");
  const auto params = list("file_name,label\n1.jpg,a\n\n2.jpg,a\n3.jpg,a\n");
  ReadList source(params, context_);
  source.open();
  const std::string cause = fmt::format("cannot access '{}': No such file or directory", folder_ / "2.jpg");
  EXPECT_EQ(run_.warnings(),
            (std::vector<std::string>{fmt::format(
                "2 of the 3 files in '{0}' cannot be read, and are bad samples; the first: {0}:4: {1}", params.path, cause)}));
  Sample sample;
  sample.reset({.index = 0}, {});
  source.read(sample);
  sample.reset({.index = 1}, {});
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::content, [&] { source.read(sample); }).message());
}

TEST_F(ReadListTest, AListOfWhichNoFileIsThereIsUnusable) {
  const auto params = list("file_name,label\n1.jpg,a\n\n2.jpg,a\n");
  const Error error = error_of(params);
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_MESSAGE(error.message());
}

TEST_F(ReadListTest, SaysWhichNamesAreNoFiles) {
  auto params = list("file_name,label\n,a\n");
  EXPECT_MESSAGE(error_of(params).message());
  params = list(std::string("file_name,label\na\0b,a\n", 22));
  EXPECT_MESSAGE(error_of(params).message());
  params = list("file_name,label\n");
  EXPECT_EQ(error_of(params).message(), fmt::format("'{}' names no file", params.path));
}

TEST_F(ReadListTest, RefusesParametersThatDoNotFit) {
  const auto message = [&](const ReadList::Params& params) {
    const Error error = error_of(params);
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.message();
  };
  auto params = list("x", "list.txt");
  EXPECT_MESSAGE(message(params));
  params = list("x", "list.jsonl");
  params.columns = {"file_name", "label"};
  EXPECT_MESSAGE(message(params));
  params = list("x");
  params.numbers = {"x"};
  params.classes = {"a"};
  EXPECT_MESSAGE(message(params));
  params.path = folder_ / "lst.csv";
  EXPECT_EQ(error_of(params).kind(), ErrorKind::data);
  EXPECT_MESSAGE(error_of(params).what());
}

TEST_F(ReadListTest, ReadsListsWithoutNamesOfColumnsInAnyFormat) {
  folder_.write("1.jpg", "one");
  auto params = list("a,1.jpg\nb,1.jpg\n", "list.txt");
  params.columns = {"label", "file_name"};
  params.format = "csv";
  EXPECT_EQ(samples(params), (Texts{"one:0:", "one:1:"}));
}

TEST_F(ReadListTest, AnEmptyFileIsABadSample) {
  folder_.write("1.jpg", "");
  const auto source = opened(list("file_name,label\n1.jpg,a\n"));
  Sample sample;
  const Error error = testkit::error_of([&] { testkit::read(*source, 0, sample); });
  EXPECT_EQ(error.kind(), ErrorKind::content);
  EXPECT_EQ(sample.label, 0);
}

TEST_F(ReadListTest, AsksARemoteStorageOnceForAllSizes) {
  remote_->objects = {{"net://b/x/list.csv", "file_name,label\nc/2.jpg,b\nc/1.jpg,a\nc/2.jpg,a\n"},
                      {"net://b/x/c/1.jpg", "one"},
                      {"net://b/x/c/2.jpg", "second"},
                      {"net://b/x/c/3.jpg", "another"}};
  ReadList::Params params;
  params.path = "net://b/x/list.csv";
  EXPECT_EQ(samples(params), (Texts{"second:1:", "one:0:", "second:0:"}));
  EXPECT_EQ(remote_->lists, 1);
  EXPECT_EQ(remote_->stats, 0);
  EXPECT_EQ(opened(params)->largest_encoded(), 6U);
  remote_->objects.erase("net://b/x/c/1.jpg");
  opened(params);
  ASSERT_GE(run_.warnings().size(), 2U);
  EXPECT_MESSAGE(run_.warnings().rbegin()[1]);
}

// Like a web server: its message explains that lists name files one by one.
TEST_F(ReadListTest, TakesFilesAsTheyComeWhereFoldersCannotBeListed) {
  remote_->objects = {{"net://b/x/list.csv", "file_name,label\nc/2.jpg,b\nc/1.jpg,a\n"}, {"net://b/x/c/1.jpg", "one"}};
  remote_->has_folders = false;
  ReadList::Params params;
  params.path = "net://b/x/list.csv";
  const auto source = opened(params);
  EXPECT_EQ(source->fingerprint(), 0U);
  Sample sample;
  testkit::read(*source, 1, sample);
  EXPECT_EQ(testkit::text(sample.encoded), "one");
  EXPECT_EQ(sample.label, 0);
  EXPECT_EQ(testkit::error_of([&] { testkit::read(*source, 0, sample); }).kind(), ErrorKind::content);
}

TEST_F(ReadListTest, ALocalListMayNameRemoteFiles) {
  remote_->objects = {{"net://b/1.jpg", "one"}};
  const auto source = opened(list("file_name,label\nnet://b/1.jpg,a\n"));
  EXPECT_EQ(source->fingerprint(), 0U);  // their versions are not requested
  Sample sample;
  testkit::read(*source, 0, sample);
  EXPECT_EQ(testkit::text(sample.encoded), "one");
}

TEST_F(ReadListTest, TheFingerprintFollowsTheListAndTheFiles) {
  folder_.write("1.jpg", "one");
  const auto params = list("file_name,label\n1.jpg,a\n");
  const auto fingerprint = [&] { return opened(params)->fingerprint(); };
  const std::uint64_t first = fingerprint();
  EXPECT_NE(first, 0U);
  EXPECT_EQ(fingerprint(), first);
  folder_.write("1.jpg", "other");
  const std::uint64_t second = fingerprint();
  EXPECT_NE(second, first);
  list("file_name,label\n1.jpg,b\n");
  EXPECT_NE(fingerprint(), second);
}

TEST_F(ReadListTest, TheListingsHashFollowsThePathsLabelsAndNumbersOfTheList) {
  folder_.write("1.jpg", "one");
  const auto hash = [&](std::string_view text, bool join = false) {
    ReadList::Params params = list(text);
    if (text.starts_with("file_name,label,x")) params.label = "label";
    if (text.starts_with("file_name,label,x")) params.numbers = {"x"};
    params.join = join;
    return opened(params)->listing_hash();
  };
  const std::uint64_t labelled = hash("file_name,label\n1.jpg,a\n2.jpg,b\n");
  folder_.write("1.jpg", "other");
  EXPECT_EQ(hash("file_name,label\n1.jpg,a\n2.jpg,b\n"), labelled);
  for (const char* other :
       {"file_name,label\n1.jpg,b\n2.jpg,a\n", "file_name,label\n1.jpg,a\n3.jpg,b\n", "file_name,label\n2.jpg,b\n1.jpg,a\n"}) {
    EXPECT_NE(hash(other), labelled) << other;
  }
  const std::string first = "file_name,label,x\n1.jpg,a,1\n1.jpg,a,2\n2.jpg,b,3\n";
  const std::string rows = "file_name,label,x\n1.jpg,a,1\n2.jpg,a,2\n2.jpg,b,3\n";  // of other files
  for (const bool join : {false, true}) {
    EXPECT_NE(hash("file_name,label,x\n1.jpg,a,1\n1.jpg,a,2\n2.jpg,b,4\n", join), hash(first, join)) << "a number";
    EXPECT_NE(hash(rows, join), hash(first, join));
  }
}

TEST_F(ReadListTest, TheListingsHashIsTheSameUnderAnotherRoot) {
  const std::string text = "file_name,label\n1.jpg,a\n";
  for (const char* name : {"here/1.jpg", "there/1.jpg"}) folder_.write(name, name);
  EXPECT_EQ(opened(list(text, "here/list.csv"))->listing_hash(), opened(list(text, "there/other.csv"))->listing_hash());
}

// As written by pandas (get_dummies) and C's %+e.
TEST_F(ReadListTest, NumbersMayHaveASignAndBeTrueOrFalse) {
  for (const char* name : {"1.jpg", "2.jpg"}) folder_.write(name, name);
  auto params = list("file_name,x,y\n1.jpg,+2.5E+00,True\n2.jpg,+.5,FALSE\n");
  params.numbers = {"x", "y"};
  EXPECT_EQ(samples(params), (std::vector<std::string>{"1.jpg:-1:2.5,1", "2.jpg:-1:0.5,0"}));
  params = list("{\"file_name\": \"1.jpg\", \"x\": true}\n{\"file_name\": \"2.jpg\", \"x\": false}\n", "list.jsonl");
  params.numbers = {"x"};
  EXPECT_EQ(samples(params), (std::vector<std::string>{"1.jpg:-1:1", "2.jpg:-1:0"}));
  for (const char* other : {"+", "++1", "+-1", "yes", "+inf"}) {
    params = list(fmt::format("file_name,x\n1.jpg,{}\n", other));
    params.numbers = {"x"};
    EXPECT_NE(error_of(params).message().find("expected a number"), std::string::npos) << other;
  }
}

TEST_F(ReadListTest, NumbersMayHaveDecimalCommas) {
  folder_.write("1.jpg", "one");
  const auto read = [&](const std::string& text, const std::string& name = "list.csv") {
    auto params = list(text, name);
    params.numbers = {"age"};
    return samples(params);
  };
  EXPECT_EQ(read("file_name;age\n1.jpg;1,5\n1.jpg;-1,500\n"), (Texts{"one:-1:1.5", "one:-1:-1.5"}));
  EXPECT_EQ(read("file_name,age\n1.jpg,\"1,5\"\n1.jpg,\"0,125\"\n"), (Texts{"one:-1:1.5", "one:-1:0.125"}));
  EXPECT_EQ(read("file_name\tage\n1.jpg\t2,25\n", "list.tsv"), (Texts{"one:-1:2.25"}));
  for (const char* wrong :
       {"file_name,age\n1.jpg,\"1,500\"\n", "file_name;age\n1.jpg;1,5,5\n", "file_name;age\n1.jpg;1.234,5\n"}) {
    auto params = list(wrong);
    params.numbers = {"age"};
    EXPECT_NE(error_of(params).message().find("expected a number with a decimal point, since a comma may separate thousands"),
              std::string::npos);
  }
}

TEST_F(ReadListTest, ReadsTheTextOfWindowsWhereItIsToldTo) {
  folder_.write("caf\xc3\xa9.jpg", "one");
  auto params = list(
      "file_name,gr\xf6\xdf"
      "e\ncaf\xe9.jpg,\x80uro\n");
  params.label =
      "gr\xc3\xb6\xc3\x9f"
      "e";
  EXPECT_MESSAGE(error_of(params).message());
  params.encoding = "cp1252";
  EXPECT_EQ(samples(params), Texts{"one:0:"});
  EXPECT_EQ(opened(params)->classes(), Texts{"\xe2\x82\xacuro"});
  EXPECT_TRUE(run_.warnings().empty());
  params = list("file_name,label\ncaf\xc3\xa9.jpg,caf\xe9\n");
  params.classes = {"caf\xc3\xa9", "tea"};
  const std::string said = error_of(params).message();
  EXPECT_MESSAGE(said);
  params.classes = {};
  opened(params);
  ASSERT_EQ(run_.warnings().size(), 1U);
  EXPECT_MESSAGE(run_.warnings()[0]);
}

}  // namespace
}  // namespace millrace
