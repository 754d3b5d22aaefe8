// Writes a sequence of checkpoints like two runs, the second of which resumes the first, into FOLDER/run/TIME/checkpoints.
// Appends a mark to the log of fault_files.so after each announced one. Usage: write_checkpoints FOLDER.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>

#include "checkpoint/checkpoint_writer.h"
#include "checkpoint/run_folder.h"

namespace {

// Reads the log's name directly: the library does not see a mark as a call.
void mark(std::size_t generation) {
  const char* const log = std::getenv("FAULT_FILES_LOG");
  if (log != nullptr) std::ofstream(log, std::ios::app) << fmt::format("0 mark 0 -1 0 0 0\t{}\t\n", generation);
}

millrace::Checkpoint checkpoint(std::uint64_t step, std::size_t generation) {
  millrace::Checkpoint made;
  made.state.step = step;
  made.tensors = {{"fc.weight/value", {3, 1000}, std::vector<float>(3000, static_cast<float>(generation + 1))}};
  made.pipeline = fmt::format("generation = {}\n", generation);
  return made;
}

void write(const std::filesystem::path& folder) {
  std::size_t generation = 0;
  for (const auto& steps : {std::vector<std::uint64_t>{1, 2, 3, 4}, {4, 5, 6}}) {
    millrace::CheckpointWriter checkpoints({.folder = folder,
                                            .keep = 2,
                                            .seconds = 0,
                                            .report = [&](const millrace::CheckpointEvent&) { mark(generation); },
                                            .warn = [](const std::string& text) { fmt::print(stderr, "{}\n", text); }});
    for (const std::uint64_t step : steps) {
      ++generation;
      checkpoints.write(checkpoint(step, generation), step == 2, millrace::CheckpointWriter::Clock::now());
      checkpoints.wait();
    }
    checkpoints.finish();
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2) return 2;
    write(millrace::make_run_folder(argv[1], "run") / "checkpoints");
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "write_checkpoints: {}\n", error.what());
    return 1;
  }
}
