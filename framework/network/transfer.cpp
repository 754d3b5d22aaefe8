#include "network/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

#include "millrace/error.h"
#include "millrace/util/pattern.h"
#include "millrace/util/text.h"
#include "weights/tensor_file.h"

namespace millrace {

void RenameRule::describe(ParamSet<RenameRule>& set) {
  set.add("from", &RenameRule::from).required().text("tensor name in the file; one * matches any text");
  set.add("to", &RenameRule::to).required().text("its name in the network; * stands for the same text; \"\" skips it");
}

std::string RenameRule::mistake() const {
  const auto stars_from = std::count(from.begin(), from.end(), '*'), stars_to = std::count(to.begin(), to.end(), '*');
  if (stars_from > 1 || stars_to > 1) return "a rule has at most one * on each side";
  if (stars_to > stars_from) return "'to' has a *, but 'from' has none that it could repeat";
  return from.empty() ? "'from' is empty" : "";
}

std::optional<std::string> RenameRule::apply(std::string_view name) const {
  const std::size_t star = from.find('*');
  if (star == std::string::npos) return name == from ? std::optional(to) : std::nullopt;
  const std::string_view begin = std::string_view(from).substr(0, star), end = std::string_view(from).substr(star + 1);
  if (name.size() < begin.size() + end.size() || !name.starts_with(begin) || !name.ends_with(end)) return std::nullopt;
  std::string renamed = to;
  const std::size_t place = renamed.find('*');
  if (place != std::string::npos) renamed.replace(place, 1, name.substr(begin.size(), name.size() - begin.size() - end.size()));
  return renamed;
}

void WeightsChoice::describe(ParamSet<WeightsChoice>& set) {
  set.add("file", &WeightsChoice::file).text("a path or a URL");
  set.add("inside", &WeightsChoice::inside)
      .text(
          "which table of the file, \"state_dict_ema\" or \"ema.module\"; of safetensors, the prefix of the names. Without: the "
          "only one, or `state_dict`, `model`, `model_state_dict`");
}

void NetworkParams::describe(ParamSet<NetworkParams>& set) {
  using P = NetworkParams;
  set.add("use", &P::use).required().text("a network of the zoo, or a network file");
  set.add_table("weights", &P::weights, &WeightsChoice::describe)
      .or_one()
      .text(
          "initial weights: safetensors or a PyTorch state dict (.pth), next to this file or in the working folder; a URL; or { "
          "file = ..., inside = ... }")
      .may_change();
  set.add("sha256", &P::sha256).text("required SHA-256 of the weights file").may_change();
  set.add("new", &P::fresh).text("layers that start with new values: patterns, * matches any text").may_change();
  set.add("freeze", &P::freeze).text("layers or parameters that are not trained: patterns");
  set.add_list("rename", &P::rename, &RenameRule::describe)
      .text("new names for the file's tensors: { from = ..., to = ... }")
      .may_change();
  set.add("preprocessing", &P::preprocessing)
      .choices({"compare", "mine"})
      .text("compare: with the preprocessing recorded in the weights, if any; mine: use this file's settings")
      .may_change();
}

bool covers(std::string_view pattern, std::string_view parameter) {
  if (matches(pattern, parameter)) return true;
  for (std::size_t dot = parameter.find('.'); dot != std::string_view::npos; dot = parameter.find('.', dot + 1)) {
    if (matches(pattern, parameter.substr(0, dot))) return true;
  }
  return false;
}

bool covers_any(const std::vector<std::string>& patterns, std::string_view parameter) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) { return covers(pattern, parameter); });
}

const Layer* last_layer_with_parameters(const Network& network) {
  const auto last =
      std::find_if(network.layers.rbegin(), network.layers.rend(), [](const Layer& layer) { return !layer.parameters.empty(); });
  return last == network.layers.rend() ? nullptr : &*last;
}

bool begins_random(const Parameter& parameter) {
  const std::string& rule = parameter.initialiser.rule;
  return !parameter.statistic && parameter.shape.rank() > 1 && rule != "constant" && rule != "whiten";
}

std::vector<std::string> coverable_names(const Network& network) {
  std::set<std::string> names;
  for (const Parameter& parameter : network.parameters) {
    names.insert(parameter.name);
    for (std::size_t dot = parameter.name.find('.'); dot != std::string::npos; dot = parameter.name.find('.', dot + 1)) {
      names.insert(parameter.name.substr(0, dot));
    }
  }
  return {names.begin(), names.end()};
}

namespace {

// Whether the shapes differ only in trailing extents of 1: a linear layer's weight equals that of a 1x1 convolution.
bool same_values(const Shape& a, const Shape& b) {
  const auto end = [](const Shape& shape) {
    int rank = shape.rank();
    while (rank > 0 && shape[rank - 1] == 1) --rank;
    return shape.begin() + rank;
  };
  return std::equal(a.begin(), end(a), b.begin(), end(b));
}

// The parameter of each layer that has exactly one, by the layer's name. PyTorch uses such names for a module's own parameter,
// such as ConvNeXt's `layer_scale`.
std::map<std::string, std::string> sole_parameters(const Network& network) {
  std::map<std::string, std::string> names;
  for (const Layer& layer : network.layers) {
    if (layer.parameters.size() != 1) continue;
    names.emplace(layer.name, network.parameters[static_cast<std::size_t>(layer.parameters.front())].name);
  }
  return names;
}

// Both names of a non-floating type, "I8 (int8)".
std::string text_of_type(const std::string& type) {
  static const std::map<std::string, const char*> names = {{"I64", "int64"},           {"I32", "int32"},
                                                           {"I16", "int16"},           {"I8", "int8"},
                                                           {"U64", "uint64"},          {"U32", "uint32"},
                                                           {"U16", "uint16"},          {"U8", "uint8"},
                                                           {"BOOL", "truth values"},   {"F8_E5M2", "float8"},
                                                           {"F8_E4M3", "float8"},      {"F8_E8M0", "float8"},
                                                           {"C64", "complex numbers"}, {"C128", "complex numbers"},
                                                           {"QI8", "quantised int8"},  {"QU8", "quantised uint8"},
                                                           {"QI32", "quantised int32"}};
  const auto found = names.find(type);
  return found == names.end() ? type : fmt::format("{} ({})", type, found->second);
}

std::string nearest_text(const std::string& name, const std::vector<std::string>& names) {
  const auto nearest = nearest_name(name, names);
  return nearest ? fmt::format("; nearest is '{}'", shown(*nearest)) : "";
}

// Judges by the name, such as model-00001-of-00002.safetensors.
bool is_one_of_parts(std::string_view file) {
  const std::size_t of = file.rfind("-of-");
  if (of == file.npos || of == 0 || of + 4 >= file.size()) return false;
  const auto is_digit = [&](std::size_t at) { return std::isdigit(static_cast<unsigned char>(file[at])) != 0; };
  return is_digit(of - 1) && is_digit(of + 4) && !file.substr(of + 4).starts_with("00001.");
}

// Assigns the tensors of one file to the parameters of one network and collects mismatches.
class Fitting {
 public:
  Fitting(const WeightsSource& source, const Network& network) : source_(source), network_(network) {}

  std::vector<std::vector<float>> run(TensorFile file) {
    const auto trained = file.metadata.find("network");
    const std::string network = trained == file.metadata.end() ? "" : trained->second;
    rename(std::move(file));
    for (const Parameter& parameter : network_.parameters) take(parameter);
    std::vector<std::string> wanted, unused;
    for (const Parameter* parameter : lacking_) wanted.push_back(parameter->name);
    for (const auto& [name, tensor] : unused_) {
      if (covers_any(source_.fresh, name)) continue;
      unused.push_back(name);
      add(fmt::format("'{}' ({}) belongs to no layer{}", shown(name), to_string(tensor.shape), nearest(name, wanted)));
    }
    add_lacking(unused);
    if (wrong_.empty()) return std::move(weights_);
    std::string wrong = listed();
    if (!lacking_.empty() && unused_.contains(lacking_.front()->name + "/value")) {
      wrong = "\n  this is a checkpoint's state: resume from it with --resume; the weights of its run are in the run's folder";
    }
    if (!lacking_.empty() && is_one_of_parts(source_.file)) {
      wrong +=
          "\n  by its name the file is one of several parts: read each with load_file() of safetensors.torch, and write all of "
          "their tensors into one file with save_file()";
    }
    if (const std::string prefix = common_prefix(unused); !prefix.empty()) {
      wrong =
          fmt::format("\n  all its names begin with '{0}'; in [network], rename = [{{ from = \"{0}*\", to = \"*\" }}] removes it",
                      shown(prefix));
    }
    const std::string without = leave_out(unused);
    fail(ErrorKind::usage, "'{}'{} does not fit network '{}':{}{}{}", source_.file,
         network.empty() || network == network_.name ? "" : fmt::format(", the weights of network '{}',", shown(network)),
         network_.name, wrong, without, advice(without.empty() ? 0 : unused.size()));
  }

  const std::string& new_layer() const { return new_layer_; }  // see `other_classes`; "": none

 private:
  void add(const std::string& problem) {
    if (++problems_ <= kMaxLines) wrong_ += "\n  " + problem;
  }
  // Adds parameters that cannot be read, once per reason, and missing ones.
  void add_lacking(const std::vector<std::string>& unused) {
    std::map<std::string, std::vector<const Parameter*>> unread;  // by reason
    std::vector<const Parameter*> missing;
    for (const Parameter* parameter : lacking_) {
      const auto there = unread_.find(parameter->name);
      (there != unread_.end() ? unread[there->second] : missing).push_back(parameter);
    }
    for (const auto& [why, alike] : unread) {
      add(fmt::format("'{}' ({}) {}{}", alike.front()->name, to_string(alike.front()->shape), why,
                      alike.size() > 1 ? fmt::format("; so are {} more", alike.size() - 1) : ""));
    }
    for (const Parameter* parameter : missing) {
      add(fmt::format("'{}' ({}) is missing{}", parameter->name, to_string(parameter->shape), nearest(parameter->name, unused)));
    }
    lacking_ = std::move(missing);  // an unreadable parameter does not suggest another network
  }
  // The first problems, and the likely cause of many.
  std::string listed() const {
    if (problems_ <= kMaxLines) return wrong_;
    const bool is_another = 2 * lacking_.size() > network_.parameters.size() && !is_one_of_parts(source_.file);
    return fmt::format("{}{}\n  and {} more", is_another ? " these are weights of another network" : "", wrong_,
                       problems_ - kMaxLines);
  }
  // An unrelated file may have a million names.
  std::string nearest(const std::string& name, const std::vector<std::string>& names) const {
    return problems_ < kMaxLines && names.size() <= kMaxNames ? nearest_text(name, names) : "";
  }

  void rename(TensorFile file) {
    const std::map<std::string, std::string> sole = sole_parameters(network_);
    std::vector<bool> used(source_.rename.size());
    std::vector<std::string> names;
    const auto new_name = [&](const std::string& name) {
      names.push_back(name);
      for (std::size_t i = 0; i < source_.rename.size(); ++i) {
        auto renamed = source_.rename[i].apply(name);
        if (!renamed) continue;
        used[i] = true;
        return *renamed;
      }
      return name;
    };
    for (const ListedTensor& tensor : file.listed) {
      if (is_floating(tensor.type)) continue;
      unread_.emplace(new_name(tensor.name), fmt::format("is in the file as {}, but weights are floating-point numbers: save "
                                                         "tensor.float(), or tensor.dequantize() if it is quantised",
                                                         text_of_type(tensor.type)));
    }
    for (const UnreadTensor& tensor : file.unread) {
      unread_.emplace(new_name(tensor.name),
                      fmt::format("is in the file as {}, which is not read: {}", tensor.what, tensor.remedy));
    }
    // PyTorch's normalisation counts batches, as an integer unless all tensors were converted to half.
    constexpr std::string_view kBatchCount = "num_batches_tracked";
    for (NamedTensor& tensor : file.tensors) {
      std::string name = new_name(tensor.name);
      if (name.empty() || name.ends_with(kBatchCount)) continue;
      if (const auto parameter = sole.find(name); parameter != sole.end()) name = parameter->second;
      const std::string before = tensor.name;
      if (!unused_.emplace(name, std::move(tensor)).second)
        add(fmt::format("'{}' and '{}' would both be '{}'", shown(unused_.at(name).name), shown(before), shown(name)));
    }
    for (std::size_t i = 0; i < used.size(); ++i) {
      const std::string& from = source_.rename[i].from;
      if (!used[i]) add(fmt::format("rename: from = '{}' matches no tensor of the file{}", from, nearest(from, names)));
    }
  }

  void take(const Parameter& parameter) {
    std::vector<float>& values = weights_.emplace_back();
    const auto found = unused_.find(parameter.name);
    if (covers_any(source_.fresh, parameter.name)) return;
    if (found == unused_.end()) {
      if (!parameter.unused) lacking_.push_back(&parameter);
      return;
    }
    if (same_values(found->second.shape, parameter.shape)) {
      values = std::move(found->second.values);
    } else if (source_.other_classes && has_other_outputs(found->second.shape, parameter)) {
      new_layer_ = last_layer()->name;
    } else {
      misshapen_.push_back(parameter.name);
      add(fmt::format("'{}' is {}, but the network needs {}", parameter.name, to_string(found->second.shape),
                      to_string(parameter.shape)));
    }
    unused_.erase(found);
  }

  // The prefix that all tensor names have before the network's names, such as DataParallel's "module."; "" if there is none, or
  // something else is wrong too.
  std::string common_prefix(const std::vector<std::string>& unused) const {
    if (!source_.rename.empty() || unused.empty() || problems_ != unused.size() + lacking_.size()) return {};
    const std::map<std::string, std::string> sole = sole_parameters(network_);
    std::set<std::string> known, wanted;
    for (const Parameter& parameter : network_.parameters) known.insert(parameter.name);
    for (const Parameter* parameter : lacking_) wanted.insert(parameter->name);
    const std::string& first = unused.front();
    for (std::size_t dot = first.find('.'); dot != std::string::npos; dot = first.find('.', dot + 1)) {
      const std::string prefix = first.substr(0, dot + 1);
      std::size_t found = 0;
      const auto fits = [&](const std::string& name) {
        if (!name.starts_with(prefix)) return false;
        const std::string rest = name.substr(prefix.size());
        const auto parameter = sole.find(rest);
        const std::string& meant = parameter == sole.end() ? rest : parameter->second;
        found += wanted.count(meant);
        return known.contains(meant) || covers_any(source_.fresh, rest);
      };
      if (std::all_of(unused.begin(), unused.end(), fits) && found == wanted.size()) return prefix;
    }
    return {};
  }

  // Whole blocks of the file that the network does not have, while it lacks nothing: heads that only training needs.
  std::string leave_out(const std::vector<std::string>& unused) const {
    if (!source_.rename.empty() || !lacking_.empty()) return "";
    const auto block_of = [](const std::string& name) { return name.substr(0, name.find('.')); };
    const auto is_plain = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; };
    std::set<std::string> known, rules;
    for (const Parameter& parameter : network_.parameters) known.insert(block_of(parameter.name));
    for (const std::string& name : unused) {
      const std::string block = block_of(name);
      if (block == name || known.contains(block) || !std::ranges::all_of(block, is_plain)) return "";
      rules.insert(fmt::format("{{ from = \"{}.*\", to = \"\" }}", block));
    }
    if (rules.empty() || rules.size() > kMaxRules) return "";
    return fmt::format("\n[network] rename = [{}] skips tensors for which the network has no layers", fmt::join(rules, ", "));
  }

  // Null if no layer has parameters.
  const Layer* last_layer() const { return last_layer_with_parameters(network_); }

  // Whether it belongs to the last layer, and differs only in the number of outputs, the first extent.
  bool has_other_outputs(const Shape& there, const Parameter& here) const {
    const Layer* const last = last_layer();
    if (last == nullptr || !covers(last->name, here.name) || there.rank() != here.shape.rank() || there.rank() == 0) return false;
    return std::equal(there.begin() + 1, there.end(), here.shape.begin() + 1);
  }

  // The usual case: other classes. `answered`: number of problems with other advice.
  std::string advice(std::size_t answered) const {
    const Layer* const last = last_layer();
    if (last == nullptr || misshapen_.empty() || problems_ != misshapen_.size() + answered) return "";
    const auto is_of_last = [&](const std::string& name) { return covers(last->name, name); };
    if (!std::all_of(misshapen_.begin(), misshapen_.end(), is_of_last)) return "";
    if (source_.is_measured)
      return "\nthe weights were trained on other classes than these data have: measure them on data with their classes";
    return fmt::format("\n[network] new = [\"{}\"] starts this layer with new values", last->name);
  }

  std::string new_layer_;
  static constexpr std::size_t kMaxLines = 10, kMaxNames = 4000, kMaxRules = 4;

  const WeightsSource& source_;
  const Network& network_;
  std::map<std::string, NamedTensor> unused_;  // remaining ones, by their new names
  std::map<std::string, std::string> unread_;  // reasons for unreadable tensors, by their new names
  std::vector<std::vector<float>> weights_;
  std::vector<std::string> misshapen_;
  std::vector<const Parameter*> lacking_;
  std::string wrong_;
  std::size_t problems_ = 0;
};

}  // namespace

std::vector<std::vector<float>> load_weights(const WeightsSource& source, const Network& network) {
  std::string layer;
  std::map<std::string, std::string> metadata;
  return load_weights(source, network, layer, metadata);
}

std::vector<std::vector<float>> load_weights(const WeightsSource& source, const Network& network, std::string& new_layer,
                                             std::map<std::string, std::string>& metadata) {
  Fitting fitting(source, network);
  TensorFile file = read_tensors(source.file, source.inside);
  metadata = file.metadata;
  auto weights = fitting.run(std::move(file));
  if (!fitting.new_layer().empty()) new_layer = fitting.new_layer();
  return weights;
}

}  // namespace millrace
