// A shared library, but no plugin.
extern "C" __attribute__((visibility("default"))) int answer() { return 42; }
