// What a run was, beside the weights that it has left: card.md.
#pragma once

#include <string>

#include "run/run_context.h"
#include "run/run_result.h"

namespace millrace {

// Markdown: the network, the data with counts and hashes, figures, the recipe, versions and the command. Names of classes, files
// and runs stand in it as text, whatever is in them.
std::string model_card(const RunContext& run, const RunResult& result);

// Text of one line that Markdown and HTML take for nothing else.
std::string markdown_text(std::string_view text);
// A block of code in which any text stands as it is.
std::string code_block(std::string_view language, std::string_view text);

}  // namespace millrace
