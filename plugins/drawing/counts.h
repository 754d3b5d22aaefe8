// Formats numbers for pictures.
#pragma once

#include <string>

namespace millrace::drawing {

std::string brief_count(double count);  // at most five letters: "9999", "12.3k", "345k", "1.2M"
std::string share_text(double share);   // "12.3 %", "100 %"
std::string whole_text(double count);   // "12,345"

}  // namespace millrace::drawing
