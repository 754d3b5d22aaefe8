// An observer that reports the heap bytes in use.
#include <malloc.h>
#include <millrace/observer.h>
#include <millrace/plugin.h>

#include <fstream>

namespace {

using namespace millrace;

class Heap : public RunObserver {
 public:
  struct Params {
    std::string file;
  };
  static void describe(ObserverDescription<Params>& d) {
    d.name("heap").text("Appends a line to a file at every tick: bytes of the heap in use.");
    d.params.add("file", &Params::file).text("the file");
  }
  explicit Heap(const Params& params) : file_(params.file, std::ios::app) {}
  void tick(const TickEvent&) override {
    const struct mallinfo2 now = mallinfo2();
    file_ << now.uordblks + now.hblkhd << '\n' << std::flush;
  }

 private:
  std::ofstream file_;
};

}  // namespace

MILLRACE_PLUGIN("heap", "1.0", "An observer for tests that run for long.") { registry.add_observer<Heap>(); }
