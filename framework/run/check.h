// What `pipeline-run --check` prints: everything that is known before data is touched.
#pragma once

#include <string>

#include "run/session.h"

namespace millrace {

// Plan, shapes, steps, devices, and the memory bound per stage and device. A few lines of plain text.
std::string check_report(const Session& session);

std::size_t resident_bytes();  // of this process, now
// Of the host's memory, or of one device's own.
std::size_t total_bytes(const std::vector<Session::MemoryItem>& items, const std::string& device = {});
std::string bytes_text(std::size_t bytes);  // "1.44 GiB", "12.0 MiB"

}  // namespace millrace
