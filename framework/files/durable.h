// What makes files survive a loss of power: a new name is safe once its folder is on the disk. The bytes of checkpoints and all
// other files are brought there by OutputFile (millrace/util/output_file.h).
#pragma once

#include <array>
#include <chrono>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

namespace millrace {

// Brings the names in the folder onto the disk. A file system that cannot do that for folders is no reason to fail. Throws
// Error(storage) with the cause.
void sync_folder(const std::filesystem::path& folder);

// Makes the folder and those above it, and brings their names onto the disk, also where the folder was there. `error`: why the
// folder cannot be made.
void make_folder(const std::filesystem::path& folder, std::error_code& error);

// A pipe, a socket or a device: to open or read it may wait for ever.
bool is_special_file(const std::filesystem::path& path);

// Of the files that stages write into a folder of predictions or of an evaluation: tables and pictures. Another file there is not
// theirs, and nothing removes it.
inline constexpr std::array<std::string_view, 3> kOutputEndings = {".csv", ".png", ".svg"};

// Removes what killed programs have left in the folder and in those inside it: "figures.csv.new-1234" of an OutputFile. Files of
// processes that run stay, and so does what cannot be removed. Links to other folders are not followed. `endings`: only what
// would have been such files, ".csv"; none: all. `age`: younger ones stay, since another machine may write to the same folder.
void remove_abandoned_files(const std::filesystem::path& folder, std::span<const std::string_view> endings = {},
                            std::chrono::hours age = std::chrono::hours(0));

// False: the file or folder that is open has been removed, or moved away from `path`. True where that cannot be told.
bool is_still_at(int open_file, const std::filesystem::path& path);

}  // namespace millrace
