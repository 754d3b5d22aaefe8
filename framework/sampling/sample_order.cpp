#include "sampling/sample_order.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "millrace/detail/random.h"
#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/source.h"
#include "millrace/util/file_sizes.h"
#include "millrace/util/source_parts.h"

namespace millrace {

SampleOrder::SampleOrder(const Source& source, std::uint64_t seed)
    : sampling_(source.sampling()), seed_(seed), all_(source.size()), classes_(source.classes()) {
  if (all_ > std::numeric_limits<std::uint32_t>::max()) fail(ErrorKind::data, "{} samples: at most 2^32 - 1 are supported", all_);
  const Range part = sampling_.part;
  if (!(part.low >= 0 && part.low < part.high && part.high <= 1)) {
    fail(ErrorKind::usage, "part: expected [from, to] with 0 <= from < to <= 1, found [{}, {}]", part.low, part.high);
  }
  if (!sampling_.only.empty()) choose_classes(source);
  if (part.low > 0 || part.high < 1) {
    choose_part(source);
    if (source.size() > 0 && listed() == 0) {
      const bool each_its_own = classes_.size() > 1 && classes_.size() == source.size();
      fail(ErrorKind::data, "no sample is left of {} in a part of {:.2g}: {}", source.size(), part.high - part.low,
           each_its_own ? "each has a class of its own, so is the column of labels the right one?" : "widen `part`");
    }
  }
  if (sampling_.limit && static_cast<std::uint64_t>(*sampling_.limit) < listed())
    limit(static_cast<std::uint64_t>(*sampling_.limit));
  if (listed() == 0) fail(ErrorKind::data, "no sample is left of {}: check `only`, `part` and `limit`", source.size());
  size_ = listed();
  const bool by_class = sampling_.balance || !sampling_.class_weights.empty();
  if (by_class) {
    group_by_class(source);
  } else if (!parts_of(source).empty()) {
    group_by_part(source);
  }
}

void SampleOrder::materialise() {
  if (all_ == 0) return;
  chosen_.resize(all_);
  std::iota(chosen_.begin(), chosen_.end(), 0U);
  all_ = 0;
}

void SampleOrder::choose_classes(const Source& source) {
  labels_.assign(classes_.size(), -1);
  std::map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < classes_.size(); ++i) places.emplace(classes_[i], i);
  for (std::size_t label = 0; label < sampling_.only.size(); ++label) {
    const std::string& name = sampling_.only[label];
    const auto at = places.find(name);
    if (at == places.end()) {
      const auto near = nearest_name(name, classes_);
      fail(ErrorKind::usage, "only: unknown class '{}'{}", name, near ? fmt::format("; nearest is '{}'", *near) : "");
    }
    std::int32_t& mapped = labels_[at->second];
    if (mapped >= 0) fail(ErrorKind::usage, "only: class '{}' is listed twice", name);
    mapped = static_cast<std::int32_t>(label);
  }
  classes_ = sampling_.only;
  materialise();
  if (std::all_of(chosen_.begin(), chosen_.end(), [&](std::uint32_t index) { return source.label(index) < 0; })) {
    fail(ErrorKind::usage, "only: no sample here has a class that is known without reading it");
  }
  std::erase_if(chosen_, [&](std::uint32_t index) { return label(source.label(index)) < 0; });
}

namespace {

// Samples of one file, such as lines of a list: each with the first sample of that file, unless it is that sample. Sorted by the
// first.
using Followers = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

Followers followers_in(const Source& source, const std::vector<std::uint32_t>& samples) {
  const auto* const sizes = dynamic_cast<const KnowsFileSizes*>(&source);
  if (sizes == nullptr) return {};
  std::vector<std::pair<std::uint64_t, std::uint32_t>> files;  // by hash
  SampleOrigin origin;
  for (const std::uint32_t index : samples) {
    if (sizes->file_bytes(index) == 0 || !source.place(index, origin)) continue;
    const bool is_local = origin.url.find("://") == origin.url.npos && origin.url.find("./") != origin.url.npos;
    const std::string url = is_local ? std::filesystem::path(origin.url).lexically_normal().string() : origin.url;
    files.emplace_back(combine(hash_text(url), hash_text(origin.member)), index);
  }
  std::ranges::sort(files);
  Followers followers;
  for (std::size_t at = 1, first = 0; at < files.size(); ++at) {
    if (files[at].first != files[first].first)
      first = at;
    else
      followers.emplace_back(files[first].second, files[at].second);
  }
  std::ranges::sort(followers);
  return followers;
}

}  // namespace

// Splits each class by a permutation of its own, so that every part has every class in proportion. Samples of one file follow the
// first of them, whatever their labels.
void SampleOrder::choose_part(const Source& source) {
  materialise();
  const Followers followers = followers_in(source, chosen_);
  std::vector<std::uint32_t> follow;
  for (const auto& [first, index] : followers) follow.push_back(index);
  std::ranges::sort(follow);
  std::map<std::int32_t, std::vector<std::uint32_t>> by_label;
  for (const std::uint32_t index : chosen_) {
    if (!std::ranges::binary_search(follow, index)) by_label[source.label(index)].push_back(index);
  }
  chosen_.clear();
  for (const auto& [label, members] : by_label) {
    const Permutation permutation(members.size(), combine(static_cast<std::uint64_t>(sampling_.part_seed), hash_text("part")),
                                  static_cast<std::uint64_t>(label));
    // A part at either end that covers two samples or more has at least one, and leaves one.
    const auto bound = [size = members.size()](double fraction) {
      const auto nearest = static_cast<std::uint64_t>(std::llround(fraction * static_cast<double>(size)));
      return size < 2 || fraction <= 0 || fraction >= 1 ? nearest : std::clamp<std::uint64_t>(nearest, 1, size - 1);
    };
    for (std::uint64_t at = bound(sampling_.part.low); at < bound(sampling_.part.high); ++at)
      chosen_.push_back(members[permutation(at)]);
  }
  std::sort(chosen_.begin(), chosen_.end());
  std::vector<std::uint32_t> more;
  for (const auto& [first, index] : followers) {
    if (std::ranges::binary_search(chosen_, first)) more.push_back(index);
  }
  chosen_.insert(chosen_.end(), more.begin(), more.end());
  std::sort(chosen_.begin(), chosen_.end());
}

void SampleOrder::limit(std::uint64_t most) {
  const std::uint64_t have = listed();
  std::vector<std::uint32_t> kept(most);
  for (std::uint64_t i = 0; i < most; ++i) kept[i] = static_cast<std::uint32_t>(listed(i * have / most));
  chosen_ = std::move(kept);
  all_ = 0;
}

void SampleOrder::group_by_class(const Source& source) {
  const std::vector<double>& weights = sampling_.class_weights;
  if (sampling_.balance && !weights.empty()) fail(ErrorKind::usage, "balance and class_weights exclude each other: choose one");
  if (!parts_of(source).empty()) fail(ErrorKind::usage, "a mixture has weights of its own: leave out balance and class_weights");
  if (!weights.empty() && weights.size() != classes_.size()) {
    fail(ErrorKind::usage, "class_weights: expected one for each of the {} classes, found {}", classes_.size(), weights.size());
  }
  std::vector<std::vector<std::uint32_t>> by_label(classes_.size());
  for (std::uint64_t i = 0; i < listed(); ++i) {
    const auto index = static_cast<std::uint32_t>(listed(i));
    const std::int32_t at = label(source.label(index));
    if (at < 0 || static_cast<std::size_t>(at) >= by_label.size()) {
      fail(ErrorKind::usage, "balance: sample {} has no class that is known without reading it", index);
    }
    by_label[static_cast<std::size_t>(at)].push_back(index);
  }
  std::vector<double> shares;
  for (std::size_t at = 0; at < by_label.size(); ++at) {
    if (by_label[at].empty()) continue;
    groups_.push_back({members_.size(), by_label[at].size(), 0, 0});
    members_.insert(members_.end(), by_label[at].begin(), by_label[at].end());
    shares.push_back(weights.empty() ? 1.0 : weights[at]);
  }
  share_out(shares);
}

void SampleOrder::group_by_part(const Source& source) {
  std::vector<double> shares;
  std::uint64_t end = 0, at = 0;
  for (const SourcePart& part : parts_of(source)) {
    end += part.size;
    const std::uint64_t begin = at;
    while (at < listed() && listed(at) < end) ++at;
    if (at == begin) continue;
    groups_.push_back({begin, at - begin, 0, 0});
    shares.push_back(part.weight);
  }
  if (!all_) members_ = chosen_;
  share_out(shares);
}

void SampleOrder::share_out(const std::vector<double>& weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (!(total > 0) || !std::isfinite(total) || std::any_of(weights.begin(), weights.end(), [](double w) { return w < 0; })) {
    fail(ErrorKind::usage, "{}: all must be >= 0, and at least one > 0",
         sampling_.class_weights.empty() ? "weight" : "class_weights");
  }
  std::vector<std::pair<double, std::size_t>> remainders;
  std::vector<std::uint64_t> counts;
  std::uint64_t given = 0;
  for (std::size_t g = 0; g < weights.size(); ++g) {
    const double share = static_cast<double>(size_) * weights[g] / total;
    counts.push_back(static_cast<std::uint64_t>(share));
    given += counts.back();
    remainders.emplace_back(static_cast<double>(counts.back()) - share, g);
  }
  std::sort(remainders.begin(), remainders.end());
  for (std::size_t i = 0; given < size_; ++i, ++given) ++counts[remainders[i % remainders.size()].second];
  std::uint64_t position = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    groups_[g].first = position;
    groups_[g].last = position += counts[g];
  }
}

std::uint64_t SampleOrder::permuted(std::uint64_t epoch, std::uint64_t count, std::uint64_t at, std::uint64_t salt) const {
  if (sampling_.shuffle == "never") return at;
  const std::uint64_t seed = salt == 0 ? seed_ : combine(seed_, salt);
  return Permutation(count, seed, sampling_.shuffle == "once" ? 0 : epoch)(at);
}

std::uint64_t SampleOrder::index(std::uint64_t epoch, std::uint64_t position) const {
  const std::uint64_t at = permuted(epoch, size_, position, 0);
  if (groups_.empty()) return listed(at);
  const auto group =
      std::upper_bound(groups_.begin(), groups_.end(), at, [](std::uint64_t p, const Group& g) { return p < g.last; });
  const std::uint64_t turn = (at - group->first) / group->count;  // a group smaller than its share wraps around
  const auto number = static_cast<std::uint64_t>(group - groups_.begin()) + 1;
  const std::uint64_t member = permuted(epoch, group->count, (at - group->first) % group->count, combine(number, turn));
  return members_.empty() ? group->begin + member : members_[group->begin + member];
}

std::uint64_t SampleOrder::replacement(std::uint64_t epoch, std::uint64_t drawn) const {
  return groups_.empty() ? listed(drawn) : index(epoch, drawn);
}

std::int32_t SampleOrder::label(std::int32_t of_source) const {
  if (labels_.empty()) return of_source;
  return of_source >= 0 && static_cast<std::size_t>(of_source) < labels_.size() ? labels_[static_cast<std::size_t>(of_source)]
                                                                                : -1;
}

}  // namespace millrace
