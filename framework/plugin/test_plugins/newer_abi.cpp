// Built with headers that have additions which this program lacks. Registering would end the test.
#include <cstdlib>

#include "millrace/plugin.h"

extern "C" __attribute__((visibility("default"))) const millrace::PluginDescriptor millrace_plugin;
const millrace::PluginDescriptor millrace_plugin = {
    millrace::kPluginMagic, millrace::kAbi + (1U << 16), MILLRACE_TOOLCHAIN, "newer_abi", "1.0", "", [](millrace::Registry&) {
      std::abort();
    }};
