// The description of a run next to its weights: card.md.
#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/difference.h"
#include "run/run_context.h"
#include "run/ended.h"

namespace millrace {

// Where a run lies, and when this process has begun with it.
struct CardPlace {
  std::filesystem::path folder;
  std::time_t began = 0;
};

// Markdown: when and how long the run was, figures and of which weights they are, how to predict with them, the network, the data
// with counts and hashes, versions, the command and the recipe. Names of classes, files and runs stand in it as text, whatever is
// in them.
std::string model_card(const RunContext& run, Ended result, const CardPlace& asked);

// Its parts that are functions of values.

std::string utc_text(std::time_t time);  // "2026-01-01T00:00:00Z"
// "32, from step 17 to 48: 2 epochs".
std::string steps_text(const Ended& result, std::uint64_t steps_per_epoch);
// A table of the metrics, each with the weights that it was measured with. `best_file` holds the best ones.
std::string figures_table(const Ended& result, const std::string& best_file);
// A table of the keys that changed when the run was resumed after `step`; "": none.
std::string changes_table(const std::vector<Difference>& changes, std::uint64_t step);

// Text of one line that Markdown and HTML take for nothing else.
std::string markdown_text(std::string_view text);
// A block of code in which any text stands as it is.
std::string code_block(std::string_view language, std::string_view text);

}  // namespace millrace
