#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "file_storage.h"
#include "millrace/sample.h"
#include "testkit/few_addresses.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using testkit::error_of;
using testkit::TestFolder;
using testkit::text;

std::vector<std::string> names(FileStorage& storage, const std::string& url) {
  std::vector<std::string> result;
  storage.list(url, [&](const Storage::Object& object) { result.push_back(object.name); });
  return result;
}

TEST(FileStorage, ListsFilesAtAnyDepthInTheBytewiseOrderOfWholeNames) {
  const TestFolder folder;
  for (const char* name : {"b/2.jpg", "b/10.jpg", "a.txt", "b.jpg", "b-c/x", "b/c/d/e.png", "Z", "b/\xc3\xa4"})
    folder.write(name);
  FileStorage storage;
  EXPECT_EQ(names(storage, folder.path()),
            (std::vector<std::string>{"Z", "a.txt", "b-c/x", "b.jpg", "b/10.jpg", "b/2.jpg", "b/c/d/e.png", "b/\xc3\xa4"}));
}

TEST(FileStorage, TakesAFolderWithASlashAtItsEndAndAsAUrl) {
  const TestFolder folder;
  folder.write("a/b");
  FileStorage storage;
  EXPECT_EQ(names(storage, folder.path().string() + "//"), std::vector<std::string>{"a/b"});
  EXPECT_EQ(names(storage, "file://" + folder.path().string()), std::vector<std::string>{"a/b"});
}

TEST(FileStorage, LeavesOutHiddenNamesAndWhatIsNoFile) {
  const TestFolder folder;
  for (const char* name : {".hidden", "a/._1.jpg", "a/1.jpg", ".git/a", "#recycle/a/2.jpg", "a/@Recycle/3.jpg",
                           "a/#snapshot/today/4.jpg", "RECYCLER/5.jpg", ".Trash-1000/6.jpg", "a/lost+found/7.jpg"})
    folder.write(name);
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  FileStorage storage;
  EXPECT_EQ(names(storage, folder.path()), std::vector<std::string>{"a/1.jpg"});
}

TEST(FileStorage, NamesFoldersWithNothingInThem) {
  const TestFolder folder;
  folder.write("b/1");
  fs::create_directories(folder / "a");
  fs::create_directories(folder / "c/d");
  folder.write("e/.hidden");
  FileStorage storage;
  EXPECT_EQ(names(storage, folder.path()), (std::vector<std::string>{"a/", "b/1", "c/d/", "e/"}));
  std::vector<std::string> hidden;
  storage.list(folder.path(), [&](const Storage::Object& object) {
    if (object.has_hidden) hidden.push_back(object.name);
  });
  EXPECT_EQ(hidden, std::vector<std::string>{"e/"});
}

TEST(FileStorage, DoesNotLookIntoWhatIsLeftOut) {
  const TestFolder folder;
  for (const char* name : {"a/1", "a/b/2", "lost+found/3", "__MACOSX/4", "c/5", "c/6"}) folder.write(name);
  fs::permissions(folder / "a/b", fs::perms::none);
  FileStorage storage;
  std::vector<std::string> found, asked;
  storage.list_without(
      folder.path(),
      [&](std::string_view name) {
        asked.emplace_back(name);
        return name == "a/b" || name == "c/5";
      },
      [&](const Storage::Object& object) { found.push_back(object.name); });
  fs::permissions(folder / "a/b", fs::perms::owner_all);
  EXPECT_EQ(found, (std::vector<std::string>{"a/1", "c/6"}));
  EXPECT_EQ(asked, (std::vector<std::string>{"a", "a/1", "a/b", "c", "c/5", "c/6"}));
}

TEST(FileStorage, NamesInItsMessagesControlNoTerminal) {
  const TestFolder folder;
  const Error error = error_of([&] { FileStorage().stat(folder / "a\x1b[2J\n\xf1"); });
  EXPECT_NE(error.message().find("a\\x1b[2J\\x0a\\xf1"), std::string::npos) << error.message();
}

TEST(FileStorage, FollowsLinks) {
  const TestFolder folder;
  folder.write("real/1.jpg", "one");
  fs::create_directory_symlink(folder / "real", folder / "linked");
  fs::create_symlink(folder / "real/1.jpg", folder / "file.jpg");
  FileStorage storage;
  EXPECT_EQ(names(storage, folder.path()), (std::vector<std::string>{"file.jpg", "linked/1.jpg", "real/1.jpg"}));
}

TEST(FileStorage, FindsALinkThatLeadsBack) {
  const TestFolder folder;
  folder.write("a/b/1.jpg");
  fs::create_directory_symlink(folder / "a", folder / "a/b/again");
  FileStorage storage;
  const Error error = error_of([&] { names(storage, folder.path()); });
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_EQ(error.message(), fmt::format("folder '{}' is '{}' again: a link leads back", folder / "a/b/again", folder / "a"));
}

TEST(FileStorage, ListsALinkThatLeadsNowhereAndSaysSoWhenItIsRead) {
  const TestFolder folder;
  folder.write("2.jpg", "two");
  fs::create_symlink("gone", folder / "1.jpg");
  fs::create_symlink("circle", folder / "circle");
  FileStorage storage;
  std::vector<std::string> dangling;
  storage.list(folder.path(), [&](const Storage::Object& object) {
    if (object.is_dangling) dangling.push_back(object.name);
  });
  EXPECT_EQ(names(storage, folder.path()), (std::vector<std::string>{"1.jpg", "2.jpg", "circle"}));
  EXPECT_EQ(dangling, (std::vector<std::string>{"1.jpg", "circle"}));
  ByteBuffer bytes;
  const Error error = error_of([&] { storage.read(folder / "1.jpg", bytes); });
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_EQ(error.message(), fmt::format("'{}' is a link to 'gone', which does not exist", folder / "1.jpg"));
}

TEST(FileStorage, SaysWhichPartOfAPathIsMissing) {
  const TestFolder folder;
  folder.write("train/1.jpg");
  FileStorage storage;
  const std::string path = folder / "trian/x";
  const std::string expected =
      fmt::format("'{}' does not exist: 'trian' is missing in '{}' (did you mean 'train'?)", path, folder.path().string());
  for (const Error& error :
       {error_of([&] { names(storage, path); }), error_of([&] { storage.kind(path); }), error_of([&] { storage.stat(path); })}) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    EXPECT_EQ(error.message(), expected);
  }
  const Error error = error_of([&] {
    ByteBuffer bytes;
    storage.read(path, bytes);
  });
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_EQ(error.message(), fmt::format("cannot open '{}': No such file or directory", path));
}

TEST(FileStorage, TellsFilesAndFoldersApart) {
  const TestFolder folder;
  const std::string file = folder.write("a/1.jpg");
  FileStorage storage;
  EXPECT_EQ(storage.kind(folder / "a"), Storage::Kind::folder);
  EXPECT_EQ(storage.kind(file), Storage::Kind::object);
  EXPECT_EQ(error_of([&] { names(storage, file); }).message(), fmt::format("'{}' is not a folder", file));
  const std::string archive = folder.write("a.ZIP");
  EXPECT_EQ(error_of([&] { names(storage, archive); }).message(),
            fmt::format("'{}' is not a folder, but an archive: unpack it", archive));
  EXPECT_EQ(error_of([&] { storage.stat(folder / "a"); }).message(), fmt::format("'{}' is a folder, not a file", folder / "a"));
  ByteBuffer bytes;
  EXPECT_EQ(error_of([&] { storage.read(folder / "a", bytes); }).message(),
            fmt::format("'{}' is a folder, not a file", folder / "a"));
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { storage.read(folder / "pipe", bytes); }).message(),
            fmt::format("'{}' is a pipe, not a file", folder / "pipe"));
}

TEST(FileStorage, KnowsSizeAndVersion) {
  const TestFolder folder;
  const std::string file = folder.write("a/1.jpg", "one");
  FileStorage storage;
  const Storage::Object before = storage.stat("file://" + file);
  EXPECT_EQ(before.name, "1.jpg");
  EXPECT_EQ(before.bytes, 3U);
  EXPECT_EQ(storage.stat(file).version, before.version);
  storage.list(folder.path(), [&](const Storage::Object& object) { EXPECT_EQ(object.version, before.version); });
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::nanoseconds(1));
  EXPECT_NE(storage.stat(file).version, before.version);
  const std::string touched = storage.stat(file).version;
  const auto time = fs::last_write_time(file);
  folder.write("a/1.jpg", "longer");
  fs::last_write_time(file, time);
  EXPECT_NE(storage.stat(file).version, touched);
}

TEST(FileStorage, ReadsWholeFilesAndRanges) {
  const TestFolder folder;
  std::string content(300'000, 'x');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7 + i / 256);
  const std::string file = folder.write("a", content);
  FileStorage storage;
  ByteBuffer bytes;
  storage.read(file, bytes);
  EXPECT_TRUE(text(bytes) == content);
  std::string range(1000, ' ');
  storage.read(file, 299'000, 1000, reinterpret_cast<std::uint8_t*>(range.data()));
  EXPECT_TRUE(range == content.substr(299'000));
  storage.read(file, 300'000, 0, reinterpret_cast<std::uint8_t*>(range.data()));
  storage.read(folder.write("empty", ""), bytes);
  EXPECT_EQ(bytes.size(), 0U);
}

TEST(FileStorage, ARangeBehindTheEndIsAStorageFault) {
  const TestFolder folder;
  const std::string file = folder.write("a", "12345");
  FileStorage storage;
  std::uint8_t out[10];
  for (const std::uint64_t offset : {1U, 6U}) {
    const Error error = error_of([&] { storage.read(file, offset, 5, out); });
    EXPECT_EQ(error.kind(), ErrorKind::storage);
    EXPECT_EQ(error.message(), fmt::format("'{}' has 5 bytes: 5 from byte {} on were requested", file, offset));
  }
}

TEST(FileStorage, WhatMayNotBeReadIsNamed) {
  if (getuid() == 0) GTEST_SKIP() << "root may read everything";
  const TestFolder folder;
  const std::string file = folder.write("a/b", "12345");
  fs::permissions(file, fs::perms::none);
  FileStorage storage;
  ByteBuffer bytes;
  const Error error = error_of([&] { storage.read(file, bytes); });
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_EQ(error.message(), fmt::format("cannot open '{}': Permission denied", file));
}

TEST(FileStorage, RefusesUrlsThatAreNoFiles) {
  FileStorage storage;
  const auto message = [&](const std::string& url) {
    const Error error = error_of([&] { storage.stat(url); });
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.message();
  };
  EXPECT_MESSAGE(message("file://data/train"));
  EXPECT_MESSAGE(message("s3://bucket/a"));
  EXPECT_MESSAGE(message(""));
  EXPECT_MESSAGE(message(std::string("a\0b", 3)));
}

TEST(FileStorage, WritesWholeFilesOrNone) {
  const TestFolder folder;
  FileStorage storage;
  EXPECT_TRUE(storage.is_empty(folder / "new"));
  for (const bool commits : {false, true}) {
    const auto writer = storage.write(folder / "new/a");
    writer->write("one", 3);
    writer->write("two", 3);
    if (commits) writer->commit();
  }
  EXPECT_FALSE(storage.is_empty(folder / "new"));
  ByteBuffer bytes;
  storage.read(folder / "new/a", bytes);
  EXPECT_EQ(text(bytes), "onetwo");
  for (int time = 0; time < 2; ++time) storage.remove(folder / "new/a");  // the second one finds none
  EXPECT_TRUE(storage.is_empty(folder / "new")) << "nothing is left of the one that was given up";
}

// A file is not to blame for what the system lacks: its sample would be left out, and the weights would be others.
TEST(FileStorage, ALackOfTheSystemIsNoFaultOfAFile) {
  const TestFolder folder;
  folder.write("a.jpg", "content");
  FileStorage storage;
  ByteBuffer bytes;
  const auto kind_of = [&](const std::string& url) {
    try {
      storage.read(url, bytes);
    } catch (const Error& error) {
      return std::string(to_string(error.kind())) + ": " + error.what();
    }
    return std::string();
  };
  const std::string path = folder / "a.jpg";
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  const std::string no_handle = kind_of(path);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(no_handle, "storage: cannot open '" + path + "': Too many open files");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their allocators ignore this limit
  const std::string large = folder / "large.jpg";
  folder.write("large.jpg", "");
  fs::resize_file(large, 64 << 20);
  std::string no_memory;
  {
    const testkit::FewAddresses few(16 << 20);
    no_memory = kind_of(large);
  }
  EXPECT_EQ(no_memory, "run: '" + large + "' of 67108864 bytes: out of memory");
#endif
  const std::string huge = folder / "huge.jpg";
  folder.write("huge.jpg", "");
  std::error_code refused;  // some file systems do not support this size
  fs::resize_file(huge, std::uintmax_t{1} << 42U, refused);
  if (!refused) {
    EXPECT_EQ(kind_of(huge), "data: '" + huge + "' has 4398046511104 bytes, more than fits in memory");
  }
}

TEST(FileStorage, DecodesUrlsAndNoPaths) {
  const TestFolder folder;
  folder.write("my photos/1.jpg", "one");
  folder.write("my%20photos/1.jpg", "two");
  FileStorage storage;
  ByteBuffer bytes;
  storage.read("file://" + folder.path().string() + "/my%20photos/1.jpg", bytes);
  EXPECT_EQ(text(bytes), "one");
  storage.read(folder / "my%20photos/1.jpg", bytes);
  EXPECT_EQ(text(bytes), "two");
  EXPECT_EQ(names(storage, "file://" + folder.path().string() + "/my%20photos"), std::vector<std::string>{"1.jpg"});
  EXPECT_EQ(storage.stat("file://" + folder.path().string() + "/my%2520photos/1.jpg").name, "1.jpg");
  EXPECT_EQ(error_of([&] { storage.kind("file:///100% wool"); }).kind(), ErrorKind::usage);
}

TEST(FileStorage, SaysThatALinkLeadsNowhereWhereItIsAPathOrAFolderInIt) {
  const TestFolder folder;
  fs::create_symlink("../gone", folder / "val");
  FileStorage storage;
  const std::string said = fmt::format("'{}' is a link to '../gone', which does not exist", folder / "val");
  EXPECT_EQ(error_of([&] { storage.kind(folder / "val"); }).message(), said);
  EXPECT_EQ(error_of([&] { storage.kind(folder / "val/cat"); }).message(), said);
  EXPECT_EQ(error_of([&] { names(storage, folder / "val"); }).message(), said);
}

}  // namespace
}  // namespace millrace
