// Settings that come from the environment.
#pragma once

#include <functional>
#include <string>

#include "retry.h"

namespace millrace::web {

// The value of an environment variable; empty when it is not set.
using Environment = std::function<std::string(const char* name)>;
std::string process_environment(const char* name);

// A variable's figure, or `otherwise` when it is not set. Throws ErrorKind::usage, naming the variable, for what is no figure
// from `low` to `high`: "NAME = 'soon': expected seconds from 0.1 to 86400".
double number(const Environment& environment, const char* name, double otherwise, double low, double high, const char* expected);
Milliseconds seconds(const Environment& environment, const char* name, Milliseconds otherwise);

}  // namespace millrace::web
