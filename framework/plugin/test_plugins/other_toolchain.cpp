// Built with another compiler. Registering would end the test.
#include <cstdlib>

#include "millrace/plugin.h"

extern "C" __attribute__((visibility("default"))) const millrace::PluginDescriptor millrace_plugin;
const millrace::PluginDescriptor millrace_plugin = {
    millrace::kPluginMagic, millrace::kAbi, "another-compiler", "other_toolchain", "1.0", "", [](millrace::Registry&) {
      std::abort();
    }};
