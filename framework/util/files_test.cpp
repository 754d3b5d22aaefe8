#include "millrace/util/files.h"

#include <gtest/gtest.h>

#include "millrace/error.h"
#include "millrace/plugin.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

TEST(PathList, GivesBackWhatWasAdded) {
  const std::vector<std::string> paths = {"a.jpg",  "cat/1.jpg", "cat/2.jpg", "dog/a/1.jpg", "cat/3.jpg",
                                          "/abs/x", "x",         "s3://b/k",  "/y"};
  PathList list;
  for (const std::string& path : paths) list.add(path);
  list.finish();
  ASSERT_EQ(list.size(), paths.size());
  for (std::size_t i = 0; i < paths.size(); ++i) EXPECT_EQ(list[i], paths[i]);
  std::string url = "root/";
  list.append(3, url);
  EXPECT_EQ(url, "root/dog/a/1.jpg");
}

TEST(PathList, KeepsAFoldersNameOnceInWhateverOrderItComes) {
  PathList list;
  for (int i = 0; i < 100'000; ++i)
    list.add(fmt::format("a folder with a long name, of which there are ten, number {}/{:06}.jpg", i % 10, i));
  list.finish();
  EXPECT_LT(list.memory(), 100'000U * 20);
  EXPECT_EQ(list[99'999], "a folder with a long name, of which there are ten, number 9/099999.jpg");
}

TEST(PathList, HasAnotherHashWithOtherPathsOrAnotherOrder) {
  const auto hash_of = [](const std::vector<std::string>& paths) {
    PathList list;
    for (const std::string& path : paths) list.add(path);
    list.finish();
    return list.hash();
  };
  const std::uint64_t hash = hash_of({"a/1", "b/2"});
  EXPECT_EQ(hash_of({"a/1", "b/2"}), hash);
  for (const std::vector<std::string>& other :
       {std::vector<std::string>{"b/2", "a/1"}, {"a/1", "b/3"}, {"a/1"}, {"a/1b/", "2"}, {"b/1", "b/2"}}) {
    EXPECT_NE(hash_of(other), hash);
  }
}

TEST(Extensions, AreTheSameInUpperAndLowerCase) {
  const Extensions extensions({"jpg", ".PNG"});
  for (const char* name : {"a.jpg", "a.JPG", "b/c.Png", "b.c/d.jpg"}) EXPECT_TRUE(extensions.match(name)) << name;
  for (const char* name : {"jpg", ".jpg", "a/.jpg", "a.jpeg", "ajpg", "a.jpg/b", ""})
    EXPECT_FALSE(extensions.match(name)) << name;
  EXPECT_EQ(extensions.text(), ".jpg, .png");
  EXPECT_THROW(Extensions({""}), Error);
  EXPECT_THROW(Extensions({}), Error);
}

TEST(Extensions, OfJpegAreAllThatItHas) {
  const Extensions jpeg({"JPEG"}), jpg({"jpg"});
  for (const char* name : {"a.jpeg", "a.jfif", "a.JPE"}) EXPECT_TRUE(jpeg.match(name)) << name;
  for (const char* name : {"a.jpeg", "a.jfif", "a.jpe"}) EXPECT_FALSE(jpg.match(name)) << name;
  EXPECT_EQ(jpeg.text(), ".jpeg");
}

TEST(ClassNumbers, AreTheBytewiseOrderOfAllThatAreFound) {
  ClassNumbers numbers;
  std::vector<std::int32_t> labels;
  for (const char* name : {"dog", "ant", "dog", "Zebra"}) labels.push_back(numbers.add(name));
  labels.push_back(-1);
  numbers.finish(labels);
  EXPECT_EQ(numbers.names(), (std::vector<std::string>{"Zebra", "ant", "dog"}));
  EXPECT_EQ(labels, (std::vector<std::int32_t>{2, 1, 2, 0, -1}));
  EXPECT_EQ(numbers.counts(), (std::vector<std::uint64_t>{1, 1, 2}));
}

TEST(ClassNumbers, AreTheOrderOfTheGivenOnes) {
  ClassNumbers numbers({"dog", "cat", "ant"});
  EXPECT_EQ(numbers.add("dgo"), -1);
  EXPECT_EQ(numbers.hint("dgo"), ": did you mean 'dog'?");
  std::vector<std::int32_t> labels = {numbers.add("ant"), numbers.add("dog")};
  numbers.finish(labels);
  EXPECT_EQ(labels, (std::vector<std::int32_t>{2, 0}));
  EXPECT_EQ(numbers.names(), (std::vector<std::string>{"dog", "cat", "ant"}));
  EXPECT_EQ(numbers.counts(), (std::vector<std::uint64_t>{1, 0, 1}));
}

TEST(Fingerprint, FollowsNameSizeAndVersion) {
  const Storage::Object object{"a", 1, "v"};
  EXPECT_EQ(fingerprint_of(object), fingerprint_of({"a", 1, "v"}));
  for (const Storage::Object& other : {Storage::Object{"b", 1, "v"}, {"a", 2, "v"}, {"a", 1, "w"}}) {
    EXPECT_NE(fingerprint_of(object), fingerprint_of(other));
  }
}

TEST(StorageFor, NamesTheParameterThatIsWrong) {
  const Registry registry;
  StepContext context;
  context.registry = &registry;
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::usage, [&] { storage_for(context, "images", "s3://bucket/a"); }).what());
}

}  // namespace
}  // namespace millrace
