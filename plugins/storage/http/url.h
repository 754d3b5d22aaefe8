// URLs of http and https: what may be sent, and where a redirect leads.
#pragma once

#include <string>

namespace millrace::http {

// The URL as it is sent: without a fragment, and with the bytes encoded that no URL may have, such as blanks. Throws
// ErrorKind::usage for anything but http://host/... and https://host/..., and for a name or a password in it.
std::string sendable(const std::string& url);

// Where "Location: `location`" in a reply from `base` leads; "" when that is no http or https URL, or one with a password.
std::string resolved(const std::string& base, const std::string& location);

bool is_same_origin(const std::string& one, const std::string& other);  // scheme, host and port
std::string host_of(const std::string& url);                            // "[::1]" with its brackets; "" of what is no URL
std::string last_part(const std::string& url);                          // of the path; empty for a folder

}  // namespace millrace::http
