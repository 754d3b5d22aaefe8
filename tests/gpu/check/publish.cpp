#include "publish.h"

#include <algorithm>
#include <fstream>

#include "archive.h"
#include "summary.h"

namespace millrace::gpu {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 12 << 20;   // of the archive
constexpr std::size_t kMostOfLog = 256 << 10;  // of one log, uncompressed
constexpr std::size_t kMostOfFile = 256 << 20;

// The smallest first: one that does not fit then costs no other.
void add_folder(Archive& archive, const fs::path& folder, const std::string& name, std::size_t most) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (entry.is_regular_file(none)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
    std::error_code ignored;
    return std::pair(fs::file_size(a, ignored), a) < std::pair(fs::file_size(b, ignored), b);
  });
  for (const fs::path& file : files) archive.add(name + "/" + file.filename().string(), cut_file(file, most));
}

}  // namespace

Json publish(const Setting& setting) {
  fs::create_directories(setting.out);
  Json results = summarise(read_events(setting.journal()));
  Archive archive(setting.out / "results.tar.gz", kMostBytes);
  archive.add("results.json", results.dump(2) + "\n");
  archive.add("journal.jsonl", cut_file(setting.journal(), kMostOfFile));
  add_folder(archive, setting.plan_folder(), "plans", kMostOfFile);
  add_folder(archive, setting.state / "logs", "logs", kMostOfLog);
  add_folder(archive, setting.state / "answers", "answers", kMostOfFile);
  archive.finish();
  if (!archive.left_out().empty()) results["left_out_of_the_archive"] = archive.left_out();
  const fs::path file = setting.out / "results.json", part = file.string() + ".part";
  std::ofstream(part) << results.dump(2) << "\n";
  fs::rename(part, file);
  return results;
}

}  // namespace millrace::gpu
