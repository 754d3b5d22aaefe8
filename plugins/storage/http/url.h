// URLs of http and https: encoding and redirects.
#pragma once

#include <string>

namespace millrace::http {

// The URL as sent: without a fragment, and with invalid bytes such as blanks encoded. Throws ErrorKind::usage for anything but
// http://host/... and https://host/..., and for a name or a password in it.
std::string sendable(const std::string& url);

// The target of "Location: `location`" in a reply from `base`; "" if it is not an http or https URL, or has a password.
std::string resolved(const std::string& base, const std::string& location);

bool is_same_origin(const std::string& one, const std::string& other);  // scheme, host and port
std::string host_of(const std::string& url);                            // "[::1]" with its brackets; "" for an invalid URL
std::string last_part(const std::string& url);                          // last part of the path; empty for a folder

}  // namespace millrace::http
