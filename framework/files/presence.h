// Whether something lies at a path. A link that leads nowhere and what may not be looked at do not count as absent.
#pragma once

#include <filesystem>
#include <string>

namespace millrace {

// Why nothing can be read under a name that is there: "is a link to '../val', which leads nowhere", "cannot be looked at:
// Permission denied". "": something can be, or nothing has this name.
std::string why_unreachable(const std::filesystem::path& path);

bool is_absent(const std::filesystem::path& path);         // nothing has this name
bool is_readable_file(const std::filesystem::path& path);  // Error(usage), which names it, where why_unreachable() says something

}  // namespace millrace
