// libmillrace_predict for long: many threads, models opened and closed, and damaged weights and images.
//
//   MILLRACE_PREDICT_TRIALS=10000 build/release/tests/predict_test --gtest_filter='EmbeddingEndurance.*'
//
// makes 10,000 predictions in each thread, 1,000 openings, and 10,000 damaged files of each kind.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include "model_fixture.h"

namespace millrace::test::embedding_test {
namespace {

// The number of trials: few, or as many as were asked for.
std::size_t trials(std::size_t few) {
  const char* const wanted = std::getenv("MILLRACE_PREDICT_TRIALS");  // NOLINT(concurrency-mt-unsafe)
  return wanted != nullptr ? std::stoul(wanted) : kSanitizer ? few / 5 : few;
}

millrace_options one_thread() {
  millrace_options options{};
  options.threads = 1;
  return options;
}

TEST(EmbeddingEndurance, EightThreadsShareAModel) {
  for (const int workers : {1, 3}) {
    millrace_options options = one_thread();
    options.workers = workers;
    const Model model(trained().run, options);
    std::vector<std::string> images;
    std::vector<std::vector<float>> expected;
    for (std::size_t i = 0; i < 8; ++i) images.push_back(read_file(trained().images[i * 16]));
    for (const std::string& image : images) expected.push_back(model.scores(encoded(image)).values);
    std::atomic<int> wrong = 0;
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t i = 0; i < trials(300); ++i) {
          const std::size_t which = (t + i) % images.size();
          if (i % 7 == 3 && failure([&] { model.scores(encoded("no image")); }).first != MILLRACE_IMAGE) ++wrong;
          if (model.scores(encoded(images[which])).values != expected[which]) ++wrong;
        }
      });
    }
    threads.clear();
    EXPECT_EQ(wrong, 0);
  }
}

long resident_kib() {
  std::ifstream file("/proc/self/statm");
  long all = 0, resident = 0;
  file >> all >> resident;
  return resident * 4;
}

TEST(EmbeddingEndurance, OpeningAndClosingKeepsNoMemory) {
  const std::string image = read_file(trained().images[0]);
  const auto cycle = [&](std::size_t times) {
    for (std::size_t i = 0; i < times; ++i) Model(trained().run, one_thread()).scores(encoded(image));
  };
  const std::size_t times = std::max<std::size_t>(trials(2'000) / 10, 20);
  cycle(times / 10);
  const long before = resident_kib();
  cycle(times - times / 10);
  fmt::print("{} KiB after {} models, {} KiB after {}\n", before, times / 10, resident_kib(), times);
  EXPECT_LT(resident_kib() - before, kSanitizer ? 200'000 : 8'000);
}

// Changes bytes and texts at random places.
class Damage {
 public:
  explicit Damage(std::uint32_t seed) : random_(seed) {}

  std::size_t below(std::size_t end) { return end == 0 ? 0 : random_() % end; }

  void flip(std::string& bytes, std::size_t end) {
    for (std::size_t n = 1 + below(8); n > 0; --n) {
      char& byte = bytes[below(std::min(end, bytes.size()))];
      byte = static_cast<char>(below(2) == 0 ? random_() : static_cast<unsigned>(byte) ^ (1U << below(8)));
    }
  }
  // A number as formats store lengths: small, huge, or about the file's size.
  void set_length(std::string& bytes, std::size_t at, std::size_t width) {
    const std::uint64_t values[] = {0, 1, 2, 0x7fff, 0xffff, 0x7fffffff, 0xffffffff, bytes.size(), random_()};
    const std::uint64_t value = values[below(std::size(values))];
    for (std::size_t i = 0; i < width && at + i < bytes.size(); ++i)
      bytes[at + i] = static_cast<char>(value >> 8 * (width - 1 - i) & 0xff);
  }
  void cut(std::string& bytes) { bytes.resize(below(bytes.size())); }
  void repeat(std::string& bytes) {
    const std::size_t from = below(bytes.size());
    bytes.insert(below(bytes.size()), bytes.substr(from, 1 + below(200)));
  }

  // A text of lines in TOML or of JSON.
  void damage_text(std::string& text) {
    static constexpr const char* kNumbers[] = {"0",     "-1",  "1",    "7",  "1000", "65536", "2147483648", "9223372036854775807",
                                               "1e308", "nan", "\"\"", "[]", "{}",   "true"};
    switch (below(7)) {
      case 0: return cut(text);
      case 1: return repeat(text);
      case 2: return flip(text, text.size());
      case 3: {  // without a line
        const std::size_t begin = line_at(text, below(text.size()));
        return void(text.erase(begin, text.find('\n', begin) - begin + (text.find('\n', begin) != std::string::npos)));
      }
      case 4: {  // a line twice, elsewhere
        const std::size_t begin = line_at(text, below(text.size()));
        const std::string line = text.substr(begin, text.find('\n', begin) - begin) + "\n";
        return void(text.insert(line_at(text, below(text.size())), line));
      }
      default: {  // another number
        const std::size_t begin = text.find_first_of("0123456789", below(text.size()));
        if (begin == std::string::npos) return flip(text, text.size());
        const std::size_t end = std::min(text.find_first_not_of("0123456789.e-", begin), text.size());
        text.replace(begin, end - begin, kNumbers[below(std::size(kNumbers))]);
      }
    }
  }

  // Renames, removes, swaps or damages an entry of the metadata, or the place, type or shape of a tensor.
  void damage_header(nlohmann::ordered_json& header) {
    nlohmann::ordered_json& metadata = header["__metadata__"];
    const auto entry = [&](nlohmann::ordered_json& of) {
      return std::next(of.begin(), static_cast<std::ptrdiff_t>(below(of.size())));
    };
    const auto one = entry(metadata), other = entry(metadata);
    const auto tensor = entry(header);
    switch (below(8)) {
      case 0: return void(metadata.erase(one.key()));
      case 1: return one.value().swap(other.value());
      case 2: return void(metadata[one.key()] = 7);
      case 3: return void(header.erase(tensor.key()));
      case 4: {
        if (tensor.key() == "__metadata__") return;
        static constexpr const char* kTypes[] = {"F32", "BF16", "F16", "F64", "I8", "U64", "BOOL", "", "F33"};
        return void(tensor.value()["dtype"] = kTypes[below(std::size(kTypes))]);
      }
      case 5: {
        if (tensor.key() == "__metadata__") return;
        static constexpr std::int64_t kNumbers[] = {-1, 0, 1, 3, 1 << 20, std::int64_t{1} << 40, INT64_MAX};
        nlohmann::ordered_json& numbers = tensor.value()[below(2) == 0 ? "shape" : "data_offsets"];
        if (numbers.is_array() && !numbers.empty()) numbers[below(numbers.size())] = kNumbers[below(std::size(kNumbers))];
        return;
      }
      default: {
        std::string text = one.value().is_string() ? one.value().get<std::string>() : std::string();
        for (std::size_t n = 1 + below(3); n > 0 && !text.empty(); --n) damage_text(text);
        one.value() = text;
      }
    }
  }

 private:
  static std::size_t line_at(const std::string& text, std::size_t at) {
    const std::size_t end = text.rfind('\n', at);
    return end == std::string::npos ? 0 : end + 1;
  }

  std::mt19937 random_;
};

// While it lives, requests for absurd memory are refused instead of exhausting the machine. Sanitizers reserve more by
// themselves.
class MemoryLimit {
 public:
  MemoryLimit() {
    ::getrlimit(RLIMIT_AS, &before_);
    rlimit limit = before_;
    limit.rlim_cur = std::min<rlim_t>(before_.rlim_max, rlim_t{6} << 30);
    if (!kSanitizer) ::setrlimit(RLIMIT_AS, &limit);
  }
  ~MemoryLimit() { ::setrlimit(RLIMIT_AS, &before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit before_{};
};

struct Counts {
  std::size_t all = 0, refused = 0;
};

// Calls `call(i)` for each trial. Each must end within `kMost`, without an exception of another kind, and errors must have a
// text.
Counts try_all(std::size_t times, const std::function<void(std::size_t)>& call) {
  constexpr std::chrono::seconds kMost(kSanitizer ? 600 : 120);
  const MemoryLimit limit;
  Counts counts;
  for (std::size_t i = 0; i < times; ++i) {
    const auto began = std::chrono::steady_clock::now();
    const auto found = failure([&] { call(i); });
    EXPECT_LT(std::chrono::steady_clock::now() - began, kMost) << "trial " << i;
    EXPECT_NE(found.first, MILLRACE_FAILED) << "trial " << i << ": " << found.second;
    EXPECT_EQ(found.first == MILLRACE_OK, found.second.empty()) << "trial " << i;
    counts.refused += found.first != MILLRACE_OK;
    ++counts.all;
  }
  fmt::print("{} of {} were refused\n", counts.refused, counts.all);
  return counts;
}

// Opens the file and predicts an image. The file stays if the process dies.
void try_weights(const std::string& folder, const std::string& bytes) {
  const std::string file = folder + "/damaged.safetensors";
  std::ofstream(file, std::ios::binary) << bytes;
  Model(file, one_thread()).numbers(encoded(png_of(32, 32)));
}

TEST(EmbeddingEndurance, DamagedWeightsAreRefusedOrUsable) {
  const TemporaryFolder folder;
  const std::string whole = read_file(trained().weights);
  std::uint64_t header = 0;
  std::memcpy(&header, whole.data(), sizeof header);
  Damage damage(1);
  const Counts counts = try_all(trials(300), [&](std::size_t i) {
    std::string bytes = whole;
    if (i % 16 == 0)
      damage.cut(bytes);
    else
      damage.flip(bytes, i % 8 == 1 ? bytes.size() : header + 8);
    try_weights(folder.path().string(), bytes);
  });
  EXPECT_GT(counts.refused, counts.all / 4);
  EXPECT_LT(counts.refused, counts.all) << "a changed weight is a weight";
}

TEST(EmbeddingEndurance, DamagedMetadataAreRefusedOrUsable) {
  const TemporaryFolder folder;
  Damage damage(2);
  const Counts counts = try_all(trials(300), [&](std::size_t) {
    try_weights(folder.path().string(), with_header([&](nlohmann::ordered_json& header) { damage.damage_header(header); }));
  });
  EXPECT_GT(counts.refused, counts.all / 4);
}

// A PNG file's checksums, so that damaged content is read.
void mend_checksums(std::string& png) {
  const auto number = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<std::uint8_t>(png[at + i]);
    return value;
  };
  for (std::size_t at = 8; at + 12 <= png.size();) {
    const std::size_t length = number(at), end = at + 8 + length;
    if (end + 4 > png.size()) return;
    std::uint32_t sum = 0xffffffff;
    for (std::size_t i = at + 4; i < end; ++i) {
      sum ^= static_cast<std::uint8_t>(png[i]);
      for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xedb88320U : 0);
    }
    for (std::size_t i = 0; i < 4; ++i) png[end + i] = static_cast<char>(~sum >> (24 - 8 * i) & 0xff);
    at = end + 4;
  }
}

TEST(EmbeddingEndurance, DamagedImagesAreRefusedOrRead) {
  const Model model(trained().run, one_thread());
  const std::string jpeg = read_file(trained().images[0]), png = png_of(32, 32);
  const auto expected = model.scores(encoded(jpeg)).values;
  Damage damage(3);
  for (const bool is_png : {false, true}) {
    const Counts counts = try_all(trials(2'000), [&](std::size_t i) {
      std::string bytes = is_png ? png : jpeg;
      switch (i % 5) {
        case 0: damage.cut(bytes); break;
        case 1: damage.repeat(bytes); break;
        case 2: damage.set_length(bytes, damage.below(bytes.size()), is_png ? 4 : 2); break;
        default: damage.flip(bytes, i % 2 == 0 ? 64 : bytes.size());
      }
      if (is_png && i % 3 != 0) mend_checksums(bytes);
      model.scores(encoded(bytes));
    });
    EXPECT_GT(counts.refused, counts.all / 10);
    EXPECT_LT(counts.refused, counts.all) << "changed pixels are pixels";
  }
  EXPECT_EQ(model.scores(encoded(jpeg)).values, expected);
}

}  // namespace
}  // namespace millrace::test::embedding_test
