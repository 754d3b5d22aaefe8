// A profile as text, as JSON, and compared with another one. Pure.
#pragma once

#include <string>
#include <string_view>

#include "profile.h"

namespace millrace {

// A paragraph: the speed, the bottleneck, and possible improvements.
std::string summary(const Profile& profile);
// The paragraph, the stages, the devices and the path of a step.
std::string report(const Profile& profile);

std::string to_json(const Profile& profile);
// Throws Error(data), naming `file`, for text not written by to_json().
Profile profile_from_json(std::string_view text, const std::string& file);

// The differences: rate, bottleneck, and each stage and device in both.
std::string comparison(const Profile& before, const Profile& after);

}  // namespace millrace
