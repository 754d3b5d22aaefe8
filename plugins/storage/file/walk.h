// The parts of FileStorage: paths, errors of the operating system, and the walk through a folder.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <string>
#include <string_view>

#include "millrace/storage.h"

namespace millrace {

// The path in a URL, copied only if it has escapes: valid as long as the URL and `decoded`, which holds such a copy.
const char* path_of(const std::string& url, std::string& decoded);

// Throws the error in errno for `path`: "cannot open 'a/b': Permission denied".
[[noreturn]] void refuse(const char* what, const std::string& path);

// The same; for a missing path it also names the missing part and similar names. A dangling link counts as existing.
[[noreturn]] void refuse_path(const char* what, const std::string& path);

std::string version_of(const struct stat& status);

// Implements Storage::list_without() for the folder `root`.
void walk(const std::string& root, const std::function<bool(std::string_view)>& leaves_out,
          const std::function<void(Storage::Object)>& found);

}  // namespace millrace
