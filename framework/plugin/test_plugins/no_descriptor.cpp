// A shared library that is not a plugin.
extern "C" __attribute__((visibility("default"))) int answer() { return 42; }
