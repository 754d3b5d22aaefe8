#include "run/doctor/doctor.h"

#include <utility>

namespace millrace {
namespace {

enum class On : std::uint8_t { first_rank, each_rank };

struct Entry {
  Known known;
  On ranks;  // each: the check refuses runs, or its finding depends on the machine
  Check* check;
};

// clang-format off
// In this order.
constexpr Entry kChecks[] = {
    {Known::weights, On::each_rank, check_processes},
    {Known::weights, On::first_rank, check_ignored_weights},
    {Known::weights, On::first_rank, check_frozen_layers},

    {Known::data, On::first_rank, check_class_names},  // may explain why a later check refuses the run
    {Known::data, On::each_rank, check_missing_files},
    {Known::data, On::each_rank, check_meaning_of_classes},
    {Known::data, On::each_rank, check_weights},
    {Known::data, On::each_rank, check_memory_limit},
    {Known::data, On::first_rank, check_losses},
    {Known::data, On::first_rank, check_class_counts},
    {Known::data, On::first_rank, check_mirrors},
    {Known::data, On::first_rank, check_same_files},
    {Known::data, On::first_rank, check_image_sizes},
    {Known::data, On::first_rank, check_results},

    {Known::plan, On::each_rank, check_batches},
    {Known::plan, On::each_rank, check_metrics},
    {Known::plan, On::each_rank, check_on_nan},
    {Known::plan, On::each_rank, check_file_names},
    {Known::plan, On::first_rank, check_unused_settings},
    {Known::plan, On::first_rank, check_changed_data},
    {Known::plan, On::first_rank, check_class_weights},

    {Known::memory, On::first_rank, check_seen_part},
    {Known::memory, On::first_rank, check_label_values},

    {Known::graphs, On::each_rank, check_memory},
    {Known::graphs, On::first_rank, check_unlike_images},
};
// clang-format on

}  // namespace

void examine(PreparedRun& run, Known known) {
  const Doubt doubt = [&run](std::string text) {
    if (!text.empty()) run.audience.warn(std::move(text));
  };
  for (const Entry& each : kChecks) {
    if (each.known == known && (each.ranks == On::each_rank || run.options.is_first())) each.check(run, doubt);
  }
}

}  // namespace millrace
