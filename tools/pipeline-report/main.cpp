// pipeline-report: compares runs by the files in their folders.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "common/arguments.h"
#include "millrace/error.h"
#include "millrace/util/output_file.h"
#include "millrace/util/standard_error.h"
#include "millrace/util/text.h"
#include "report.h"
#include "run_record.h"

namespace millrace {
namespace {

int report(int argc, char** argv) {
  std::string sort, html;
  std::vector<std::string> named;
  Arguments arguments("pipeline-report", "RUN... [options]",
                      "Compares the metrics of runs, and their pipeline files.\n"
                      "RUN is a run's folder, or one that holds several, such as runs/NAME.");
  arguments.option("--sort", "FIGURE", "best first by this metric: accuracy, validate.loss, seconds, name", sort)
      .option("--html", "FILE", "also write a page with all curves overlaid", html);
  if (!arguments.read(argc, argv, named)) return 0;
  if (named.empty()) fail(ErrorKind::usage, "the folder of a run is needed; see pipeline-report --help");
  std::vector<RunRecord> runs;
  for (const auto& folder : run_folders(named)) runs.push_back(read_run(folder));
  for (const RunRecord& run : runs) {
    if (run.unread_lines == 0) continue;
    print_to_stderr("warning: '{}': {} lines of metrics.jsonl cannot be read, and are left out\n", run.folder.string(),
                    run.unread_lines);
  }
  if (!sort.empty()) sort_runs(runs, sort);
  fmt::print("{}", terminal_text(runs_table(runs, sort)));
  if (const std::string different = differences_table(runs); !different.empty()) {
    fmt::print("\nwhat differs in their files:\n{}", terminal_text(different));
  }
  if (html.empty()) return 0;
  OutputFile file(html);
  file.write(comparison_page(runs));
  file.commit();
  print_to_stderr("page: {}\n", html);
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  return millrace::run_tool("pipeline-report", [&] { return millrace::report(argc, argv); });
}
