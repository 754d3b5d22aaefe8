// The descriptor that MILLRACE_PLUGIN and MILLRACE_PART (plugin.h) define, and that the framework reads before it calls anything
// in a library. Included by plugin.h.
//
// A plugin exports one symbol, a versioned descriptor; the framework compares its ABI version and toolchain tag first.
#pragma once

#include <cstdint>
#include <utility>

namespace millrace {

class Registry;

// The version of the plugins' interface. The major part changes when compiled plugins would no longer work; the minor part, which
// then begins at 0, changes with additions. A plugin's major part must be the program's, and its minor part not a later one.
// tests/abi compares the interface with a stored baseline.
inline constexpr std::uint32_t kAbiVersion = 28, kAbiMinor = 0;
inline constexpr std::uint32_t kAbi = kAbiMinor << 16 | kAbiVersion;
inline constexpr std::uint32_t kPluginMagic = 0x4d4c5250;  // "MLRP"

// Compiler, its ABI-relevant settings and the standard library, as one text.
#define MILLRACE_TEXT_(x) #x
#define MILLRACE_TEXT(x) MILLRACE_TEXT_(x)
#define MILLRACE_TOOLCHAIN "gxx-abi" MILLRACE_TEXT(__GXX_ABI_VERSION) "-cxx11abi" MILLRACE_TEXT(_GLIBCXX_USE_CXX11_ABI)

struct PluginDescriptor {  // the exported symbol `millrace_plugin`; new fields may only be appended
  std::uint32_t magic;
  std::uint32_t abi;  // kAbi of its headers
  const char* toolchain;
  const char* name;
  const char* version;
  const char* text;
  void (*register_types)(Registry& registry);
};

#define MILLRACE_PLUGIN(name, version, text)                                                                      \
  static void millrace_register_types(millrace::Registry& registry);                                              \
  extern "C" __attribute__((visibility("default"))) const millrace::PluginDescriptor millrace_plugin;             \
  const millrace::PluginDescriptor millrace_plugin = {                                                            \
      millrace::kPluginMagic, millrace::kAbi, MILLRACE_TOOLCHAIN, name, version, text, &millrace_register_types}; \
  static void millrace_register_types([[maybe_unused]] millrace::Registry& registry)

struct __attribute__((visibility("hidden"))) PluginPart {
  explicit PluginPart(void (*types)(Registry& registry)) : register_types(types), next(std::exchange(first(), this)) {}
  static PluginPart*& first() {
    static PluginPart* part = nullptr;
    return part;
  }
  void (*register_types)(Registry& registry);
  PluginPart* next;
};
inline __attribute__((visibility("hidden"))) void register_parts(Registry& registry) {
  for (const PluginPart* part = PluginPart::first(); part != nullptr; part = part->next) part->register_types(registry);
}

// Several sources with this macro may be compiled as one (MILLRACE_UNITE), so that its names need a number.
#define MILLRACE_PART MILLRACE_EXPANDED_PART(__COUNTER__)
#define MILLRACE_EXPANDED_PART(number) MILLRACE_NUMBERED_PART(number)
#define MILLRACE_NUMBERED_PART(number)                                                               \
  static void millrace_register_part_##number(millrace::Registry& registry);                         \
  static const millrace::PluginPart millrace_plugin_part_##number(&millrace_register_part_##number); \
  static void millrace_register_part_##number([[maybe_unused]] millrace::Registry& registry)

}  // namespace millrace
