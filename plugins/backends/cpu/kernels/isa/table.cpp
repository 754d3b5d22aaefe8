#include "kernels/isa/isa.h"

#define MILLRACE_TEXT_OF(name) #name
#define MILLRACE_TEXT(name) MILLRACE_TEXT_OF(name)

namespace millrace::cpu::MILLRACE_ISA {
namespace {

#if defined(__AVX512BF16__)
// The type of the first map among a kernel's arguments.
DataType type_of(const Map& map, const auto&...) { return map.type; }
DataType type_of(const NormaliseArguments& arguments, const auto&...) { return arguments.x.type; }
DataType type_of(const NormaliseBackwardArguments& arguments, const auto&...) { return arguments.x.type; }
DataType type_of(const auto&, const auto&... others) { return type_of(others...); }

template <auto kMember, auto kOfBf16>
struct ByType;
template <class Section, class... Arguments, void (*Section::*kMember)(Arguments...), void (*kOfBf16)(Arguments...)>
struct ByType<kMember, kOfBf16> {
  static void call(Arguments... arguments) {
    (type_of(arguments...) == DataType::bf16 ? kOfBf16 : avx512::kTable.*kMember)(arguments...);
  }
};
#define MILLRACE_MAPS(name) ByType<&Kernels::name, &name>::call
#else
#define MILLRACE_MAPS(name) name
#endif

#if defined(__AVX512F__)
constexpr bool kBf16 = true;
#else
constexpr bool kBf16 = false;
#endif

#if defined(__AVX512BF16__)
constexpr const WinogradKernels* kWinogradBf16 = &kWinograd;
#else
constexpr const WinogradKernels* kWinogradBf16 = nullptr;
#endif
#if defined(__AVX512F__)
constexpr const WinogradKernels* kWinogradF32 = &avx512::kWinograd;
#else
constexpr const WinogradKernels* kWinogradF32 = &avx2::kWinograd;
#endif

}  // namespace

constinit const Kernels kTable{
    {.batch_statistics = MILLRACE_MAPS(batch_statistics),
     .normalise = MILLRACE_MAPS(normalise),
     .normalise_backward_sums = MILLRACE_MAPS(normalise_backward_sums),
     .normalise_backward = MILLRACE_MAPS(normalise_backward),
     .normalise_backward_unpool = MILLRACE_MAPS(normalise_backward_unpool)},
    {.max_pool = MILLRACE_MAPS(max_pool),
     .max_pool_backward = MILLRACE_MAPS(max_pool_backward),
     .average_pool = MILLRACE_MAPS(average_pool),
     .average_pool_backward = MILLRACE_MAPS(average_pool_backward)},
    {.depthwise = MILLRACE_MAPS(depthwise),
     .depthwise_backward_data = MILLRACE_MAPS(depthwise_backward_data),
     .depthwise_backward_weights = MILLRACE_MAPS(depthwise_backward_weights)},
    {.activate = MILLRACE_MAPS(activate),
     .activate_backward = MILLRACE_MAPS(activate_backward),
     .add = MILLRACE_MAPS(add),
     .scale = MILLRACE_MAPS(scale),
     .fill_zero = MILLRACE_MAPS(fill_zero)},
    {.lrn = MILLRACE_MAPS(lrn), .lrn_backward = MILLRACE_MAPS(lrn_backward)},
    {.blend = blend, .sum = sum, .to_bf16 = to_bf16, .to_f32 = to_f32},
    MILLRACE_TEXT(MILLRACE_ISA),
    kBf16,
    kWinogradBf16,
    kWinogradF32,
};

}  // namespace millrace::cpu::MILLRACE_ISA
