// Built for a future ABI. Registering would end the test.
#include <cstdlib>

#include "millrace/plugin.h"

extern "C" __attribute__((visibility("default"))) const millrace::PluginDescriptor millrace_plugin;
const millrace::PluginDescriptor millrace_plugin = {
    millrace::kPluginMagic, millrace::kAbi + 1, MILLRACE_TOOLCHAIN, "other_abi", "1.0", "", [](millrace::Registry&) {
      std::abort();
    }};
