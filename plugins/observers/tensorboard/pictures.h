// The pictures that stages and observers draw into a run's folder.
#pragma once

#include <event.pb.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace millrace::tensorboard {

// Finds new or changed PNG files in the folder and its subfolders, ignoring checkpoints and links. Not thread-safe.
class Pictures {
 public:
  // Adds each as an image, "first_batches" or "FOLDER/NAME". Skips unreadable files and those above kMostBytes, and results.png:
  // TensorBoard draws the run's course itself.
  void add_changed(const std::filesystem::path& folder, Summary& summary);

  static constexpr std::uintmax_t kMostBytes = std::uintmax_t{8} << 20;

 private:
  std::map<std::string, std::filesystem::file_time_type> seen_;
};

}  // namespace millrace::tensorboard
