// Settings from the environment.
#pragma once

#include <functional>
#include <string>

#include "retry.h"

namespace millrace::web {

// The value of an environment variable; empty if unset.
using Environment = std::function<std::string(const char* name)>;
std::string process_environment(const char* name);

// A variable's number, or `otherwise` if unset. Throws ErrorKind::usage, naming the variable, unless it is a number from `low` to
// `high`: "NAME = 'soon': expected seconds from 0.1 to 86400".
double number(const Environment& environment, const char* name, double otherwise, double low, double high, const char* expected);
Milliseconds seconds(const Environment& environment, const char* name, Milliseconds otherwise);

}  // namespace millrace::web
