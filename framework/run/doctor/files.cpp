// Files of samples: those that are missing, those that changed since the checkpoint, and names of files made from theirs.
#include <fmt/format.h>

#include "millrace/batch.h"
#include "millrace/error.h"
#include "millrace/source.h"
#include "millrace/util/bad_sample_budget.h"
#include "millrace/util/file_sizes.h"
#include "run/doctor/doctor.h"
#include "sampling/sample_order.h"
#include "stages/contents.h"

namespace millrace {
namespace {

// Throws if an epoch lacks more files than its batches' budget of bad samples: the run would end within its first epoch.
void refuse_missing_files(const GraphBuild& build) {
  const auto* const files = dynamic_cast<const KnowsFileSizes*>(build.data().source);
  const HasBadSampleBudget* const budget = budget_of(build);
  if (files == nullptr || budget == nullptr) return;
  const SampleOrder order(*build.data().source, 0);
  std::uint64_t missing = 0, first = 0;
  for (std::uint64_t at = 0; at < order.listed(); ++at) {
    if (files->is_missing(order.listed(at)) && missing++ == 0) first = order.listed(at);
  }
  if (missing <= budget->bad_sample_budget()) return;
  Sample sample;
  const std::string fault = build.data().read_sample(first, sample);
  const std::string key = fmt::format("{}.{}.bad_sample_budget", build.plan().name, build.data().batcher->name);
  fail(ErrorKind::data,
       "{}: {} of the {} files cannot be read, more than the {} bad samples that an epoch may have; the first: {}. Restore them, "
       "remove them from the list, or allow as many: --set {}={}",
       place_of_source(build), missing, order.listed(), budget->bad_sample_budget(),
       fault.empty() ? fmt::format("'{}' exists now", sample.place()) : fault, key, missing);
}

// Throws if a sink would name two files alike.
void refuse_file_names(const GraphBuild& build, std::uint64_t seed) {
  const Source* const source = build.data().source;
  for (std::size_t s = 0; source != nullptr && s < build.stages().size(); ++s) {
    const auto* const sink = dynamic_cast<const NamesFilesAfterSamples*>(build.stages()[s].front().get());
    if (sink == nullptr) continue;
    const SampleOrder order(*source, seed);
    SampleOrigin origin;
    std::uint64_t at = 0;
    try {
      sink->check_names([&](Predictions::Sample& sample) {
        if (at == order.listed()) return false;
        sample.key.index = order.listed(at++);
        if (!source->place(sample.key.index, origin)) return false;
        sample.url.assign(origin.url);
        sample.member.assign(origin.member);
        return true;
      });
    } catch (Error& error) {
      throw error.in(place_of(build.plan().stages[s], build.plan()));
    }
  }
}

}  // namespace

void check_missing_files(const PreparedRun& run, const Doubt&) {
  for (const auto& build : run.builds) refuse_missing_files(*build);
}

// Two equal names would end the run in its first pass, perhaps after hours.
void check_file_names(const PreparedRun& run, const Doubt&) {
  for (const auto& build : run.builds) refuse_file_names(*build, static_cast<std::uint64_t>(run.pipeline.run.seed));
}

void check_changed_data(const PreparedRun& run, const Doubt& doubt) {
  for (const auto& build : run.builds) {
    const SavedState::Contents* const then = contents_then(run, *build);
    const auto now = then != nullptr ? run.contents.find(name_of_source(*build)) : run.contents.end();
    const std::string changed = now != run.contents.end() ? difference_of_contents(*build, *then, now->second) : "";
    if (changed.empty()) continue;
    doubt(fmt::format("{}: the data have changed since the checkpoint '{}': {} than then; the run resumes with the current data",
                      place_of_source(*build), run.resume_point->path.string(), changed));
  }
}

}  // namespace millrace
