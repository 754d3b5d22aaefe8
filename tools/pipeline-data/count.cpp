// pipeline-data count: number of samples per class.
#include <fmt/format.h>

#include <map>
#include <string>

#include "data_parts.h"
#include "millrace/error.h"
#include "verbs.h"

namespace millrace {

int count_verb(int count, const char* const* arguments) {
  DataSetOptions options;
  std::vector<std::string> rest;
  Arguments reader(
      "pipeline-data count", "PIPELINE.toml [options]",
      "Counts the samples of each label, after `only`, `part` and `limit`. Reads images only for labels inside them.\n"
      "(Classes of pixels and columns of numbers: pipeline-data statistics.)");
  options.declare(reader);
  if (!reader.read(count, arguments, rest)) return 0;
  options.file = only_file(rest, "pipeline-data count");
  options.whole = options.graph.empty();
  const DataSet data(options, DataSet::Stages::source);
  warn_of_other_parts(data, options);
  const SampleOrder& order = data.line().order();
  std::map<std::int32_t, std::uint64_t> counts;
  const bool of_pixels = data.build().data().target.kind == TargetSpec::Kind::classes;
  for (std::size_t label = 0; label < order.classes().size() && !of_pixels; ++label) counts[static_cast<std::int32_t>(label)] = 0;
  for (std::uint64_t at = 0; at < order.listed(); ++at) ++counts[order.label(data.line().source().label(order.listed(at)))];
  fmt::print("{:>6}  {:<32} {:>10} {:>8}\n", "label", "class", "samples", "share");
  for (const auto& [label, samples] : counts) {
    const bool has_map = label < 0 && of_pixels;
    fmt::print("{:>6}  {:<32} {:>10} {:>7.2f}%\n", has_map ? "" : std::to_string(label),
               has_map ? "label images: see `statistics`" : data.class_name(label), samples,
               100.0 * static_cast<double>(samples) / static_cast<double>(order.listed()));
  }
  fmt::print("{:>6}  {:<32} {:>10}\n", "", "in all", order.listed());
  if (order.size() != order.listed()) fmt::print("{:>6}  {:<32} {:>10}\n", "", "positions of an epoch", order.size());
  return 0;
}

}  // namespace millrace
