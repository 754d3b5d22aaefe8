#include "primitive_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <string_view>
#include <unordered_map>

#include "device_info.h"
#include "library_fault.h"
#include "map_spec.h"
#include "millrace/kernels/portable_element.h"
#include "primitives.h"

namespace millrace::cpu {

using dnnl::memory;
using Base = dnnl::primitive_desc_base;

namespace {

constexpr std::size_t kGuard = std::size_t{64} << 10;   // bytes between two parts
constexpr std::size_t kMargin = std::size_t{16} << 20;  // bytes of untouched pages before and after all parts
constexpr std::byte kPattern{0xff};

// True if these pages contain data; resets them to untouched.
bool take_writes(std::byte* pages, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> present(bytes / page);
  if (::mincore(pages, bytes, present.data()) != 0) return false;
  for (std::size_t i = 0; i < present.size(); ++i) {
    const std::byte* const at = pages + i * page;
    if (present[i] == 0 || std::all_of(at, at + page, [](std::byte byte) { return byte == std::byte{0}; })) continue;
    ::madvise(pages, bytes, MADV_DONTNEED);
    return true;
  }
  return false;
}

// Scratch memory for kernels that are not trusted yet. Guards with a pattern separate its parts, and 16 MiB of empty pages
// surround them: writes to either are detected without a crash.
class GuardedMemory {
 public:
  struct Part {
    std::string name;  // for messages
    std::size_t bytes = 0;
  };

  // Uses `memory`, which grows if needed: fresh pages for every kernel would cost more than most kernels. Every byte is initially
  // 0xff, in parts and guards: NaN in every type, so that unwritten values show in sums.
  GuardedMemory(MemoryRegion& memory, std::vector<Part> parts);

  void* at(std::size_t part) const { return data_ + offsets_[part]; }  // aligned like the planner's tensors
  // "writes in front of the weights"; empty if no guard has changed.
  std::string damage() const;

 private:
  std::size_t end_of(std::size_t part) const { return offsets_[part] + parts_[part].bytes; }

  std::vector<Part> parts_;
  std::vector<std::size_t> offsets_;
  std::size_t bytes_ = 0;
  std::byte *data_ = nullptr, *behind_ = nullptr;  // the first guard; the pages after all parts
};

GuardedMemory::GuardedMemory(MemoryRegion& memory, std::vector<Part> parts) : parts_(std::move(parts)), bytes_(kGuard) {
  for (const Part& part : parts_) {
    offsets_.push_back(bytes_);
    bytes_ = aligned(bytes_ + part.bytes + kGuard);
  }
  const std::size_t least = round_up(bytes_, kGuard) + 2 * kMargin;  // whole pages
  if (memory.bytes() < least) {
    memory = MemoryRegion();
    memory = MemoryRegion(least);
    ::madvise(memory.as<std::byte>(), kMargin, MADV_NOHUGEPAGE);
    ::madvise(memory.as<std::byte>() + memory.bytes() - kMargin, kMargin, MADV_NOHUGEPAGE);
  }
  data_ = memory.as<std::byte>() + kMargin;
  behind_ = memory.as<std::byte>() + memory.bytes() - kMargin;
  std::memset(data_, static_cast<int>(kPattern), bytes_);
}

std::string GuardedMemory::damage() const {
  const auto intact = [&](std::size_t begin, std::size_t end) {
    return std::all_of(data_ + begin, data_ + end, [](std::byte byte) { return byte == kPattern; });
  };
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const std::size_t behind = i + 1 < parts_.size() ? offsets_[i + 1] : bytes_;
    if (i == 0 && !intact(0, offsets_[0])) return fmt::format("writes in front of the {}", parts_[i].name);
    if (!intact(end_of(i), behind)) return fmt::format("writes after the {}", parts_[i].name);
  }
  if (take_writes(data_ - kMargin, kMargin)) return "writes far before its memory";
  if (take_writes(behind_, kMargin)) return "writes far behind its memory";
  return {};
}

constexpr std::int64_t kParts = 4;  // per thread: rows differ in cost

// Calls work(begin, end) for parts of the rows on the team, and returns the results in order.
template <class Work>
auto share_rows(std::int64_t rows, const Work& work) {
  const std::int64_t parts = std::min(rows, kParts * omp_get_max_threads());
  std::vector<decltype(work(0, 0))> results(static_cast<std::size_t>(parts));
#pragma omp parallel for schedule(dynamic)
  for (std::int64_t part = 0; part < parts; ++part) {
    results[static_cast<std::size_t>(part)] = work(rows * part / parts, rows * (part + 1) / parts);
  }
  return results;
}

std::string to_text(const WindowDifference& found, const char* what) {
  if (found.wrong == 0) return {};
  return fmt::format("{} of {} {} are wrong: {}", found.wrong, found.of, what, found.first);
}

const TrialOperand& operand_of(const Trial& trial, WindowOperand which) {
  return which == WindowOperand::x ? trial.x : which == WindowOperand::w ? trial.w : trial.y;
}

// Memory limit of a trial outside the plan.
constexpr std::size_t kMaxOfTrial = std::size_t{1} << 30;

// Runs a kernel once on scratch memory, which grows as needed, and compares all of its results with the known ones. Detects wrong
// values and writes outside the kernel's memory. Skips the trial if it would take more than a gibibyte.
Fault find_fault(const Trial& trial, MemoryRegion& scratch, const std::function<void(const TrialMemory&)>& kernel) {
  const auto channels = static_cast<std::size_t>(trial.shape.groups * trial.shape.k);
  if (trial.x.bytes + trial.w.bytes + trial.y.bytes + trial.scratch > kMaxOfTrial) return {};
  const GuardedMemory guarded(scratch, {{"input", trial.x.bytes},
                                        {"weights", trial.w.bytes},
                                        {"output", trial.y.bytes},
                                        {"bias", trial.bias ? channels * sizeof(float) : 0},
                                        {"scratch memory", trial.scratch}});
  const TrialMemory memory{guarded.at(0), guarded.at(1), guarded.at(2), trial.bias ? static_cast<float*>(guarded.at(3)) : nullptr,
                           guarded.at(4)};
  const WindowCheck check(trial.shape, trial.result);
  const auto at = [&](WindowOperand which) {
    return which == WindowOperand::x ? memory.x : which == WindowOperand::w ? memory.w : memory.y;
  };
  for (const WindowOperand which : {WindowOperand::x, WindowOperand::w, WindowOperand::y}) {
    if (which == trial.result) continue;
    const ElementOffsets& elements = operand_of(trial, which).elements;
    share_rows(check.rows(elements), [&](std::int64_t begin, std::int64_t end) {
      check.fill(which, elements, at(which), begin, end);
      return 0;
    });
  }
  const bool adds_bias = trial.bias && trial.result == WindowOperand::y;
  const std::vector<float> bias = window_biases(adds_bias ? channels : 0);
  std::copy(bias.begin(), bias.end(), memory.bias);

  kernel(memory);

  if (std::string damage = guarded.damage(); !damage.empty()) return damage;
  const WindowRounding rounding{.relu = trial.relu, .bias = adds_bias ? &bias : nullptr, .of_term = trial.rounding};
  const ElementOffsets& elements = operand_of(trial, trial.result).elements;
  const auto compare = [&](std::int64_t begin, std::int64_t end) {
    return check.compare(elements, at(trial.result), begin, end, rounding);
  };
  WindowDifference found;
  for (WindowDifference& part : share_rows(check.rows(elements), compare)) merge(found, std::move(part));
  if (Fault fault = to_text(found, "results"); !fault.empty()) return fault;
  if (!trial.bias || adds_bias) return {};
  return to_text(check.compare_bias(memory.bias, trial.rounding), "gradients of the bias");
}

bool is_transposed(const WindowSum& sum) { return sum.layer == WindowSum::Layer::transposed_convolution; }

// A transposed convolution is its mirror image, from destination to source.
const memory::desc& x_of(const WindowSum& sum) { return is_transposed(sum) ? sum.destination : sum.source; }
const memory::desc& y_of(const WindowSum& sum) { return is_transposed(sum) ? sum.source : sum.destination; }

WindowOperand result_of(const WindowSum& sum) {
  if (sum.pass == WindowSum::Pass::weights) return WindowOperand::w;
  return (sum.pass == WindowSum::Pass::forward) == is_transposed(sum) ? WindowOperand::x : WindowOperand::y;
}

// A tensor's extents or axes by position: (N, C, H, W), or for weights (G, O, I, H, W).
template <class Axis>
std::vector<Axis> map_order(std::vector<Axis> axes, const Axis& none) {
  axes.resize(4, none);
  return axes;
}
template <class Axis>
std::vector<Axis> weights_order(const WindowSum& sum, std::vector<Axis> axes, const Axis& none) {
  if (axes.size() != 5) axes.insert(axes.begin(), none);
  axes.resize(5, none);
  // oneDNN names a transposed convolution's weights by its own output and input, and a product's (inner, columns).
  if (is_transposed(sum) || sum.layer == WindowSum::Layer::product) std::swap(axes[1], axes[2]);
  return axes;
}

WindowShape shape_of(const WindowSum& sum) {
  const memory::dims x = map_order(dims_of(x_of(sum)), memory::dim{1}), y = map_order(dims_of(y_of(sum)), memory::dim{1});
  const memory::dims w = weights_order(sum, dims_of(sum.weights), memory::dim{1});
  WindowShape shape{.n = x[0], .groups = w[0], .c = w[2], .k = w[1]};
  const auto side = [&](std::size_t i) {
    WindowShape::Side of{.in = x[i + 2], .out = y[i + 2], .kernel = w[i + 3]};
    if (sum.strides.empty()) return of;
    of.stride = sum.strides[i];
    of.dilation = sum.dilates[i] + 1;
    of.before = sum.before[i];
    return of;
  };
  shape.rows = side(0);
  shape.columns = side(1);
  return shape;
}

constexpr double kMaxOfReference = 0x1p24;  // multiply-adds over all samples

double multiply_adds(const WindowShape& s) {
  const auto side = [](const WindowShape::Side& of) { return static_cast<double>(of.out * of.kernel); };
  return static_cast<double>(s.n * s.groups * s.c * s.k) * side(s.rows) * side(s.columns);
}

TrialOperand map_of(const memory::desc& desc) {
  TrialOperand operand = trial_operand(desc);
  operand.elements.axes = map_order(std::move(operand.elements.axes), {0});
  return operand;
}

TrialOperand weights_of(const WindowSum& sum) {
  TrialOperand operand = trial_operand(sum.weights);
  operand.elements.axes = weights_order(sum, std::move(operand.elements.axes), {0});
  return operand;
}

// Winograd's algorithm of 4 x 4 outputs rounds more: its transforms multiply by up to 8 and divide by up to 24.
double rounding_of(const WindowSum& sum) { return sum.how == dnnl::algorithm::convolution_winograd ? 0x1p-16 : 0x1p-21; }

Fault run(const WindowSum& sum, const Base& desc, MemoryRegion& scratch) {
  const dnnl::engine engine = desc.get_engine();
  for (const memory::desc* operand : {&sum.source, &sum.weights, &sum.destination}) {
    if (offsets_of(*operand).empty()) return "its layout of memory has no name, so that it cannot be checked";
  }
  dnnl::primitive primitive;
  if (const std::string fault = library_fault([&] { primitive = dnnl::primitive(desc.get()); }); !fault.empty())
    return fmt::format("it {} when created", fault);
  Trial trial = trial_of(sum);
  trial.scratch = desc.scratchpad_desc().get_size();
  return find_fault(trial, scratch, [&](const TrialMemory& at) {
    const auto in = [&](const memory::desc& of, void* data) { return memory(of, engine, data); };
    const bool data = sum.pass == WindowSum::Pass::data, weights = sum.pass == WindowSum::Pass::weights,
               forward = sum.pass == WindowSum::Pass::forward;
    void* const source = is_transposed(sum) ? at.y : at.x;
    void* const destination = is_transposed(sum) ? at.x : at.y;
    std::unordered_map<int, memory> arguments = {{data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, in(sum.source, source)},
                                                 {weights ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, in(sum.weights, at.w)},
                                                 {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, in(sum.destination, destination)},
                                                 {DNNL_ARG_SCRATCHPAD, in(desc.scratchpad_desc(), at.scratch)}};
    MemoryRegion zeros(sum.added.get_size());  // so that the known results hold
    if (!sum.added.is_zero()) arguments.emplace(kAddedArgument, in(sum.added, zeros.as<void>()));
    if (at.bias != nullptr) arguments.emplace(weights ? DNNL_ARG_DIFF_BIAS : DNNL_ARG_BIAS, in(sum.bias, at.bias));
    dnnl::stream stream(engine);
    primitive.execute(stream, arguments);
    stream.wait();
  });
}

// One per thread, so that each has work, and at least two to be summed. A product keeps all rows: its kernel is made for their
// number.
memory::dim fewest_samples(const WindowSum& sum) {
  const bool is_product = sum.layer == WindowSum::Layer::linear || sum.layer == WindowSum::Layer::product;
  return is_product ? dims_of(sum.source)[0] : std::max(2, omp_get_max_threads());
}

// Checks the same implementation on just enough samples to be representative.
Fault check(const WindowSum& sum, const Base& chosen, MemoryRegion& scratch) {
  const dnnl::engine engine = chosen.get_engine();
  const std::string implementation = chosen.impl_info_str();
  const memory::dim all = dims_of(sum.source)[0];
  const Pick same = [&](const Base& desc) { return implementation == desc.impl_info_str(); };
  for (memory::dim samples = fewest_samples(sum); samples < all; samples *= 2) {
    const WindowSum fewer = of_first(sum, samples);
    try {
      return run(fewer, cpu::describe(engine, fewer, same), scratch);
    } catch (const dnnl::error&) {  // another implementation handles so few samples
    }
  }
  return run(sum, chosen, scratch);
}

// Writes known numbers that every type represents exactly, and zeros in padding.
void fill(const memory::desc& desc, std::byte* data) {
  std::memset(data, 0, desc.get_size());
  const memory::dims extents = dims_of(desc);
  const auto offsets = offsets_of(desc);
  memory::dims at(extents.size(), 0);
  for (std::int64_t number = 0;; ++number) {
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < at.size(); ++axis) offset += offsets[axis][static_cast<std::size_t>(at[axis])];
    const float value = static_cast<float>(number % 251 - 125);
    if (type_of(desc) == memory::data_type::bf16)
      reinterpret_cast<Bf16*>(data)[offset] = from_float<Bf16>(value);
    else
      reinterpret_cast<float*>(data)[offset] = value;
    std::size_t axis = at.size();
    for (; axis > 0 && ++at[axis - 1] == extents[axis - 1]; --axis) at[axis - 1] = 0;
    if (axis == 0) return;
  }
}

// The first part of a large tensor along its first axis. Blocks of a layout are not split.
memory::desc first_part(const memory::desc& desc) {
  constexpr memory::dim kMaxElements = memory::dim{1} << 22, kBlock = 16;
  memory::dims extents = dims_of(desc);
  memory::dim rest = 1;
  for (std::size_t axis = 1; axis < extents.size(); ++axis) rest *= extents[axis];
  const memory::dim most = std::max(kMaxElements / std::max<memory::dim>(rest, 1), memory::dim{1});
  if (extents[0] <= most) return desc;
  extents[0] = most < kBlock ? most : most / kBlock * kBlock;
  return desc.submemory_desc(extents, memory::dims(extents.size(), 0));
}

Fault check_copy(const memory::desc& from, const memory::desc& to, MemoryRegion& scratch) {
  if (offsets_of(from).empty() || offsets_of(to).empty()) return {};
  const dnnl::engine engine = processor();
  const GuardedMemory guarded(scratch, {{"input", from.get_size()}, {"output", to.get_size()}});
  auto *const source = static_cast<std::byte*>(guarded.at(0)), *const result = static_cast<std::byte*>(guarded.at(1));
  std::vector<std::byte> expected(to.get_size());
  fill(from, source);
  fill(to, expected.data());
  std::memset(result, 0, expected.size());
  dnnl::stream stream(engine);
  memory in(from, engine, source), out(to, engine, result);
  dnnl::reorder reorder;
  if (std::string fault = library_fault([&] { reorder = dnnl::reorder(in, out); }); !fault.empty()) return fault;
  reorder.execute(stream, in, out);
  stream.wait();
  if (std::string damage = guarded.damage(); !damage.empty()) return damage;
  return std::ranges::equal(expected, std::span(result, expected.size())) ? Fault() : "elements are not where they belong";
}

std::string onednn_version() {
  const dnnl_version_t* version = dnnl::version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

// All batch sizes with the same implementation share a verdict, so that an epoch's smaller last batch costs nothing.
std::string key_of(const WindowSum& sum, const Base& desc) {
  const memory::dim samples = std::min(dims_of(sum.source)[0], fewest_samples(sum));
  return fmt::format("{} by {} on {} threads", cpu::key_of(of_first(sum, samples)), desc.impl_info_str(), omp_get_max_threads());
}

}  // namespace

std::string kernel_versions() {
  return fmt::format("oneDNN {} {} isa {:x}", onednn_version(), dnnl::version()->hash,
                     static_cast<unsigned>(dnnl::get_effective_cpu_isa()));
}

TrialOperand trial_operand(const memory::desc& desc) {
  const bool is_bf16 = type_of(desc) == memory::data_type::bf16;
  return {{is_bf16 ? DataType::bf16 : DataType::f32, offsets_of(desc)}, desc.get_size()};
}

Trial trial_of(const WindowSum& sum) {
  return {.shape = shape_of(sum),
          .result = result_of(sum),
          .x = map_of(x_of(sum)),
          .w = weights_of(sum),
          .y = map_of(y_of(sum)),
          .bias = !sum.bias.is_zero(),
          .relu = sum.relu,
          .rounding = rounding_of(sum)};
}

Base PrimitiveChecks::describe(const dnnl::engine& engine, const WindowSum& sum) const {
  Pick not_wrong;
  if (choices_) {
    not_wrong = [&](const Base& desc) {
      const WindowSum exact = as_chosen(sum, desc);
      const std::string key = key_of(exact, desc);
      const auto fault = choices_->find(key);
      if (!fault || fault->empty()) return true;
      pass_over(key, fmt::format("oneDNN {}, {}, {}", onednn_version(), desc.impl_info_str(), to_text(exact)), *fault);
      return false;
    };
  }
  Base described;
  const std::string fault = library_fault([&] { described = cpu::describe(engine, sum, not_wrong); });
  if (!fault.empty()) fail(ErrorKind::device, "oneDNN {} {} while choosing a kernel: {}", onednn_version(), fault, to_text(sum));
  return described;
}

Base PrimitiveChecks::first_right(const dnnl::engine& engine, const WindowSum& sum) const {
  for (;;) {  // wrong implementations are not returned again
    Base chosen = describe(engine, sum);
    if (is_right(sum, chosen)) return chosen;
  }
}

bool PrimitiveChecks::is_right(const WindowSum& sum, const Base& chosen) const {
  if (!choices_) return true;
  const WindowSum exact = as_chosen(sum, chosen);
  if (std::string_view(chosen.impl_info_str()).starts_with("ref") && multiply_adds(shape_of(exact)) > kMaxOfReference)
    return true;
  try {
    return choices_->find_or(key_of(exact, chosen), [&] { return check(exact, chosen, *memory_); }).empty();
  } catch (const std::bad_alloc&) {  // the network's own memory is planned and reported later
    return true;
  }
}

bool PrimitiveChecks::is_right(const std::string& name, const Trial& trial,
                               const std::function<void(const TrialMemory&)>& kernel) const {
  if (!choices_) return true;
  const std::string key = fmt::format("{} on {} threads", name, omp_get_max_threads());
  Fault fault;
  try {
    fault = choices_->find_or(key, [&] { return find_fault(trial, *memory_, kernel); });
  } catch (const std::bad_alloc&) {
    return true;
  }
  if (!fault.empty()) pass_over(key, name, fault);
  return fault.empty();
}

void PrimitiveChecks::require_right_copies(const memory::desc& one, const memory::desc& other) const {
  if (!choices_ || one == other) return;
  for (const auto& [from, to] : {std::pair(one, other), std::pair(other, one)}) {
    const std::string name =
        fmt::format("copy of {} from {} to {}", fmt::join(dims_of(from), "x"), layout_text(from), layout_text(to));
    const std::string key = fmt::format("{} on {} threads", name, omp_get_max_threads());
    Fault fault;
    try {
      fault = choices_->find_or(key, [&] { return check_copy(first_part(from), first_part(to), *memory_); });
    } catch (const std::bad_alloc&) {
      return;
    } catch (const dnnl::error&) {  // a part of it cannot be described
      return;
    }
    if (!fault.empty()) fail(ErrorKind::device, "oneDNN {} is wrong on this processor: {}: {}", onednn_version(), name, fault);
  }
}

void PrimitiveChecks::pass_over(const std::string& key, const std::string& name, const Fault& fault) const {
  choices_->warn_once(key, fmt::format("passed over, since it computes wrongly on this processor: {}: {}", name, fault), warn_);
}

}  // namespace millrace::cpu
