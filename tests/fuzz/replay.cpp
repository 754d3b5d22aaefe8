// Runs a fuzz target on its seeds and on reproducible mutations of them, or on files.
//
//   fuzz_tar_replay [--executions N]     the seeds, and N mutations of them
//   fuzz_tar_replay --write-seeds DIR    an initial corpus for libFuzzer
//   fuzz_tar_replay FILE...              findings of libFuzzer
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz.h"
#include "millrace/detail/random.h"

namespace millrace::fuzz {
namespace {

class Mutator {
 public:
  explicit Mutator(std::vector<std::string> corpus) : corpus_(std::move(corpus)) {}

  std::string make(std::uint64_t number) {
    state_ = mix64(number);
    std::string text = corpus_[below(corpus_.size())];
    for (std::uint64_t i = 0, count = 1 + below(4); i < count; ++i) change(text);
    return text;
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return (state_ = mix64(state_)) % bound; }

  void change(std::string& text) {
    static constexpr unsigned char kTelling[] = {0, 1, 7, '0', '7', '9', ' ', '=', '/', '.', 0x7f, 0x80, 0xff};
    const std::size_t at = below(text.size() + 1);
    switch (below(7)) {
      case 0: text.resize(at); break;
      case 1: text.insert(at, 1 + below(16), static_cast<char>(below(256))); break;
      case 2: text.erase(at, 1 + below(32)); break;
      case 3: text.insert(at, text, below(text.size() + 1), below(1024)); break;
      case 4: text += corpus_[below(corpus_.size())]; break;
      case 5:
        if (at < text.size()) text[at] = static_cast<char>(static_cast<unsigned char>(text[at]) ^ 1U << below(8));
        break;
      default:
        if (at < text.size()) text[at] = static_cast<char>(kTelling[below(sizeof(kTelling))]);
    }
  }

  std::vector<std::string> corpus_;
  std::uint64_t state_ = 0;
};

// In memory of exactly its size, so that the address sanitizer detects every overrun.
void run(const std::string& input) {
  std::vector<std::uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

int write_seeds(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  const std::vector<std::string> all = seeds();
  for (std::size_t i = 0; i < all.size(); ++i) std::ofstream(folder / ("seed" + std::to_string(i)), std::ios::binary) << all[i];
  return 0;
}

}  // namespace
}  // namespace millrace::fuzz

int main(int count, char** arguments) {
  using namespace millrace::fuzz;
  if (count == 3 && std::strcmp(arguments[1], "--write-seeds") == 0) return write_seeds(arguments[2]);
  const bool by_count = count == 3 && std::strcmp(arguments[1], "--executions") == 0;
  if (count > 1 && !by_count) {
    for (int i = 1; i < count; ++i) {
      std::ifstream file(arguments[i], std::ios::binary);
      run({std::istreambuf_iterator<char>(file), {}});
    }
    return 0;
  }
  const std::vector<std::string> all = seeds();
  for (const std::string& seed : all) run(seed);
  Mutator mutator(all);
  const std::uint64_t executions = by_count ? std::strtoull(arguments[2], nullptr, 10) : 20000;
  for (std::uint64_t i = 0; i < executions; ++i) run(mutator.make(i));
  std::printf("%llu executions\n", static_cast<unsigned long long>(executions + all.size()));
  return 0;
}
