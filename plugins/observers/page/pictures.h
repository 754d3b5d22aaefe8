// The pictures that a run has written into its folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "story.h"

namespace millrace::page {

// PNG and SVG files in the folder and in its folders, by name, at most 60; those that are being written are left out. Links are
// not followed, so all are inside the folder. An unreadable folder has none.
std::vector<Picture> pictures_in(const std::filesystem::path& folder);

// A file descriptor for reading; -1 if it is gone or no longer a regular file.
int open_picture(const std::filesystem::path& folder, const Picture& picture);

const char* content_type(const Picture& picture);

// "data:image/png;base64,..."; "" if it is unreadable or larger than `most` bytes.
std::string data_url(const std::filesystem::path& folder, const Picture& picture, std::size_t most);

}  // namespace millrace::page
