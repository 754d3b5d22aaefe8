// The values of settings on a command line: "threads=4,device=2x,network=100Gb/s".
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace {

// `what` begins the message of each Error(usage): "--what-if: threads".

std::vector<std::string_view> split_list(std::string_view text);  // at commas; empty parts are left out
std::pair<std::string, std::string> split_setting(std::string_view option, std::string_view text);  // "key=value"
double count_value(const std::string& what, const std::string& text);      // a whole number of at least 1
double factor_value(const std::string& what, const std::string& text);     // "2x", "0.5x"; above 0
double time_value(const std::string& what, const std::string& text);       // "20ms", "5us", "1s": seconds
double bandwidth_value(const std::string& what, const std::string& text);  // "100Gb/s", "25GB/s": bytes per second

}  // namespace millrace
