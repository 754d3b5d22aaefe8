// Classes that are probably a mistake: named like parts of a data set, unknown to training, without samples, or rare.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string_view>

#include "millrace/backend/network.h"
#include "millrace/error.h"
#include "millrace/loss.h"
#include "millrace/util/data_names.h"
#include "millrace/util/source_parts.h"
#include "millrace/util/text.h"
#include "run/doctor/doctor.h"
#include "sampling/sample_order.h"

namespace millrace {
namespace {

constexpr std::size_t kClassesNamed = 5, kMaxOthersNamed = 10;  // maxima in a message

// Whether all are typical names of a data set's parts: train2017 and val2017, seg_train and seg_test, fold1 and fold2.
bool are_names_of_parts(const std::vector<std::string>& names) {
  const auto first = names.empty() ? std::nullopt : part_name(names.front());
  return first && std::ranges::all_of(names, [&](const std::string& name) {
           const auto part = part_name(name);
           return part && part->rest == first->rest;
         });
}

// Typical folder names for images and their label images.
bool is_name_of_pairs(std::string_view name) {
  constexpr std::array<std::string_view, 13> kFolders{"images",     "image",   "imgs",        "img", "masks",
                                                      "mask",       "labels",  "label",       "gt",  "annotations",
                                                      "annotation", "targets", "ground_truth"};
  return std::ranges::find(kFolders, lower_case(name)) != kFolders.end();
}

// Whether the graph trains with a loss of this kind.
bool learns_by(const GraphBuild& build, const Network* network, LossTarget target) {
  if (network == nullptr || !build.trains()) return false;
  CompileRequest request;
  build.add_requests(request);
  return std::ranges::any_of(request.losses, [target](const auto& each) { return each.loss->info().target == target; });
}

// Whether the file lists the classes.
bool are_meant(const GraphBuild& build) {
  return build.data().source_plan->table.find("classes") != nullptr || !build.data().source->sampling().only.empty();
}

void refuse_parts(const GraphBuild& build) {
  const std::vector<std::string>& classes = build.data().classes;
  if (build.data().class_counts.empty() || are_meant(build)) return;
  if (classes.size() == 2 && std::ranges::all_of(classes, is_name_of_pairs)) {
    fail(ErrorKind::data,
         "{}: its classes are '{}', which are folders of images and of their label images: extends = \"segment\" trains on "
         "those, and read_pairs reads them. If they are meant as classes, name them in `classes`",
         place_of_source(build), fmt::join(classes, "' and '"));
  }
  if (!are_names_of_parts(classes)) return;
  const bool one = classes.size() == 1;
  fail(ErrorKind::data,
       "{}: its class{} '{}', which {} of a data set: is `path` one level too high, or the label in another column? If they are "
       "meant, name them in `classes`",
       place_of_source(build), one ? " is" : "es are", fmt::join(classes, "', '"), one ? "is a part" : "are parts");
}

void refuse_one_class(const GraphBuild& build) {
  const std::vector<std::uint64_t>& counts = build.data().class_counts;
  const auto has_samples = [](std::uint64_t count) { return count > 0; };
  if (std::ranges::count_if(counts, has_samples) != 1) return;
  const auto label = static_cast<std::size_t>(std::ranges::find_if(counts, has_samples) - counts.begin());
  fail(ErrorKind::data,
       "{}: all {} samples are of class '{}': a network learns to distinguish classes. Add a second one, such as images that "
       "show something else",
       place_of_source(build), counts[label], line_text(build.data().classes[label]));
}

std::string outputs_without_class(const GraphBuild& build, const Network* network) {
  if (!learns_by(build, network, LossTarget::classes) && !learns_by(build, network, LossTarget::labels)) return {};
  const auto classes = static_cast<std::int64_t>(build.data().class_counts.size());
  const std::int64_t outputs = network->output()[0];
  if (classes == 0 || outputs <= classes) return {};
  return fmt::format(
      "{}: there are {} classes, but the network has outputs for {}: the others are never right, and have no name. Set its "
      "number of classes, in most networks --set network.classes={}",
      place_of_source(build), classes, outputs, classes);
}

// A folder of test images among class folders, whose images have no class of their own. A single class `train` may be a vehicle.
std::string part_among_classes(const GraphBuild& build) {
  for (const std::string& name : build.data().classes) {
    const auto part = part_name(name);
    if (!part || part->part != DataPart::validate || !part->is_word || are_meant(build)) continue;
    return fmt::format(
        "{}: class '{}' is named as a part of a data set, and its images are learned as a class like any other: move them "
        "elsewhere, or name all classes in `classes` if it is one",
        place_of_source(build), line_text(name));
  }
  return {};
}

// "class 'cat' has", "3 of the 10 classes ('cat', 'cow', 'dog') have"
std::string classes_have(const std::vector<std::string>& some, std::size_t all) {
  if (some.size() == 1) return fmt::format("class '{}' has", some.front());
  const std::vector<std::string> first(some.begin(),
                                       some.begin() + static_cast<std::ptrdiff_t>(std::min(some.size(), kClassesNamed)));
  return fmt::format("{} of the {} classes ('{}'{}) have", some.size(), all, fmt::join(first, "', '"),
                     first.size() < some.size() ? ", ..." : "");
}

// The class with the fewest chosen samples, if it is rare compared with the largest.
std::string imbalance(const GraphBuild& build, const std::vector<std::uint64_t>& chosen) {
  constexpr std::uint64_t kRare = 20;  // fewer than the largest by this factor
  const SourceParams& sampling = build.data().source->sampling();
  if (chosen.empty() || sampling.balance || !sampling.class_weights.empty()) return {};
  std::size_t least = chosen.size(), most = 0;
  std::size_t rare = 0;
  for (std::size_t label = 0; label < chosen.size(); ++label) {
    if (chosen[label] > chosen[most]) most = label;
    if (chosen[label] > 1 && (least == chosen.size() || chosen[label] < chosen[least])) least = label;
  }
  if (least == chosen.size() || chosen[least] * kRare >= chosen[most]) return {};
  for (const std::uint64_t count : chosen) rare += count > 1 && count * kRare < chosen[most] ? 1 : 0;
  return fmt::format(
      "{}: class '{}' has {} samples and '{}' {}{}: the accuracy hardly measures {}. balance = true in this table draws all "
      "classes alike",
      place_of_source(build), line_text(build.data().classes[least]), chosen[least], line_text(build.data().classes[most]),
      chosen[most], rare > 1 ? fmt::format(", and {} more have less than 5 % of that", rare - 1) : "",
      rare > 1 ? "the rare ones" : "the rare one");
}

// Samples of each class after `part`, `limit` and similar keys.
std::vector<std::uint64_t> count_chosen(const GraphBuild& build) {
  const SampleOrder order(*build.data().source, 0);
  std::vector<std::uint64_t> chosen(build.data().class_counts.size());
  for (std::uint64_t at = 0; !chosen.empty() && at < order.listed(); ++at) {
    const std::int32_t label = order.label(build.data().source->label(order.listed(at)));
    if (label >= 0 && static_cast<std::size_t>(label) < chosen.size()) ++chosen[static_cast<std::size_t>(label)];
  }
  return chosen;
}

// The classes with samples, of which this number is chosen.
std::vector<std::string> classes_with(const GraphBuild& build, const std::vector<std::uint64_t>& chosen, std::uint64_t count) {
  std::vector<std::string> names;
  for (std::size_t label = 0; label < chosen.size(); ++label) {
    if (chosen[label] == count && build.data().class_counts[label] > 0) names.push_back(line_text(build.data().classes[label]));
  }
  return names;
}

// Classes with images of which at most one is chosen for training.
void look_at_rare_classes(const GraphBuild& build, const Doubt& doubt) {
  const std::vector<std::uint64_t> chosen = count_chosen(build);
  const std::vector<std::string> none = classes_with(build, chosen, 0), one = classes_with(build, chosen, 1);
  if (!none.empty()) {
    doubt(fmt::format("{}: {} images, but none of them is chosen, so nothing is learned about {}: check `limit` and `part`",
                      place_of_source(build), classes_have(none, chosen.size()), none.size() == 1 ? "it" : "them"));
  }
  doubt(imbalance(build, chosen));
  if (one.empty()) return;
  doubt(fmt::format("{}: {} only one image, which {}", place_of_source(build), classes_have(one, chosen.size()),
                    one.size() == chosen.size() ? "does not define a class: is the label in another column, or part of the name?"
                                                : "a network learns by heart: add images, or leave the class out"));
}

// Classes that another graph does not measure.
std::string classes_left_out(const GraphBuild& build) {
  const std::vector<std::uint64_t> chosen = count_chosen(build);
  const std::vector<std::string> none = classes_with(build, chosen, 0);
  if (none.empty() || none.size() == chosen.size()) return {};
  return fmt::format("{}: {} images, but none of them is chosen, so its figures do not cover {}: check `part` and `limit`",
                     place_of_source(build), classes_have(none, chosen.size()), none.size() == 1 ? "it" : "them");
}

// In a listing sorted by class, each batch has one class, and the network forgets the others. Balanced classes come in this
// order from any listing.
std::string samples_in_order(const GraphBuild& build) {
  if (build.data().source->sampling().shuffle != "never") return {};
  if (build.data().class_counts.size() < 2 || build.data().steps_per_epoch() < 2) return {};
  const SampleOrder order(*build.data().source, 0);
  std::int32_t last = -1;
  for (std::uint64_t at = 0; at < order.size(); ++at) {
    const std::int32_t label = order.label(build.data().source->label(order.index(0, at)));
    if (label < last) return {};
    last = label;
  }
  return fmt::format("{}: samples come class by class, so a batch has images of one or two: shuffle = \"every-epoch\" mixes them",
                     place_of_source(build));
}

// Throws for a class of `other` that `main` does not train and that has no network output.
void refuse_unlearnt_class(const GraphBuild& other, const GraphBuild& main, const Network* network) {
  const bool compares = other.data().source != nullptr && main.data().source != nullptr && network != nullptr && main.trains();
  if (&other == &main || !compares || other.data().target.kind != TargetSpec::Kind::none) return;
  const std::size_t here = other.data().class_counts.size(), there = main.data().class_counts.size();
  if (there == 0 || here <= there || static_cast<std::int64_t>(here) <= network->output()[0]) return;
  std::vector<std::string> unknown;
  const std::set<std::string> known(main.data().classes.begin(), main.data().classes.end());
  for (const std::string& name : other.data().classes) {
    if (!known.contains(name)) unknown.push_back(line_text(name));
  }
  if (unknown.empty()) return;
  const StagePlan& source = *other.data().source_plan;
  const Value* const path = source.table.find("path");
  std::error_code ignored;
  std::string where;
  if (path != nullptr && path->kind() == Value::Kind::text) {
    const std::string folder = fmt::format("{}/{}", path->text(), unknown.front());
    if (std::filesystem::is_directory(folder, ignored)) where = fmt::format(" (folder '{}')", line_text(folder));
  }
  const bool has_key = std::ranges::find(source.type->params, "leave_out", &ParamInfo::name) != source.type->params.end();
  const std::string leaves_out =
      has_key ? fmt::format(": add images of it to [{}], or write leave_out = [\"{}\"] into [{}.{}]", main.plan().name,
                            unknown.front(), other.plan().name, source.name)
              : fmt::format(": add samples of it to [{}], or take it out of [{}]", main.plan().name, other.plan().name);
  fail(ErrorKind::data, "{}: class '{}'{}{} is not in [{}], so the network has no output for it{}", place_of_source(other),
       unknown.front(), where, unknown.size() > 1 ? fmt::format(", one of {} such,", unknown.size()) : "", main.plan().name,
       leaves_out);
}

// Advice for a class of training that this graph lacks.
std::string advice_on_lacking(const std::string& name, const std::vector<std::string>& here,
                              const std::vector<std::string>& all) {
  constexpr std::size_t kMaxNamed = 20;
  if (std::ranges::find(here, name) != here.end()) return {};
  std::string advice =
      fmt::format(". No '{}' is here: if that is intended, give both sources the same `classes`", line_text(name));
  const bool has_others = std::ranges::any_of(here, [&](const auto& each) { return std::ranges::find(all, each) == all.end(); });
  if (has_others || all.size() > kMaxNamed) return advice;
  return advice + line_text(fmt::format(", with data.path by --set 'data.classes=[\"{}\"]'", fmt::join(all, "\", \"")));
}

// Throws if a label does not mean the same in both.
void refuse_other_meaning(const GraphBuild& build, const GraphBuild& main) {
  const std::size_t both = std::min(build.data().class_counts.size(), main.data().class_counts.size());
  for (std::size_t label = 0; label < both; ++label) {
    const std::string &here = build.data().classes[label], &there = main.data().classes[label];
    if (here == there) continue;
    if (looks_equal(here, there)) {
      fail(ErrorKind::usage,
           "{}: class '{}' is '{}' here and '{}' in [{}]: one name in two forms, in large and small letters or in Unicode's NFC "
           "and NFD; rename the folders, or the labels, of one",
           place_of_source(build), line_text(here), escaped_text(here), escaped_text(there), main.plan().name);
    }
    fail(ErrorKind::usage, "{}: label {} is class '{}' here and '{}' in [{}]; both need the same classes in the same order{}",
         place_of_source(build), label, here, there, main.plan().name,
         advice_on_lacking(there, build.data().classes, main.data().classes));
  }
}

// The last classes of `main`, if another graph lacks them or has more. REQUIRES: the others are the same.
std::string other_classes(const GraphBuild& other, const GraphBuild& main) {
  const std::size_t here = other.data().class_counts.size(), there = main.data().class_counts.size(),
                    both = std::min(here, there);
  if (both == 0) return {};
  if (here == there) return &other == &main ? std::string() : classes_left_out(other);
  const std::vector<std::string>& longer = here < there ? main.data().classes : other.data().classes;
  const std::size_t others = longer.size() - both, named = std::min(others, kMaxOthersNamed);
  const auto first = longer.begin() + static_cast<std::ptrdiff_t>(both);
  const std::string names = fmt::format("'{}'{}", fmt::join(first, first + static_cast<std::ptrdiff_t>(named), "', '"),
                                        others > named ? fmt::format(" and {} more", others - named) : "");
  if (here < there) {
    return fmt::format("{} has {} of the {} classes of [{}]: no {}; its figures do not cover the others", place_of_source(other),
                       here, there, main.plan().name, names);
  }
  return fmt::format(
      "{} has {} classes and [{}] {}: no {} there, so nothing is learned about {} and each of its samples counts as a mistake; "
      "`only` leaves classes out",
      place_of_source(other), here, main.plan().name, there, names, others == 1 ? "it" : "them");
}

}  // namespace

void check_meaning_of_classes(const PreparedRun& run, const Doubt&) {
  const Network* const network = run.pipeline.network.get();
  for (const auto& build : run.builds) {
    refuse_unlearnt_class(*build, run.main(), network);
    build->require_targets(run.pipeline.bases.files.empty() ? "" : run.pipeline.place_of("network.use"));
    refuse_other_meaning(*build, run.main());
    if (run.options.only_main || build->data().source == nullptr || !learns_by(*build, network, LossTarget::labels)) continue;
    refuse_parts(*build);
    refuse_one_class(*build);
  }
}

void check_class_counts(const PreparedRun& run, const Doubt& doubt) {
  const GraphBuild& main = run.main();
  if (is_training(run) && main.data().source != nullptr) {
    doubt(outputs_without_class(main, run.pipeline.network.get()));
    if (learns_by(main, run.pipeline.network.get(), LossTarget::labels)) {
      doubt(part_among_classes(main));
      look_at_rare_classes(main, doubt);
      doubt(samples_in_order(main));
    }
  }
  for (const auto& build : run.builds) {
    if (build->data().source != nullptr) doubt(other_classes(*build, main));
  }
}

}  // namespace millrace
