// What FileStorage is made of: paths, errors of the operating system, and the walk through a folder.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <string>
#include <string_view>

#include "millrace/storage.h"

namespace millrace {

// The path in a URL, without a copy unless it has escapes: valid as long as the URL and `decoded`, where such a copy goes.
const char* path_of(const std::string& url, std::string& decoded);

// Throws what errno says about `path`: "cannot open 'a/b': Permission denied".
[[noreturn]] void refuse(const char* what, const std::string& path);

// The same; of what does not exist, which part is missing and what there is instead. A link that leads nowhere exists.
[[noreturn]] void refuse_path(const char* what, const std::string& path);

std::string version_of(const struct stat& status);

// Storage::list_without() of the folder `root`.
void walk(const std::string& root, const std::function<bool(std::string_view)>& leaves_out,
          const std::function<void(Storage::Object)>& found);

}  // namespace millrace
