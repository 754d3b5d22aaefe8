// Wording of messages, compared with a file: `messages.txt` in the folder of the test.
//
//   TEST(Crop, RefusesNegativeSizes) { EXPECT_MESSAGE(error_of([] { make_crop(-1); }).what()); }
//
// expects the file to hold
//
//   [Crop.RefusesNegativeSizes]
//   - 'size' must be at least 1, found -1
//
// A test may compare several messages; they are listed in this order. A parameter of a test is part of the name, as in
// [Crop.RefusesNegativeSizes/width]. The test fails if a message differs or is missing, or if the file lists more.
// MILLRACE_UPDATE_MESSAGES=1 makes tests that pass otherwise write their messages instead; review the difference before you
// commit it.
//
// Temporary folders are replaced by TMP, the folder of the sources by SOURCE, that of the build by BUILD, folders of runs by RUN,
// RUN2, ..., the drawn data set (pipelines/command.h) by SHAPES, and the process in names of unfinished files by PID. The caller
// replaces anything else that varies.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#define EXPECT_MESSAGE(...) ::millrace::testkit::expect_message(__FILE__, __LINE__, __VA_ARGS__)

namespace millrace::testkit {

using Replacements = std::initializer_list<std::pair<std::string_view, std::string_view>>;  // text that varies, its name

// Not thread-safe.
void expect_message(const char* file, int line, std::string_view message, Replacements replacements = {});

// The message as it stands in the file.
std::string normalised(std::string_view message, Replacements replacements = {});

using Messages = std::map<std::string, std::vector<std::string>>;  // of each test
Messages read_messages(const std::filesystem::path& file);         // none if the file is missing
// Replaces the messages of one test; other processes may do the same with other tests.
void write_messages(const std::filesystem::path& file, const std::string& test, std::vector<std::string> messages);

}  // namespace millrace::testkit
