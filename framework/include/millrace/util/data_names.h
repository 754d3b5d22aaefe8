// Interprets names of files and folders in data sets that other programs made. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace millrace {

enum class DataPart { train, validate, other };

// A name such as train2017, seg_test, "Training set" or fold1.
struct PartName {
  DataPart part;
  int rank;          // among names for one part, the lowest has priority: val before test
  bool is_word;      // the name is the word alone: train
  std::string rest;  // shared by the names of one data set: "seg" of seg_train, "" of train2017
};
std::optional<PartName> part_name(std::string_view name);

// Folders that systems add to a user's: archives of macOS, disks, Windows, and network drives.
bool is_system_folder(std::string_view name);

// The kind of another program's file, and what to do with it: "an archive: unpack it". "" if the name is not recognised.
std::string remedy_for(std::string_view name);

// Whether two different texts look equal: they differ in case, or in the encoding of accents (NFC and NFD).
bool looks_equal(std::string_view a, std::string_view b);
// Writes each byte that is not ASCII as \xNN, so that texts that look equal can be distinguished.
std::string escaped_text(std::string_view text);

}  // namespace millrace
