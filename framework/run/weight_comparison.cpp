#include "run/weight_comparison.h"

#include <fmt/format.h>

#include "files/crc64.h"
#include "millrace/util/wire.h"

namespace millrace {

bool compares_weights_after(const RunContext& run, std::uint64_t done) {
  const auto every = static_cast<std::uint64_t>(run.pipeline().run.compare_replicas);
  return every > 0 && done % every == 0 && run.prepared.replicas.all() > 1;
}

std::string differing_weights(const std::vector<std::vector<std::uint64_t>>& checksums, const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t replica = 1; replica < checksums.size(); ++replica) {
    std::size_t differing = 0, first = 0;
    for (std::size_t p = 0; p < names.size(); ++p) {
      if (checksums[replica][p] != checksums[0][p] && differing++ == 0) first = p;
    }
    if (differing == 0) continue;
    text += fmt::format("{}replica {}: {}", text.empty() ? "" : "; ", replica, names[first]);
    if (differing > 1) text += fmt::format(" and {} more", differing - 1);
  }
  return text;
}

void require_same_weights(const RunContext& run, std::uint64_t done) {
  const std::vector<Parameter>& parameters = run.pipeline().network->parameters;
  std::vector<std::string> names;
  std::vector<std::vector<std::uint64_t>> all(run.replicas().size());
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    if (parameters[p].statistic) continue;  // each replica has those of its own samples
    names.push_back(parameters[p].name);
    for (std::size_t r = 0; r < all.size(); ++r) {
      const std::vector<float> values = run.replicas()[r]->read(kValue, static_cast<int>(p));
      Crc64 sum;
      sum.add(values.data(), values.size() * sizeof(float));
      all[r].push_back(sum.value());
    }
  }
  if (Group* const group = run.options().group; group != nullptr) {
    WireWriter mine;
    for (const auto& each : all) mine.put(each);
    all.clear();
    for (const auto& bytes : group->all_gather(Group::kRun, mine.bytes())) {
      for (WireReader reader(bytes); !reader.is_done();) all.push_back(reader.list<std::uint64_t>());
    }
  }
  const std::string found = differing_weights(all, names);
  if (found.empty()) return;
  fail(ErrorKind::device,
       "after step {} the weights differ from those of replica 0 ({}): one of these devices or its memory computes wrongly (that "
       "of replica 0 if all others are named), or a stage after 'allreduce' acts differently on the replicas",
       done, found);
}

}  // namespace millrace
