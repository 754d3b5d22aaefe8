// A profile as text, as JSON, and beside another one. Pure.
#pragma once

#include <string>
#include <string_view>

#include "profile.h"

namespace millrace {

// A paragraph: how fast it is, what it waits for, and what would move it.
std::string summary(const Profile& profile);
// The paragraph, the stages, the devices and the way of a step.
std::string report(const Profile& profile);

std::string to_json(const Profile& profile);
// Throws Error(data) that names `file`, for what to_json() has not written.
Profile profile_from_json(std::string_view text, const std::string& file);

// What differs: rate, bottleneck, and each stage and device that both have.
std::string comparison(const Profile& before, const Profile& after);

}  // namespace millrace
