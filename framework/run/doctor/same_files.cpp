// Duplicate samples: metrics on training images do not measure generalisation, and identical images teach nothing.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "millrace/util/file_sizes.h"
#include "millrace/util/text.h"
#include "run/doctor/doctor.h"
#include "sampling/sample_order.h"
#include "stages/frugal_reader.h"

namespace millrace {
namespace {

constexpr std::size_t kMaxCompared = 64;  // files of the other graph
constexpr std::size_t kMaxOfOneSize = 4;  // training files compared with each of them
constexpr std::uint64_t kMaxAlike = 16;   // files compared with each other

const KnowsFileSizes* file_sizes_of(const GraphBuild& build) { return dynamic_cast<const KnowsFileSizes*>(build.data().source); }

bool are_equal_bytes(const ByteBuffer& a, const ByteBuffer& b) {
  return a.size() > 0 && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

// Number of samples of one listing that both select.
std::uint64_t count_shared(const SampleOrder& a, const SampleOrder& b) {
  std::uint64_t shared = 0;
  for (std::uint64_t i = 0, j = 0; i < a.listed() && j < b.listed();) {
    const std::uint64_t of_a = a.listed(i), of_b = b.listed(j);
    shared += of_a == of_b ? 1 : 0;
    i += of_a <= of_b ? 1 : 0;
    j += of_b <= of_a ? 1 : 0;
  }
  return shared;
}

struct Sized {
  std::uint32_t bytes = 0;
  std::uint64_t index = 0;
};
using SizedFiles = std::vector<Sized>;  // by size

SizedFiles sized_files(const GraphBuild& build, const KnowsFileSizes& sizes) {
  const SampleOrder order(*build.data().source, 0);
  SizedFiles files;
  for (std::uint64_t at = 0; at < order.listed(); ++at) {
    const std::uint64_t index = order.listed(at);
    if (const std::uint32_t bytes = sizes.file_bytes(index); bytes > 0) files.push_back({bytes, index});
  }
  std::ranges::stable_sort(files, {}, &Sized::bytes);
  return files;
}

// A file of the other graph, and the first training file of its size.
struct Candidate {
  Sized file;
  std::size_t first = 0, count = 0;
};

std::vector<Candidate> find_candidates(const SizedFiles& training, const SizedFiles& others) {
  std::vector<Candidate> found;
  for (const Sized& file : others) {
    const auto first = std::ranges::lower_bound(training, file.bytes, {}, &Sized::bytes);
    const auto same = static_cast<std::size_t>(std::ranges::upper_bound(training, file.bytes, {}, &Sized::bytes) - first);
    if (same > (&training != &others ? 0U : 1U))
      found.push_back({file, static_cast<std::size_t>(first - training.begin()), same});
  }
  std::ranges::stable_sort(found, {}, &Candidate::count);
  if (found.size() > kMaxCompared) found.resize(kMaxCompared);
  return found;
}

// "all 60 samples", "24 of 60 samples"
std::string of_all_text(std::uint64_t count, std::uint64_t of, std::string_view what) {
  return count == of && of > 1 ? fmt::format("all {} {}", of, what) : fmt::format("{} of {} {}", count, of, what);
}

std::string advice_on_parts(const GraphBuild& training, const GraphBuild& other) {
  return fmt::format(
      "figures of [{0}] will be better than those of new images: give it images of its own, or a part that [{1}] leaves out, "
      "part = [0, 0.9] in [{1}.{2}] and part = [0.9, 1] here, of one `path` and with one part_seed",
      other.plan().name, training.plan().name, training.data().source_plan->name);
}

constexpr std::string_view kCopiesOfOneListing =
    "figures of it will be better than those of new images: take the copies out, or name parts that were divided without them as "
    "data.train and data.validate";

// Compares files of equal size byte by byte: up to 64 of `other`, the rarest sizes first, and a few in remote storage.
std::string copies(const GraphBuild& training, const GraphBuild& other, std::string_view advice) {
  const KnowsFileSizes *const here = file_sizes_of(training), *const there = file_sizes_of(other);
  if (here == nullptr || there == nullptr) return {};
  const SizedFiles files = sized_files(training, *here);
  std::size_t compared = 0, same = 0;
  std::string first;
  FrugalReader reader;
  Sample sample, trained;
  for (const Candidate& candidate : find_candidates(files, sized_files(other, *there))) {
    if (!reader.read(other, candidate.file.index, sample)) continue;
    ++compared;
    for (std::size_t i = 0; i < std::min(candidate.count, kMaxOfOneSize); ++i) {
      if (!reader.read(training, files[candidate.first + i].index, trained)) continue;
      if (!are_equal_bytes(sample.encoded, trained.encoded)) continue;
      if (same++ == 0) first = fmt::format("'{}'", line_text(sample.place()));
      if (same == 1 && sample.place() != trained.place()) first += fmt::format(", which is '{}'", line_text(trained.place()));
      break;
    }
  }
  if (same == 0) return {};
  return fmt::format("{}: {} are in [{}] too, such as {}; {}", place_of_source(other),
                     of_all_text(same, compared, "files that were compared"), training.plan().name, first, advice);
}

// Samples of `other` that `training` has too, or more of one listing than `training` takes, which needs no reading.
std::string shared_samples(const GraphBuild& training, const GraphBuild& other) {
  if (training.data().source == nullptr || other.data().source == nullptr) return {};
  const std::uint64_t listing = training.data().source->fingerprint();
  if (listing != 0 && listing == other.data().source->fingerprint()) {
    const SampleOrder trained(*training.data().source, 0), chosen(*other.data().source, 0);
    const std::uint64_t shared = count_shared(trained, chosen);
    if (shared == 0 && trained.listed() < chosen.listed()) {
      return fmt::format("{}: [{}] takes {} samples and [{}] {} of one listing: should their parts be swapped?",
                         place_of_source(other), training.plan().name, trained.listed(), other.plan().name, chosen.listed());
    }
    if (shared == 0) return copies(training, other, kCopiesOfOneListing);
    return fmt::format("{}: {} are in [{}] too; {}", place_of_source(other), of_all_text(shared, chosen.listed(), "samples"),
                       training.plan().name, advice_on_parts(training, other));
  }
  return copies(training, other, advice_on_parts(training, other));
}

// Identical files of two classes. Compares up to 96 pairs of equal size, the rarest sizes first.
std::string contradictions(const GraphBuild& build) {
  const KnowsFileSizes* const sizes = build.data().source == nullptr ? nullptr : file_sizes_of(build);
  if (sizes == nullptr || build.data().class_counts.size() < 2) return {};
  const SampleOrder order(*build.data().source, 0);
  const auto label = [&](const Sized& file) { return order.label(build.data().source->label(file.index)); };
  const SizedFiles files = sized_files(build, *sizes);
  const std::vector<Candidate> candidates = find_candidates(files, files);  // each file is among those of its size
  FrugalReader reader;
  Sample sample, other;
  std::size_t same = 0;
  std::string which;
  for (const Candidate& candidate : candidates) {
    std::size_t compared = 0;
    for (std::size_t i = 0; i < candidate.count && compared < kMaxOfOneSize; ++i) {
      const Sized& next = files[candidate.first + i];
      if (next.index <= candidate.file.index || label(next) == label(candidate.file)) continue;
      ++compared;
      if (!reader.read(build, candidate.file.index, sample) || !reader.read(build, next.index, other)) continue;
      if (!are_equal_bytes(sample.encoded, other.encoded)) continue;
      if (same++ == 0) which = fmt::format("'{}' and '{}'", line_text(sample.place()), line_text(other.place()));
    }
  }
  if (same == 0) return {};
  return fmt::format("{}: {} of two classes {} the same image, such as {}: one of the two labels is wrong",
                     place_of_source(build), same == 1 ? "a pair of files" : fmt::format("{} pairs of files", same),
                     same == 1 ? "holds" : "hold", which);
}

// Up to 16 identical files, spread evenly over the listing. Reads nothing unless all have one size.
std::string equal_images(const GraphBuild& build) {
  const KnowsFileSizes* const sizes = build.data().source == nullptr ? nullptr : file_sizes_of(build);
  if (sizes == nullptr) return {};
  const SampleOrder order(*build.data().source, 0);
  const std::uint64_t count = std::min(kMaxAlike, order.listed());
  const auto index = [&](std::uint64_t i) { return order.listed(i * order.listed() / count); };
  const std::uint32_t bytes = count < 2 ? 0 : sizes->file_bytes(index(0));
  for (std::uint64_t i = 1; i < count; ++i) {
    if (sizes->file_bytes(index(i)) != bytes) return {};
  }
  if (bytes == 0) return {};
  FrugalReader reader;
  Sample first, next;
  if (!reader.read(build, index(0), first)) return {};
  std::uint64_t alike = 1;
  for (std::uint64_t i = 1; i < count; ++i) {
    if (!reader.read(build, index(i), next)) continue;
    if (!are_equal_bytes(first.encoded, next.encoded)) return {};
    ++alike;
  }
  if (alike < 2) return {};
  return fmt::format(
      "{}: {} files were checked, and all hold the same image, such as '{}' and '{}': nothing can be learned from it",
      place_of_source(build), alike, line_text(first.place()), line_text(next.place()));
}

}  // namespace

void check_same_files(const PreparedRun& run, const Doubt& doubt) {
  if (!is_training(run)) return;
  const std::string alike = equal_images(run.main());
  doubt(alike.empty() ? contradictions(run.main()) : alike);
  for (const auto& build : run.builds) {
    if (is_measured(run, *build)) doubt(shared_samples(run.main(), *build));
  }
}

}  // namespace millrace
