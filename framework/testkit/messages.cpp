#include "testkit/messages.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <regex>

namespace millrace::testkit {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUpdate = "MILLRACE_UPDATE_MESSAGES";

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
}

// A folder directly in that of temporary files becomes TMP, whatever its name.
void replace_temporary(std::string& text) {
  std::string root = testing::TempDir();
  if (!root.ends_with('/')) root += '/';
  for (std::size_t at = 0; (at = text.find(root, at)) != std::string::npos; at += 3) {
    std::size_t end = at + root.size();
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '-' || text[end] == '_'))
      ++end;
    text.replace(at, end - at, "TMP");
  }
}

std::string text_of(const Messages& messages) {
  std::string text;
  for (const auto& [test, of_test] : messages) {
    text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", test);
    for (std::string message : of_test) {
      replace_all(message, "\n", "\n  ");
      replace_all(message, "\n  \n", "\n\n");  // no blanks at ends of lines
      text += "- " + message + "\n";
    }
  }
  return text;
}

// Compares the messages of the running test, file by file.
class Comparison : public testing::EmptyTestEventListener {
 public:
  static Comparison& instance() {
    // Owned by GoogleTest, which is told of it by the first test that compares a message.
    static Comparison* const comparison = [] {
      auto* const made = new Comparison;
      testing::UnitTest::GetInstance()->listeners().Append(made);
      return made;
    }();
    return *comparison;
  }

  void add(const char* file, int line, const std::string& message) {
    const fs::path path = fs::path(file).parent_path() / "messages.txt";
    std::vector<std::string>& found = found_[path];
    found.push_back(message);
    if (std::getenv(kUpdate)) return;  // NOLINT(concurrency-mt-unsafe)
    const std::string test = name();
    const Messages all = read_messages(path);
    const auto of_test = all.find(test);
    if (of_test == all.end() || of_test->second.size() < found.size()) {
      ADD_FAILURE_AT(file, line) << path.string() << " lacks message " << found.size() << " of [" << test << "]:\n" << message;
    } else if (const std::string& expected = of_test->second[found.size() - 1]; message != expected) {
      ADD_FAILURE_AT(file, line) << "message " << found.size() << " of [" << test << "] is\n"
                                 << message << "\nbut " << path.string() << " has\n"
                                 << expected << "\n"
                                 << kUpdate << "=1 accepts it";
    }
  }

  void OnTestEnd(const testing::TestInfo& test) override {
    // A test that ended early has not shown all of its messages.
    if (test.result()->Passed()) {
      for (const auto& [path, messages] : found_) {
        if (std::getenv(kUpdate)) {  // NOLINT(concurrency-mt-unsafe)
          write_messages(path, name(), messages);
        } else if (read_messages(path)[name()].size() > messages.size()) {
          ADD_FAILURE() << path.string() << " lists more messages of [" << name() << "] than it compares";
        }
      }
    }
    found_.clear();
  }

 private:
  // "Suite.Name", or "Suite.Name/parameter".
  static std::string name() {
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    const std::string_view suite = test->test_suite_name();
    return fmt::format("{}.{}", suite.substr(suite.find('/') + 1), test->name());  // without the name of the instantiation
  }

  std::map<fs::path, std::vector<std::string>> found_;
};

}  // namespace

std::string normalised(std::string_view message, Replacements replacements) {
  std::string text(message);
  while (text.ends_with('\n')) text.pop_back();
  for (const auto& [what, with] : replacements) replace_all(text, what, with);
  replace_all(text, MILLRACE_BINARY_DIR, "BUILD");
  replace_all(text, MILLRACE_SOURCE_DIR, "SOURCE");
  replace_temporary(text);
  static const std::regex unfinished(R"(\.new-\d+)"), shapes(R"(BUILD/test-files/shapes--?\d+)");
  text = std::regex_replace(std::regex_replace(text, unfinished, ".new-PID"), shapes, "SHAPES");
  static const std::regex run(R"(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d)");
  std::smatch found;
  for (int number = 1; std::regex_search(text, found, run); ++number)
    replace_all(text, std::string(found[0]), number == 1 ? "RUN" : fmt::format("RUN{}", number));
  return text;
}

Messages read_messages(const fs::path& file) {
  Messages messages;
  std::vector<std::string>* of_test = nullptr;
  std::string empty_lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) {
      empty_lines += '\n';
      continue;
    }
    if (line.starts_with('[') && line.ends_with(']')) {
      of_test = &messages[line.substr(1, line.size() - 2)];
    } else if (of_test && line.starts_with("- ")) {
      of_test->push_back(line.substr(2));
    } else if (of_test && line.starts_with("  ") && !of_test->empty()) {
      of_test->back() += empty_lines + "\n" + line.substr(2);
    }
    empty_lines.clear();
  }
  return messages;
}

void write_messages(const fs::path& file, const std::string& test, std::vector<std::string> messages) {
  const fs::path lock = fs::temp_directory_path() / "millrace-messages.lock";
  const int descriptor = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  ::flock(descriptor, LOCK_EX);
  Messages all = read_messages(file);
  if (messages.empty()) {
    all.erase(test);
  } else {
    all[test] = std::move(messages);
  }
  std::ofstream(file) << text_of(all);
  ::close(descriptor);
}

void expect_message(const char* file, int line, std::string_view message, Replacements replacements) {
  Comparison::instance().add(file, line, normalised(message, replacements));
}

}  // namespace millrace::testkit
