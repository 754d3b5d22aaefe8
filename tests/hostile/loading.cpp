// Libraries that do harm while they are opened or closed, as set by HOSTILE.
#define HOSTILE_THROWS 1
#define HOSTILE_ABORTS 2
#define HOSTILE_EXITS 3
#define HOSTILE_MISSING 4
#define HOSTILE_REGISTRATION 5
#define HOSTILE_DESTRUCTOR 6
#define HOSTILE_EXITS_AT_ONCE 7
#define HOSTILE_OVERFLOWS 8
#define HOSTILE_HANGS 9

#if HOSTILE < HOSTILE_REGISTRATION || HOSTILE > HOSTILE_DESTRUCTOR

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

extern "C" int there_is_no_such_function();

namespace {

// Uses a volatile, so that compilers do not turn it into a loop.
int overflow(volatile char* before) {
  volatile char block[4096];
  for (volatile char& byte : block) byte = before == nullptr ? 0 : before[0];
  return block[0] != 0 ? 0 : overflow(block) + block[1];
}

int harm() {
  if (HOSTILE == HOSTILE_THROWS) throw std::runtime_error("boom");
  if (HOSTILE == HOSTILE_ABORTS) std::abort();
  if (HOSTILE == HOSTILE_EXITS) std::exit(0);
  if (HOSTILE == HOSTILE_EXITS_AT_ONCE) ::_exit(0);
  if (HOSTILE == HOSTILE_OVERFLOWS) return overflow(nullptr);
#if HOSTILE == HOSTILE_HANGS
  if (const char* const file = std::getenv("HOSTILE_HANGS")) std::ofstream(file) << "it hangs\n";
  while (true) ::pause();
#endif
#if HOSTILE == HOSTILE_MISSING
  return there_is_no_such_function();
#else
  return 0;
#endif
}

[[maybe_unused]] const int done = harm();

}  // namespace

#else

#include <millrace/plugin.h>

namespace {

struct AtTheEnd {
  ~AtTheEnd() {
    if (HOSTILE == HOSTILE_DESTRUCTOR) std::abort();
  }
} at_the_end;

class Harmless : public millrace::SampleTransform {
 public:
  struct Params {};
  static void describe(millrace::StageDescription<Params>& d) { d.name("harmless").text("Does nothing."); }
  Harmless(const Params&, const millrace::StageSite&) {}
  void process(millrace::Sample&, millrace::Draw&) override {}
};

}  // namespace

MILLRACE_PLUGIN("loading", "1.0", "Does harm.") {
  registry.add_stage<Harmless>();
  if (HOSTILE == HOSTILE_REGISTRATION) throw 7;
}

#endif
