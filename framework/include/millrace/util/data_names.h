// What names of files and folders say of data sets that other programs made. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace millrace {

enum class DataPart { train, validate, other };

// A name such as train2017, seg_test, "Training set" or fold1.
struct PartName {
  DataPart part;
  int rank;          // of names for one part, the lowest is meant first: val before test
  bool is_word;      // the name is no more than the word: train
  std::string rest;  // what names of one data set share: "seg" of seg_train, "" of train2017
};
std::optional<PartName> part_name(std::string_view name);

// Folders that systems make beside a user's: archives of macOS, disks, Windows, and network drives.
bool is_system_folder(std::string_view name);

// What a file of another program is, and what to do with it: "an archive: unpack it". "" for a name that says nothing.
std::string remedy_for(std::string_view name);

// Whether two different texts look equal: letters are large or small, or accents are characters of their own (NFC and NFD).
bool looks_equal(std::string_view a, std::string_view b);
// With \xNN for each byte that is not ASCII: texts that look equal differ so.
std::string escaped_text(std::string_view text);

}  // namespace millrace
