// Has a symbol of the right name with other content.
extern "C" __attribute__((visibility("default"))) const unsigned millrace_plugin[16] = {1, 2, 3};
