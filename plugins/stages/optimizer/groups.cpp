#include "groups.h"

#include <algorithm>
#include <set>

#include "millrace/backend/buckets.h"
#include "millrace/error.h"
#include "millrace/util/pattern.h"

namespace millrace {

void GroupParams::describe(ParamSet<GroupParams>& set) {
  using P = GroupParams;
  set.add("match", &P::match).or_one().text("names of parameters or layers; * matches any text, ? one character");
  set.add("vectors", &P::vectors).text("match all biases, and all scales and shifts of normalisation");
  set.add("type", &P::optimizer).text("the group's own optimizer; its keys belong in this table too");
  set.add("rate_factor", &P::rate_factor).range(0).text("factor on the learning rate");
  set.add("decay_factor", &P::decay_factor).range(0).text("factor on the weight decay");
  set.add("until_epoch", &P::until_epoch)
      .range(0)
      .unit("epochs")
      .text("freezes them from this epoch; leading frozen layers need no backward; 0: never");
}

namespace {

bool is_vector(const Parameter& parameter) { return parameter.shape.rank() <= 1; }

// A pattern matches parameters, or a layer or block with all its contents.
bool fits(const std::string& pattern, const std::string& name) {
  return matches(pattern, name) || name.starts_with(pattern + ".");
}

bool takes(const GroupParams& group, const Parameter& parameter) {
  if (group.vectors && is_vector(parameter)) return true;
  return std::ranges::any_of(group.match, [&](const std::string& pattern) { return fits(pattern, parameter.name); });
}

// `number`: index among all groups, from 0.
void check(const GroupParams& group, std::size_t number, const Network& network) {
  const auto& parameters = network.parameters;
  if (group.match.empty() && !group.vectors) {
    fail(ErrorKind::usage, "groups[{}]: a group needs match = \"a pattern of names\" or vectors = true", number);
  }
  if (group.vectors && std::ranges::none_of(parameters, is_vector)) {
    fail(ErrorKind::usage, "groups[{}].vectors: matches none of the network's {} parameters", number, parameters.size());
  }
  for (const std::string& pattern : group.match) {
    if (std::ranges::any_of(parameters, [&](const Parameter& each) { return fits(pattern, each.name); })) continue;
    fail(ErrorKind::usage, "groups[{}].match: \"{}\" matches none of the network's {} parameters{}", number, pattern,
         parameters.size(), parameters.empty() ? "" : fmt::format(", which have names such as \"{}\"", parameters.front().name));
  }
}

}  // namespace

Groups::Groups(const std::vector<GroupParams>& groups, const Network& network) {
  const GroupParams none;
  std::vector<const GroupParams*> owners;
  std::set<double> begins = {0};
  for (std::size_t g = 0; g < groups.size(); ++g) check(groups[g], g, network);
  for (const Parameter& parameter : network.parameters) {
    const auto found = std::ranges::find_if(groups, [&](const GroupParams& group) { return takes(group, parameter); });
    group_of_.push_back(found == groups.end() ? -1 : static_cast<int>(found - groups.begin()));
    owners.push_back(found == groups.end() ? &none : &*found);
    decay_.push_back(parameter.statistic ? 0 : parameter.decay_factor * owners.back()->decay_factor);
    begins.insert(owners.back()->until_epoch);
    const double until = owners.back()->until_epoch > 0 ? owners.back()->until_epoch : kToTheEnd;
    learns_until_.push_back(parameter.rate_factor * owners.back()->rate_factor == 0 ? 0 : until);
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    bool trains = false;
    for (std::size_t i = 0; i < owners.size(); ++i) trains |= owners[i] == &groups[g] && network.parameters[i].trainable;
    if (!trains) frozen_.push_back(g);
    if (std::ranges::find(owners, &groups[g]) != owners.end()) continue;
    fail(ErrorKind::usage, "groups[{}]: gets no parameter: earlier groups take all that it matches", g);
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
