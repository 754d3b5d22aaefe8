// Runs each of our kernels on the device and on the host, for compute-sanitizer: this process has neither cuDNN nor cuBLAS, and
// plain loops replace them.
//
// Small networks of all layers, losses and optimizers train on the simulated machine (tests/gpu/simulation), which
// computes on the host. When it runs a kernel on new sizes, the same element also runs over a copy of its memory on the device,
// and both must give equal results. Each range that an element names becomes an allocation that ends where the range does, so
// that memcheck detects an access to the byte after it.
//
// MILLRACE_GPU_TEST_BACKEND=simulated: without a device, the copy is also computed on the host, in reverse order of its units.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "base/library_folder.h"
#include "device_fixture.h"
#include "millrace/error.h"
#include "millrace/util/load_plugins.h"
#include "runtime/backend.h"
#include "simulation/simulated_machine.h"
#include "simulation/simulated_queue.h"
#include "testkit/conformance_compute.h"
#include "testkit/gradient_check.h"
#include "testkit/layer_examples.h"
#include "testkit/losses.h"
#include "testkit/networks.h"
#include "testkit/operator_cases.h"
#include "testkit/optimizers.h"
#include "testkit/synthetic.h"

namespace millrace::cuda {
namespace {

// ---- One element on both sides ----

// Memory that an element names, and its copy. Overlapping ranges are merged.
struct Range {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  bool written = false;
  std::shared_ptr<std::byte[]> memory = {};
  // A copy has the low 16 bits of its original's address. Vectors are aligned alike; and where unused bytes behind two flags look
  // like an address, the flags stay.
  static constexpr std::uintptr_t kAlignment = 1 << 16;

  std::byte* copied() const {
    const auto from = reinterpret_cast<std::uintptr_t>(begin), to = reinterpret_cast<std::uintptr_t>(memory.get());
    return memory.get() + (from - to) % kAlignment;
  }
  void make_copy() {
    memory = allocate(bytes + kAlignment);
    transfer(copied(), begin, bytes);
  }
};

std::vector<Range> ranges_of(std::vector<MemoryUse> uses) {
  std::vector<Range> ranges;
  std::ranges::sort(uses, std::less<>(), &MemoryUse::memory);
  for (const MemoryUse& use : uses) {
    const auto* const begin = static_cast<const std::byte*>(use.memory);
    if (use.bytes == 0) continue;
    if (ranges.empty() || begin >= ranges.back().begin + ranges.back().bytes) ranges.push_back({begin});
    Range& range = ranges.back();
    range.bytes = std::max(range.bytes, static_cast<std::size_t>(begin - range.begin) + use.bytes);
    range.written |= use.write;
  }
  return ranges;
}

// The element with pointers to the copies. A pointer is a word of the element that is an address in a range, or shortly before
// one, since elements that begin in the middle of a row point to the row's start.
std::vector<std::byte> redirected(const void* element, std::size_t bytes, const std::vector<Range>& ranges) {
  constexpr std::uintptr_t kBefore = 1024;
  std::vector<std::byte> result(bytes);
  std::memcpy(result.data(), element, bytes);
  for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= bytes; at += sizeof(std::uintptr_t)) {
    std::uintptr_t word = 0;
    std::memcpy(&word, result.data() + at, sizeof word);
    const auto range = std::ranges::find_if(
        ranges, [&](const Range& each) { return word < reinterpret_cast<std::uintptr_t>(each.begin) + each.bytes; });
    if (range == ranges.end() || word + kBefore < reinterpret_cast<std::uintptr_t>(range->begin)) continue;
    word += reinterpret_cast<std::uintptr_t>(range->copied()) - reinterpret_cast<std::uintptr_t>(range->begin);
    std::memcpy(result.data() + at, &word, sizeof word);
  }
  return result;
}

void run_copy(const Kernel& kernel, const void* element) {
  if (is_simulated()) {
    for (std::int64_t unit = kernel.units(element); unit > 0; --unit) kernel.run_on_host(element, unit - 1, unit);
    return;
  }
  launch(kernel, element, 1);  // few blocks, so that each loops
}

// Allowed difference relative to the largest number: functions such as exp() differ from the host's, and products may be fused
// with sums.
constexpr double kFloat = 2e-5, kBf16 = 1e-2, kDouble = 1e-6;

// Whether both are numbers of this type, and that close. Bytes of another type, read as this one, are very large, very small or,
// if different, far apart.
template <class T>
bool agree_as(const std::byte* ours, const std::byte* theirs, std::size_t bytes, double bound) {
  if (bytes % sizeof(T) != 0) return false;
  double far = 0, most = 0;
  for (std::size_t at = 0; at < bytes; at += sizeof(T)) {
    T values[2];
    std::memcpy(values, ours + at, sizeof(T));
    std::memcpy(values + 1, theirs + at, sizeof(T));
    double a = 0, b = 0;
    if constexpr (std::is_same_v<T, Bf16>) {
      a = to_float(values[0]), b = to_float(values[1]);
    } else {
      a = values[0], b = values[1];
    }
    if (a == b || (std::isnan(a) && std::isnan(b))) a = b = std::isfinite(a) ? a : 0;
    far = std::isfinite(a - b) ? std::max(far, std::abs(a - b)) : INFINITY;
    most = std::max(most, std::abs(a));
  }
  return most > 1e-20 && most < 1e20 && far <= bound * most;
}

bool agree(const Kernel& kernel, const Range& range) {
  static const std::set<std::string_view> sums_in_double = {
      "finish moments",      "moments",     "finish sums",         "normalise backward sums", "column sums", "norms",
      "norms of directions", "sum figures", "sum figures, joined", "norms, added up"};
  std::vector<std::byte> theirs(range.bytes);
  transfer(theirs.data(), range.copied(), range.bytes);
  if (std::memcmp(range.begin, theirs.data(), range.bytes) == 0) return true;
  return agree_as<float>(range.begin, theirs.data(), range.bytes, kFloat) ||
         (sums_in_double.contains(kernel.name) ? agree_as<double>(range.begin, theirs.data(), range.bytes, kDouble)
                                               : agree_as<Bf16>(range.begin, theirs.data(), range.bytes, kBf16));
}

// Comparisons made so far: a kernel, and the sizes of its inputs and outputs. Queues are threads, of which one at a time works.
class Compared {
 public:
  static bool is_new(const Kernel& kernel, const std::vector<Range>& ranges) {
    std::vector<std::size_t> key;
    for (const Range& range : ranges) key.push_back(range.bytes * 2 + (range.written ? 1 : 0));
    std::ranges::sort(key);
    return all_[&kernel].insert(key).second;
  }
  static std::set<std::string> names() {
    std::set<std::string> names;
    for (const auto& [kernel, sizes] : all_) names.insert(kernel->name);
    return names;
  }
  static std::size_t count() {
    std::size_t sum = 0;
    for (const auto& [kernel, sizes] : all_) sum += sizes.size();
    return sum;
  }
  static void forget() { all_.clear(); }

 private:
  static inline std::map<const Kernel*, std::set<std::vector<std::size_t>>> all_;
};

void run_twice(const Kernel& kernel, const void* element) {
  std::vector<Range> ranges = ranges_of(kernel.uses(element));
  const bool compare = Compared::is_new(kernel, ranges);
  try {
    if (compare) std::ranges::for_each(ranges, &Range::make_copy);
    kernel.run_on_host(element, 0, kernel.units(element));
    if (compare) run_copy(kernel, redirected(element, kernel.bytes, ranges).data());
    for (const Range& range : ranges) {
      if (compare && !agree(kernel, range)) ADD_FAILURE() << kernel.name << ": " << range.bytes << " bytes are not the host's";
    }
  } catch (const Error& error) {
    ADD_FAILURE() << kernel.name << ": " << error.what();
    throw;
  }
}

// ---- A machine that runs both ----

struct Watched {
  static constexpr std::size_t kMax = 2048;
  const Kernel* kernel = nullptr;
  alignas(16) std::array<std::byte, kMax> element{};

  static const Watched& of(const void* erased) { return *static_cast<const Watched*>(erased); }
};
const DeviceLauncher kNowhere = nullptr;
const Kernel kWatched{
    "kernel",
    sizeof(Watched),
    [](const void* e) { return Watched::of(e).kernel->uses(Watched::of(e).element.data()); },
    [](const void*) { return std::int64_t{1}; },
    [](const void* e, std::int64_t, std::int64_t) { run_twice(*Watched::of(e).kernel, Watched::of(e).element.data()); },
    kNowhere};

class WatchedQueue final : public SimulatedQueue {
 public:
  using SimulatedQueue::run;
  using SimulatedQueue::SimulatedQueue;
  void run(const Kernel& kernel, const void* element) override {
    Watched watched{&kernel};
    if (kernel.bytes > watched.element.size()) fail(ErrorKind::device, "{} takes {} bytes", kernel.name, kernel.bytes);
    std::memcpy(watched.element.data(), element, kernel.bytes);
    SimulatedQueue::run(kWatched, &watched);
  }
};

class WatchedMachine final : public SimulatedMachine {
 public:
  explicit WatchedMachine(const std::shared_ptr<Simulation>& simulation)
      : SimulatedMachine(simulation, 0), simulation_(simulation) {}
  std::unique_ptr<Queue> make_queue(const std::string& name) override {
    return std::make_unique<WatchedQueue>(simulation_, 0, name);
  }

 private:
  const std::shared_ptr<Simulation> simulation_;
};

// ---- Training on it ----

class GpuKernels : public OnDevice {
 protected:
  GpuKernels() { Compared::forget(); }

  const Registry& registry() {
    static const Registry all = [] {
      Registry made;
      for (const char* const plugin : {"layers", "losses", "optimizers"}) {
        load_plugin(made, (library_folder() / "millrace/plugins" / (std::string(plugin) + ".so")).string());
      }
      return made;
    }();
    return all;
  }

  // A step, then two inferences over the same images.
  void train(const Network& network, const std::shared_ptr<const Loss>& loss, CompileOptions options, int scale = 1) {
    const auto machine = std::make_shared<WatchedMachine>(std::make_shared<Simulation>(SimulationOptions{.delay_one_in = 0}));
    CudaDevice device(machine);
    options.train_batch = options.infer_batch = conformance::kBatch;
    options.request.losses = {loss};
    options.request.copies = {"slow"};
    options.request.outputs = {network.result()};
    if (options.request.update.optimizers.empty()) options.request.update = testkit::sgd(network, 0.9, 0.01, true);
    const std::unique_ptr<Replica> replica = device.compile(network, options);
    const conformance::LossData data(network, *loss, scale);
    replica->start();
    testkit::randomise(network, *replica, 1);
    replica->ingest(data.batch, 0, data.batch->count);
    replica->forward(0);
    StepSums sums;
    replica->loss(loss, data.batch->weight, sums);
    std::vector<Ref<Event>> filled;
    replica->backward([&](int, Ref<Event> event) { filled.push_back(std::move(event)); });
    replica->finish();
    UpdateStep step;
    step.learning_rate = 0.01;
    for (std::size_t bucket = 0; bucket < filled.size(); ++bucket) {
      replica->update(static_cast<int>(bucket), step, filled[bucket]);
    }
    replica->lerp_into("slow", 0.5, true);
    replica->swap_with("slow");
    const View looks[] = {{.weight = 0.5}, {.flip_x = true, .weight = 0.5}};
    replica->infer(data.batch, 0, data.batch->count, looks, loss, sums);
    const std::size_t numbers = conformance::kBatch * static_cast<std::size_t>(network.output().elements());
    const std::shared_ptr<std::uint8_t[]> memory = device.host_buffer(numbers * sizeof(float));
    const OutputCopy output{network.result(), reinterpret_cast<float*>(memory.get())};
    replica->read_outputs({&output, 1});
    replica->finish();
    for (const testkit::Violation& violation : machine->violations()) ADD_FAILURE() << describe(violation);
  }

  void train_all(Precision precision) {
    const CompileOptions options{.precision = precision};
    const auto train_text = [&](const std::string& text) {
      SCOPED_TRACE(text);
      train(*testkit::network_from_text(text, registry()), testkit::cross_entropy(0.1), options);
    };
    for (const auto& cases : {testkit::operator_cases(), testkit::dropout_cases()}) {
      for (const testkit::OperatorCase& tested : cases) train_text(testkit::image_network_text(tested));
    }
    for (const auto& [name, type] : registry().layers()) {
      for (const LayerExample& example : type.examples) train_text(testkit::example_network(type, example));
    }
    for (const auto& [name, type] : registry().losses()) {
      for (const LossExample& example : type.examples) {
        SCOPED_TRACE(name + ": " + example.table);
        train(*conformance::network_for(registry(), example.output, false), testkit::example_loss(type, example), options);
      }
    }
    const auto network = conformance::network_for(registry(), {5}, false);
    for (const auto& [name, type] : registry().optimizers()) {
      for (const std::shared_ptr<const Optimizer>& optimizer : conformance::workable_optimizers(type)) {
        SCOPED_TRACE(name);
        CompileOptions with_optimizer = options;
        OptimizerSpec& update = with_optimizer.request.update = testkit::sgd(*network, 0.9, 0.01);
        update.optimizers.push_back(optimizer);
        for (const Parameter& parameter : network->parameters) {
          update.optimizer_of.push_back(optimizer->scope() == OptimizerScope::matrix && parameter.shape.rank() < 2 ? 0 : 1);
        }
        train(*network, testkit::cross_entropy(), with_optimizer);
      }
    }
  }

  // Kernels of backend cuda that were not run; empty if the sources are not available.
  static std::set<std::string> left_out(Precision precision) {
    std::set<std::string> names;
    const std::filesystem::path folder = MILLRACE_SOURCE_DIR "/plugins/backends/cuda/kernels";
    if (!std::filesystem::exists(folder)) return names;
    static const std::regex name(R"x(kName = "(.*)";)x");
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      std::ifstream stream(file.path());
      std::smatch found;
      for (std::string line; std::getline(stream, line);) {
        if (std::regex_search(line, found, name)) names.insert(found[1]);
      }
    }
    for (const std::string& compared : Compared::names()) names.erase(compared);
    names.erase("finish sums");                                // part of the sums that it finishes, never submitted alone
    names.erase("finish moments");                             // likewise, unless last_block is disabled: shortcuts_test.cpp
    if (precision == Precision::fp32) names.erase("convert");  // from and to bf16
    return names;
  }

  void expect_agreement(Precision precision) {
    train_all(precision);
    EXPECT_EQ(left_out(precision), std::set<std::string>());
    fmt::print("{}: {} kernels on {} sizes\n", to_string(precision), Compared::names().size(), Compared::count());
  }
};

TEST_F(GpuKernels, AgreeInFloat32) { expect_agreement(Precision::fp32); }
TEST_F(GpuKernels, AgreeInBf16) { expect_agreement(Precision::bf16); }

// Tests the comparison itself: it must detect a wrong result.
TEST(GpuKernelComparison, SeesANumberOrAnIndexThatIsWrong) {
  const auto sees = [](auto values, std::size_t which, auto wrong) {
    std::vector ours(7, values), theirs(7, values);
    theirs[which] = wrong;
    const auto* const a = reinterpret_cast<const std::byte*>(ours.data());
    const auto* const b = reinterpret_cast<const std::byte*>(theirs.data());
    const std::size_t bytes = sizeof values * 7;
    return !agree_as<float>(a, b, bytes, kFloat) && !agree_as<Bf16>(a, b, bytes, kBf16);
  };
  for (std::size_t which = 0; which < 7; ++which) {
    EXPECT_TRUE(sees(0.1F, which, 0.1001F));
    EXPECT_TRUE(sees(0.1F, which, NAN));
    EXPECT_TRUE(sees(std::uint32_t{3}, which, std::uint32_t{4}));
    EXPECT_FALSE(sees(0.1F, which, 0.1000001F));
    EXPECT_TRUE(sees(from_float<Bf16>(0.1F), which, from_float<Bf16>(0.2F)));
    EXPECT_FALSE(sees(from_float<Bf16>(0.1F), which, from_float<Bf16>(0.1004F)));
  }
}

}  // namespace
}  // namespace millrace::cuda
