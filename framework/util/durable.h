// Makes names of files survive a power failure: a new name is safe once its folder is on disk. OutputFile
// (millrace/util/output_file.h) does this for the bytes of files.
#pragma once

#include <array>
#include <chrono>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

namespace millrace {

// Forces the folder's names onto the disk. File systems without support for this are not an error. Throws Error(storage) with the
// cause.
void sync_folder(const std::filesystem::path& folder);

// Makes the folder and its parents, and forces their names onto the disk, even if the folder existed. `error`: why the folder
// cannot be made.
void make_folder(const std::filesystem::path& folder, std::error_code& error);

// A pipe, a socket or a device, whose opening or reading may block forever.
bool is_special_file(const std::filesystem::path& path);

// Endings of the files that stages write into a folder of predictions or of an evaluation: tables and pictures. Other files there
// are never removed.
inline constexpr std::array<std::string_view, 3> kOutputEndings = {".csv", ".png", ".svg"};

// Removes leftovers of killed programs in the folder and its subfolders: "figures.csv.new-1234" of an OutputFile. Files of
// running processes stay, as does anything that cannot be removed. Does not follow links to other folders. `endings`: restricts
// this to files with these endings, ".csv"; empty: all. `age`: younger files stay, since another machine may write to the same
// folder.
void remove_abandoned_files(const std::filesystem::path& folder, std::span<const std::string_view> endings = {},
                            std::chrono::hours age = std::chrono::hours(0));

// False if the open file or folder was removed, or moved away from `path`. True if that cannot be determined.
bool is_still_at(int open_file, const std::filesystem::path& path);

}  // namespace millrace
