#include "millrace/util/data_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "millrace/util/text.h"

namespace millrace {
namespace {

using namespace std::string_view_literals;

struct PartWord {
  std::string_view word;
  DataPart part;
};
// By rank. A word comes before its prefixes.
constexpr std::array kPartWords{PartWord{"training", DataPart::train},      PartWord{"trainval", DataPart::other},
                                PartWord{"train", DataPart::train},         PartWord{"validation", DataPart::validate},
                                PartWord{"validate", DataPart::validate},   PartWord{"valid", DataPart::validate},
                                PartWord{"val", DataPart::validate},        PartWord{"dev", DataPart::validate},
                                PartWord{"evaluation", DataPart::validate}, PartWord{"eval", DataPart::validate},
                                PartWord{"holdout", DataPart::validate},    PartWord{"testing", DataPart::validate},
                                PartWord{"test", DataPart::validate},       PartWord{"fold", DataPart::other}};
// Additional words without meaning.
constexpr std::array kFillers{"set"sv,  "data"sv, "dataset"sv, "images"sv, "image"sv,
                              "imgs"sv, "img"sv,  "split"sv,   "part"sv,   "samples"sv};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || static_cast<unsigned char>(c) >= 0x80; }
bool is_filler(std::string_view word) { return word.empty() || std::ranges::find(kFillers, word) != kFillers.end(); }

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_letter(text[end])) ++end;
    if (end > at) words.push_back(text.substr(at, end - at));
    at = std::max(end, at + 1);
  }
  return words;
}

// The part named by a word, alone or with a filler: trainset.
std::optional<PartName> part_of_word(std::string_view word) {
  for (std::size_t i = 0; i < kPartWords.size(); ++i) {
    if (word.starts_with(kPartWords[i].word) && is_filler(word.substr(kPartWords[i].word.size())))
      return PartName{kPartWords[i].part, static_cast<int>(i), word.size() == kPartWords[i].word.size(), {}};
  }
  return std::nullopt;
}

// Base letters of the characters from U+00C0 on, and their accents: 'A' is U+0300.
constexpr std::string_view kBases =
    "AAAAAA?CEEEEIIII?NOOOOO??UUUUY??aaaaaa?ceeeeiiii?nooooo??uuuuy?yAaAaAaCcCcCcCcDd??EeEeEeEeEeGgGgGgGgHh??IiIiIiIiI???JjKk?"
    "LlLlLl????NnNnNn???OoOoOo??RrRrRrSsSsSsSsTtTt??UuUuUuUuUuUuWwYyYZzZzZz?";
constexpr std::string_view kAccents =
    "ABCDIK?hABCIABCI?DABCDI??ABCIB??ABCDIK?hABCIABCI?DABCDI??ABCIB?IEEGGiiBBCCHHMMMM??EEGGHHiiMMCCGGHHhhCC??DDEEGGiiH???CChh?"
    "BBhh"
    "MM????BBhhMM???EEGGLL??BBhhMMBBCChhMMhhMM??DDEEGGKKLLiiCCCCIBBHHMM?";
static_assert(kBases.size() == kAccents.size());

// In lower case, with each accent after its letter as a byte from 0x80 on.
std::string base_text(std::string_view text) {
  constexpr std::uint32_t kFirstLetter = 0xc0, kFirstAccent = 0x300, kEndOfAccents = 0x370;
  std::string base;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const bool is_pair = (lead & 0xe0U) == 0xc0U && i + 1 < text.size();
    const std::uint32_t code = is_pair ? (lead & 0x1fU) << 6U | (static_cast<unsigned char>(text[i + 1]) & 0x3fU) : 0;
    const std::size_t letter = code - kFirstLetter;
    if (code >= kFirstAccent && code < kEndOfAccents) {
      base += static_cast<char>(0x80U + code - kFirstAccent), ++i;
    } else if (code >= kFirstLetter && letter < kBases.size() && kBases[letter] != '?') {
      base += kBases[letter];
      base += static_cast<char>(0x80 + kAccents[letter] - 'A'), ++i;
    } else {
      base += text[i];
    }
  }
  return lower_case(base);
}

}  // namespace

std::optional<PartName> part_name(std::string_view name) {
  const std::string text = lower_case(name);
  std::optional<PartName> found;
  std::string rest;
  for (const std::string_view word : words_of(text)) {
    const auto part = part_of_word(word);
    if (part && found) return std::nullopt;
    if (part)
      found = part;
    else if (!is_filler(word))
      rest.append(rest.empty() ? "" : "_").append(word);
  }
  if (found) found->rest = rest, found->is_word = found->is_word && words_of(text).front() == text;
  return found;
}

bool is_system_folder(std::string_view name) {
  constexpr std::array kNames{"__macosx"sv,  "lost+found"sv,        "$recycle.bin"sv, "system volume information"sv,
                              "@eadir"sv,    "#recycle"sv,          "@recycle"sv,     "recycler"sv,
                              "#snapshot"sv, "@recently-snapshot"sv};
  return std::ranges::find(kNames, lower_case(name)) != kNames.end();
}

std::string remedy_for(std::string_view name) {
  const std::string text = lower_case(name);
  const std::string_view file = std::string_view(text).substr(text.rfind('/') + 1);  // npos + 1 is 0
  const auto ends_in = [&](std::initializer_list<std::string_view> ends) {
    return std::ranges::any_of(ends, [&](std::string_view end) { return file.ends_with(end); });
  };
  if (file.find("-ubyte.gz") != file.npos) return "a file of MNIST: unpack it (gunzip), and stage = \"read_idx\" reads it";
  if (file.find("-ubyte") != file.npos) return "a file of MNIST: stage = \"read_idx\" reads it";
  if (file.starts_with("data_batch") || file == "test_batch" || file == "batches.meta")
    return file.ends_with(".bin") ? "a file of CIFAR: stage = \"read_cifar\" reads it"
                                  : "a file of CIFAR for Python: stage = \"read_cifar\" reads the binary version";
  if (ends_in({".csv.gz", ".tsv.gz", ".jsonl.gz"})) return "a compressed list: unpack it (gunzip)";
  if (ends_in({".zip", ".gz", ".tgz", ".7z", ".rar", ".bz2", ".xz", ".zst"})) return "an archive: unpack it";
  if (ends_in({".parquet", ".arrow", ".feather"}))
    return "a table that holds its images: write them as files, or as shards (.tar)";
  if (ends_in({".xlsx", ".xls", ".ods"})) return "a spreadsheet: save it as CSV";
  if (ends_in({".heic", ".heif", ".dcm", ".cr2", ".nef", ".arw", ".dng", ".tif", ".tiff", ".webp", ".avif", ".bmp", ".gif"}))
    return "an image format that is not read: convert it to JPEG or PNG";
  if (ends_in({".mp4", ".avi", ".mov", ".mkv"})) return "a video: write its frames as JPEG or PNG";
  if (ends_in({".npz", ".npy", ".mat", ".h5", ".hdf5", ".mdb", ".rec", ".pkl"}) || file.find(".tfrecord") != file.npos)
    return "a file of another program: write its images as JPEG or PNG, or as shards (.tar)";
  if (ends_in({".json"})) return "JSON as a whole: a list has an object in each line, and is called .jsonl";
  if (ends_in({".txt", ".manifest"}))
    return "a text: a list is called .csv, .tsv or .jsonl, or `format` of read_list names its form";
  return {};
}

bool looks_equal(std::string_view a, std::string_view b) { return a != b && base_text(a) == base_text(b); }

std::string escaped_text(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    escaped += byte < 0x80 ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return line_text(escaped);
}

}  // namespace millrace
