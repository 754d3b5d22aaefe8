// The pictures that a run has written into its folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "story.h"

namespace millrace::page {

// PNG and SVG files in the folder and in its folders, by name, at most 60; those that are being written are left out. Links are
// not followed, so nothing outside the folder is among them. An unreadable folder has none.
std::vector<Picture> pictures_in(const std::filesystem::path& folder);

// A file descriptor to read it from; -1: it is gone, or no regular file any more.
int open_picture(const std::filesystem::path& folder, const Picture& picture);

const char* content_type(const Picture& picture);

// "data:image/png;base64,..."; "": it cannot be read, or has more than `most` bytes.
std::string data_url(const std::filesystem::path& folder, const Picture& picture, std::size_t most);

}  // namespace millrace::page
