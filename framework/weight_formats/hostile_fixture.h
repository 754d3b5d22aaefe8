// Files that want to do harm, and what a reader owes for each: it reads the very same values, or it refuses by name; it never
// takes long or much memory.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <bit>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "millrace/detail/random.h"
#include "millrace/error.h"
#include "weight_formats/tensor_file.h"

namespace millrace::hostile {

enum class Promise {
  same,             // it is read as the file that was changed
  refused,          // with an error of data that names the file
  same_or_refused,  // what was changed may be something that is not needed
  sound,            // it is refused, or what is read has all its values: other texts and values are valid ones
};

struct Mutant {
  std::string bytes;
  Promise promise = Promise::sound;
  std::string said = {};  // by the refusal
};

using Make = Mutant (*)(Draw&);

inline std::size_t below(Draw& draw, std::size_t bound) {
  return static_cast<std::size_t>(draw.integer(0, static_cast<std::int64_t>(bound) - 1));
}
template <class T>
T one_of(Draw& draw, const std::vector<T>& all) {
  return all[below(draw, all.size())];
}

// One to three bytes of [begin, end) are other ones.
inline std::string flipped(Draw& draw, std::string bytes, std::size_t begin, std::size_t end) {
  for (std::int64_t i = draw.integer(1, 3); i > 0; --i) {
    char& byte = bytes[begin + below(draw, end - begin)];
    byte = static_cast<char>(static_cast<unsigned char>(byte) ^ static_cast<unsigned char>(draw.integer(1, 255)));
  }
  return bytes;
}

inline bool is_same(const TensorFile& a, const TensorFile& b) {
  if (a.tensors.size() != b.tensors.size() || a.not_floating != b.not_floating) return false;
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    const NamedTensor &x = a.tensors[i], &y = b.tensors[i];
    if (x.name != y.name || x.shape != y.shape || x.values.size() != y.values.size()) return false;
    for (std::size_t k = 0; k < x.values.size(); ++k) {
      if (std::bit_cast<std::uint32_t>(x.values[k]) != std::bit_cast<std::uint32_t>(y.values[k])) return false;
    }
  }
  return true;
}

class Judge {
 public:
  using Read = TensorFile (*)(const std::string& path);

  // `name`: of the file, in the folder of temporary files. `whole`: the file that mutants were made of.
  Judge(const std::string& name, Read reader, const std::string& whole)
      : path_((std::filesystem::path(testing::TempDir()) / (std::to_string(::getpid()) + "_" + name)).string()), read_(reader) {
    write(whole);
    expected_ = read_(path_);
    peak_before_ = peak_kib();
  }
  ~Judge() { std::filesystem::remove(path_); }
  Judge(const Judge&) = delete;
  Judge& operator=(const Judge&) = delete;

  void look_at(const Mutant& mutant) {
    write(mutant.bytes);
    const std::clock_t begin = std::clock();  // of this process alone: others may have the processor meanwhile
    try {
      look_at_read(mutant, read_(path_));
    } catch (const Error& error) {
      look_at_refusal(mutant, error);
    }
    EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 1.0) << "seconds";
  }

  int read() const { return count_read_; }
  int refused() const { return count_refused_; }
  long grown_kib() const { return peak_kib() - peak_before_; }  // of the largest resident set

 private:
  static long peak_kib() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  }
  void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

  void look_at_read(const Mutant& mutant, const TensorFile& file) {
    ++count_read_;
    EXPECT_NE(mutant.promise, Promise::refused) << "was read";
    if (mutant.promise != Promise::sound) {
      EXPECT_TRUE(is_same(file, expected_)) << "other values were read";
    }
    std::size_t values = 0;
    for (const NamedTensor& tensor : file.tensors) {
      EXPECT_EQ(tensor.values.size(), static_cast<std::size_t>(tensor.shape.elements()));
      values += tensor.values.size();
    }
    EXPECT_LE(values, 4 * mutant.bytes.size());
  }

  void look_at_refusal(const Mutant& mutant, const Error& error) {
    ++count_refused_;
    const std::string what = error.what();
    EXPECT_NE(mutant.promise, Promise::same) << what;
    EXPECT_EQ(error.kind(), ErrorKind::data) << what;
    EXPECT_EQ(what.find("tensor file '" + path_ + "': "), 0U) << what;
    EXPECT_GT(what.size(), path_.size() + 20) << what;
    EXPECT_LT(what.size(), path_.size() + 600) << what;
    EXPECT_NE(what.find(mutant.said), std::string::npos) << what;
  }

  const std::string path_;
  const Read read_;
  TensorFile expected_;
  long peak_before_ = 0;
  int count_read_ = 0, count_refused_ = 0;
};

inline constexpr int kMutants = 500;

// kMutants of them, by turns of each kind. Draws follow from a mutant's number.
template <std::size_t kCount>
void look_at_mutants(Judge judge, const Make (&kinds)[kCount]) {
  for (int i = 0; i < kMutants; ++i) {
    const std::size_t kind = static_cast<std::size_t>(i) % kCount;
    SCOPED_TRACE(fmt::format("mutant {} of kind {}", i, kind));
    Draw draw(static_cast<std::uint64_t>(i), {}, 0);
    judge.look_at(kinds[kind](draw));
  }
  EXPECT_GE(judge.read(), kMutants / static_cast<int>(kCount));
  EXPECT_GE(judge.refused(), kMutants / 2);
  EXPECT_LT(judge.grown_kib(), 256 * 1024);
}

}  // namespace millrace::hostile
