#include "groups.h"

#include <set>

#include "millrace/error.h"
#include "millrace/pattern.h"

namespace millrace {

void GroupParams::describe(ParamSet<GroupParams>& set) {
  using P = GroupParams;
  set.add("match", &P::match).required().text("names of parameters; * stands for any text, ? for one character");
  set.add("rate_factor", &P::rate_factor).range(0).text("multiplies the learning rate");
  set.add("decay_factor", &P::decay_factor).range(0).text("multiplies the weight decay");
  set.add("until_epoch", &P::until_epoch).range(0).unit("epochs").text("from then on they stay as they are; 0: never");
}

Groups::Groups(const std::vector<GroupParams>& groups, const Network& network) {
  const GroupParams none;
  std::vector<const GroupParams*> owners;
  std::set<const GroupParams*> used;
  std::set<double> begins = {0};
  for (const Parameter& parameter : network.parameters) {
    const GroupParams* owner = nullptr;
    for (const GroupParams& group : groups) {
      if (!matches(group.match, parameter.name)) continue;
      used.insert(&group);
      if (!owner) owner = &group;
    }
    owners.push_back(owner ? owner : &none);
    decay_.push_back(parameter.statistic ? 0 : parameter.decay_factor * owners.back()->decay_factor);
    begins.insert(owners.back()->until_epoch);
  }
  for (const GroupParams& group : groups) {
    if (used.count(&group)) continue;
    fail(ErrorKind::usage, "groups: match = \"{}\" fits none of the network's {} parameters{}", group.match,
         network.parameters.size(),
         network.parameters.empty() ? "" : fmt::format(", whose names are such as \"{}\"", network.parameters.front().name));
  }
  for (const double begin : begins) {
    Phase& phase = phases_.emplace_back(Phase{begin, {}});
    for (std::size_t i = 0; i < owners.size(); ++i) {
      const bool over = owners[i]->until_epoch > 0 && begin >= owners[i]->until_epoch;
      phase.factors.push_back(over ? 0 : network.parameters[i].rate_factor * owners[i]->rate_factor);
    }
  }
}

const std::vector<double>& Groups::rate_factors(double epoch) const {
  const Phase* current = &phases_.front();
  for (const Phase& phase : phases_) {
    if (epoch >= phase.begin) current = &phase;
  }
  return current->factors;
}

}  // namespace millrace
