// The pictures that stages and observers draw into a run's folder.
#pragma once

#include <event.pb.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace millrace::tensorboard {

// Finds the PNG files that are new or have changed since it looked last, in the folder and in the folders in it; of
// checkpoints and links none. One thread.
class Pictures {
 public:
  // Adds each as an image, "first_batches" or "FOLDER/NAME". What cannot be read, or is larger than kMostBytes, is left out. The
  // course of the run, results.png, is left out too: TensorBoard draws it itself.
  void add_changed(const std::filesystem::path& folder, Summary& summary);

  static constexpr std::uintmax_t kMostBytes = std::uintmax_t{8} << 20;

 private:
  std::map<std::string, std::filesystem::file_time_type> seen_;
};

}  // namespace millrace::tensorboard
