#include "network/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>

#include "millrace/detail/types.h"
#include "millrace/error.h"
#include "millrace/layer.h"
#include "millrace/params.h"
#include "toml/variables.h"

namespace millrace {
namespace {

// The table `input` of a network: the size of its images, and the mean and deviation that normalise their pixels.
struct InputParams {
  std::int64_t channels = 3, height = 0, width = 0;
  std::vector<double> mean, deviation;  // by channel

  static void describe(ParamSet<InputParams>& set) {
    set.add("channels", &InputParams::channels).range(1, 4096).text("image channels: 3 for colour, 1 for grey");
    set.add("height", &InputParams::height).required().range(1, 1 << 16).unit("pixels").text("image height");
    set.add("width", &InputParams::width).required().range(1, 1 << 16).unit("pixels").text("image width");
    set.add("mean", &InputParams::mean).text("subtracted from each channel, after scaling pixels to 0 ... 1");
    set.add("deviation", &InputParams::deviation).range(1e-6).text("each channel is then divided by it");
  }
};

// By default each channel has mean 0 and deviation 1. `network`: its name, for messages.
InputParams read_input(const Value& table, const std::string& network, Diagnostics& errors) {
  ParamSet<InputParams> set;
  InputParams::describe(set);
  InputParams input = read_struct(set, table, "'input' of network '" + network + "'", errors);
  const auto per_channel = [&](const char* key, std::vector<double>& values, double otherwise) {
    if (values.empty()) values.assign(static_cast<std::size_t>(input.channels), otherwise);
    if (static_cast<std::int64_t>(values.size()) != input.channels) {
      return errors.add(table.find(key)->at(), fmt::format("'{}' needs one number for each of the {} channels, found {}", key,
                                                           input.channels, values.size()));
    }
    const double largest = *std::ranges::max_element(values);
    if (largest <= 1) return;
    errors.add(table.find(key)->at(),
               fmt::format("'{}' is for pixels from 0 to 1, found {:g}: divide values of 0 ... 255 by 255", key, largest));
  };
  per_channel("mean", input.mean, 0);
  per_channel("deviation", input.deviation, 1);
  return input;
}

constexpr std::size_t kMaxLayers = 10'000;
constexpr double kMaxElements = 1e12;  // elements of one tensor
constexpr std::size_t kLongestLayerName = 500;

const std::vector<std::string> kLayerKeys = {"name", "op", "from", "when", "otherwise", "auxiliary", "stored_as"};

// Reports wrong calls of kernels at the layer's position.
void try_passes(const PortableLayer& layer, const std::vector<Shape>& inputs) {
  Pass forward(inputs), backward(inputs);
  layer.forward(forward);
  layer.backward(backward);
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

double elements(const Shape& shape) {
  double product = 1;
  for (const std::int64_t extent : shape) product *= static_cast<double>(extent);
  return product;
}

// Gives the parameters of a layer the names and shapes that PyTorch stores them with.
void store_as(const Value& form, const std::string& layer, std::vector<Parameter>& parameters) {
  const std::string given = form.kind() == Value::Kind::text ? form.text() : "";
  if (given == "linear") {
    const auto weight = std::ranges::find(parameters, 4, [](const Parameter& parameter) { return parameter.shape.rank(); });
    if (weight == parameters.end() || weight->shape[2] != 1 || weight->shape[3] != 1)
      fail(ErrorKind::usage, "stored_as = \"linear\" is for a convolution with a kernel of 1");
    weight->stored_shape = {weight->shape[0], weight->shape[1]};
  } else if (given == "parameter") {
    if (parameters.size() != 1 || parameters.front().shape.rank() != 1)
      fail(ErrorKind::usage, "stored_as = \"parameter\" is for a layer with one parameter, a value for each channel");
    parameters.front().stored_name = layer;
    parameters.front().stored_shape = {parameters.front().shape[0], 1, 1};
  } else {
    fail(ErrorKind::usage, "stored_as must be \"linear\" or \"parameter\", found {}", found(form));
  }
}

std::optional<std::string> op_also_called(const Registry& registry, const std::string& name) {
  for (const auto& [op, type] : registry.layers()) {
    if (std::ranges::find(type.other_names, name) != type.other_names.end()) return op;
  }
  return std::nullopt;
}

// Blocks: entries that expand to one or more instances of a list of layers.

constexpr std::int64_t kMaxRepetitions = 1000;
constexpr const char* kIndex = "index";  // a parameter of every block: by default the instance's number, from 0

const std::vector<std::string> kBlockKeys = {"name",   "block", "from",   "when",     "otherwise",
                                             "repeat", "first", "inline", "auxiliary"};

// Parameters of the block: those with defaults, and those that its layers refer to.
std::vector<std::string> parameter_names(const BlockDefinition& block) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const Reference& reference : block.references) add(reference.name);
  for (const Member& member : block.defaults.table()) add(member.key);
  return names;
}

// "layer1.0", "layer1.1" for "layer1", or "layer1", "layer2" for "layer#".
std::string numbered(const std::string& name, std::size_t index) {
  const std::size_t mark = name.find('#');
  if (mark == std::string::npos) return fmt::format("{}.{}", name, index);
  return fmt::format("{}{}{}", name.substr(0, mark), index + 1, name.substr(mark + 1));
}

// "a -> b -> a" if the block contains itself.
std::string recursion(const Frame& frame, const std::string& block) {
  std::string path = block;
  for (const Frame* outer = &frame; outer && !outer->block.empty(); outer = outer->outer) {
    path = outer->block + " -> " + path;
    if (outer->block == block) return path;
  }
  return {};
}

// Possible values of the only variable in a block's name, as in "stem_${stem}". "" if there is none, or no block has such a name.
std::string values_for_block(const Value& written, const std::vector<std::string>& blocks) {
  const std::vector<Reference> in_it = references(written);
  if (in_it.size() != 1) return "";
  const std::string& text = written.text();
  const std::size_t place = text.find("${"), end = text.find('}', place);
  const std::string begin = text.substr(0, place), rest = text.substr(end + 1);
  std::vector<std::string> values;
  for (const std::string& block : blocks) {
    if (block.size() <= begin.size() + rest.size() || !block.starts_with(begin) || !block.ends_with(rest)) continue;
    values.push_back(block.substr(begin.size(), block.size() - begin.size() - rest.size()));
  }
  const bool is_any = begin.empty() && rest.empty();
  return values.empty() || is_any ? "" : fmt::format("'{}' may be '{}'", in_it.front().name, fmt::join(values, "', '"));
}

}  // namespace

Network Builder::build(const std::string& name, const Value& variables) {
  network_ = {};
  network_.name = name;
  variables_ = variables;
  const std::size_t before = errors_.size();
  read_input(name, variables);
  Frame frame;
  frame.variables = variables;
  frame.input = input_shape_.rank() == 0 ? kUnknownLayer : LayerPort(Network::kInput);
  lay_out(frame, *document_.layers);
  if (errors_.size() == before && network_.layers.empty()) errors_.add(document_.layers_at, "every layer is left out");
  if (errors_.size() == before) check_uses();
  return std::move(network_);
}

void Builder::read_input(const std::string& name, const Value& variables) {
  const std::size_t before = errors_.size();
  const Value table = resolve(*document_.input, variables, errors_);
  const InputParams input = millrace::read_input(table, name, errors_);
  if (errors_.size() != before) return;
  network_.input = {static_cast<std::int32_t>(input.height), static_cast<std::int32_t>(input.width),
                    static_cast<std::int32_t>(input.channels)};
  network_.mean = input.mean;
  network_.deviation = input.deviation;
  input_shape_ = {input.channels, input.height, input.width};
}

LayerPort Builder::lay_out(Frame& frame, const Array& entries) {
  if (wrong_lists_.contains(&entries)) return kUnknownLayer;
  const std::size_t before = errors_.size();
  frame.name_entries(entries, errors_);
  if (errors_.size() != before) wrong_lists_.insert(&entries);
  LayerPort previous = frame.input;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (++placed_ > kMaxLayers) {  // nested repeated blocks
      if (placed_ == kMaxLayers + 1) errors_.add(entries[i].at(), fmt::format("a network has at most {} layers", kMaxLayers));
      return kUnknownLayer;
    }
    Diagnostics scratch;
    const bool known = wrong_entries_.contains(&entries[i]);
    const std::size_t mistakes = errors_.size();
    const Entry entry{entries[i], frame.names[i], previous, known ? scratch : errors_};
    const int layers = static_cast<int>(network_.layers.size());
    const LayerPort made = place(frame, entry);
    if (!is_auxiliary(frame, entry))
      previous = made;
    else if (made.layer >= layers)
      auxiliary_.insert(made);
    if (errors_.size() != mistakes) wrong_entries_.insert(&entries[i]);
    frame.define(frame.names[i], made);
  }
  return previous;
}

bool Builder::is_auxiliary(const Frame& frame, const Entry& entry) {
  const Value* written = entry.table.find("auxiliary");
  return written && is_true(frame, entry, "auxiliary", *written);
}

LayerPort Builder::place(Frame& frame, const Entry& entry) {
  if (entry.table.kind() != Value::Kind::table) {
    entry.errors.add(entry.table.at(), fmt::format("each entry of 'layers' must be a table, found {}", found(entry.table)));
    return kUnknownLayer;
  }
  const bool is_layer = entry.table.find("op"), is_block = entry.table.find("block");
  if (is_layer == is_block) {
    if (!is_layer && has_misspelt_kind(entry)) return kUnknownLayer;
    entry.errors.add(entry.table.at(),
                     fmt::format("'{}' needs either 'op' or 'block'{}", entry.name, is_layer ? ", not both" : ""));
    return kUnknownLayer;
  }
  const std::size_t before = entry.errors.size();
  if (!is_wanted(frame, entry)) return place_skipped(frame, entry);
  const std::vector<LayerPort> inputs = inputs_of(frame, entry);
  if (entry.errors.size() != before) return kUnknownLayer;
  return is_layer ? place_layer(frame, entry, inputs) : place_block(frame, entry, inputs);
}

// Whether a key looks like a misspelt 'op' or 'block', which is reported.
bool Builder::has_misspelt_kind(const Entry& entry) {
  std::vector<std::string> keys;
  for (const Member& member : entry.table.table()) {
    if (!contains(kLayerKeys, member.key)) keys.push_back(member.key);
  }
  for (const char* kind : {"op", "block"}) {
    const auto key = nearest_name(kind, keys);
    if (!key) continue;
    const Table& members = entry.table.table();
    const auto member = std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.key == *key; });
    entry.errors.add(member->at, fmt::format("'{}' has no key '{}'; nearest is '{}'", entry.name, *key, kind));
    return true;
  }
  return false;
}

bool Builder::only_resizes(const Entry& entry) {
  const Value* when = entry.table.find("when");
  return when && entry.table.find("op") && when->kind() == Value::Kind::text && when->text() == "resizes";
}

bool Builder::is_wanted(const Frame& frame, const Entry& entry) {
  const Value* when = entry.table.find("when");
  if (!when) {
    if (const Value* otherwise = entry.table.find("otherwise")) {
      entry.errors.add(otherwise->at(), fmt::format("'otherwise' of '{}' has no effect without 'when'", entry.name));
    }
    return true;
  }
  return only_resizes(entry) || is_true(frame, entry, "when", *when);
}

bool Builder::is_true(const Frame& frame, const Entry& entry, const char* key, const Value& written) {
  const std::size_t before = entry.errors.size();
  const Value value = resolve(written, frame.variables, entry.errors);
  if (entry.errors.size() != before) return true;
  if (value.kind() == Value::Kind::boolean) return value.boolean();
  entry.errors.add(value.at(), fmt::format("'{}' of '{}' must be true or false, found {}", key, entry.name, found(value)));
  return true;
}

LayerPort Builder::place_skipped(Frame& frame, const Entry& entry) {
  const std::size_t before = entry.errors.size();
  if (const Value* otherwise = entry.table.find("otherwise")) {
    const Value reference = resolve(*otherwise, frame.variables, entry.errors);
    return entry.errors.size() == before ? refer(frame, entry, reference) : kUnknownLayer;
  }
  const std::vector<LayerPort> inputs = inputs_of(frame, entry);
  if (inputs.size() == 1) return inputs.front();
  if (entry.errors.size() == before) {
    entry.errors.add(entry.table.at(),
                     fmt::format("'{}' is left out and has {} inputs: choose with 'otherwise' which one takes its place",
                                 entry.name, inputs.size()));
  }
  return kUnknownLayer;
}

std::vector<LayerPort> Builder::inputs_of(const Frame& frame, const Entry& entry) {
  const Value* from = entry.table.find("from");
  if (!from) return {entry.previous};
  const Value resolved = resolve(*from, frame.variables, entry.errors);
  if (resolved.kind() != Value::Kind::array) return {refer(frame, entry, resolved)};
  std::vector<LayerPort> inputs;
  for (const Value& reference : resolved.array()) inputs.push_back(refer(frame, entry, reference));
  if (inputs.empty()) entry.errors.add(from->at(), fmt::format("'from' of '{}' names no layer", entry.name));
  return inputs;
}

// "name", or "name:output" for an output other than the layer's first.
LayerPort Builder::refer(const Frame& frame, const Entry& entry, const Value& reference) const {
  if (reference.kind() != Value::Kind::text) {
    entry.errors.add(reference.at(), fmt::format("a layer is named by text, found {}", found(reference)));
    return kUnknownLayer;
  }
  const std::string& text = reference.text();
  const std::size_t colon = text.find(':');
  const LayerPort value = frame.find(text.substr(0, colon), reference.at(), entry.name, entry.errors);
  if (colon == std::string::npos || value == kUnknownLayer) return value;
  const std::string wanted = text.substr(colon + 1);
  std::vector<std::string> names;
  if (value.layer != Network::kInput) {
    for (const LayerOutput& output : outputs_of(value.layer)) names.push_back(output.name);
  }
  const auto output = std::find(names.begin(), names.end(), wanted);
  if (output != names.end()) return {value.layer, static_cast<int>(output - names.begin())};
  const std::string there = names.empty() ? std::string("no outputs by name") : fmt::format("{}", fmt::join(names, ", "));
  entry.errors.add(reference.at(), fmt::format("'{}' takes the output '{}' of '{}', which has {}", entry.name, wanted,
                                               text.substr(0, colon), there));
  return kUnknownLayer;
}

Value Builder::parameters_of(const Frame& frame, const Entry& entry, const std::vector<std::string>& own_keys,
                             const std::vector<std::string>& parameters, const std::string& owner) {
  Value result;
  result.set_position(entry.table.at());
  for (const Member& member : entry.table.table()) {
    if (contains(own_keys, member.key)) continue;
    if (!contains(parameters, member.key)) {
      std::vector<std::string> keys = parameters;
      keys.insert(keys.end(), own_keys.begin(), own_keys.end());
      report_unknown_name(owner, "key", member.key, keys, member.at, entry.errors);
      continue;
    }
    result.table().push_back({member.key, member.at, resolve(member.value, frame.variables, entry.errors)});
  }
  return result;
}

LayerPort Builder::place_layer(Frame& frame, const Entry& entry, const std::vector<LayerPort>& inputs) {
  const Value op = resolve(*entry.table.find("op"), frame.variables, entry.errors);
  const LayerType* type = op.kind() == Value::Kind::text ? registry_.layers().find(op.text()) : nullptr;
  if (!type) {
    const std::string name = op.kind() == Value::Kind::text ? op.text() : found(op);
    const auto other_name = op_also_called(registry_, name);
    const auto nearest = other_name ? other_name : registry_.layers().nearest(name);
    entry.errors.add(op.at(), fmt::format("unknown op '{}'{}", name,
                                          nearest ? fmt::format("; nearest is '{}'", *nearest)
                                                  : fmt::format("; there are {}", fmt::join(registry_.layers().names(), ", "))));
    return kUnknownLayer;
  }
  const std::string full_name = frame.prefix + entry.name;
  if (full_name.size() > kLongestLayerName) {
    entry.errors.add(entry.table.at(),
                     fmt::format("the name of a layer has {} bytes, more than {}", full_name.size(), kLongestLayerName));
    return kUnknownLayer;
  }
  const std::size_t before = entry.errors.size();
  std::vector<std::string> parameters;
  for (const ParamInfo& info : type->params) parameters.push_back(info.name);
  const Value table = parameters_of(frame, entry, kLayerKeys, parameters, "op '" + type->name + "'");
  const int count = static_cast<int>(inputs.size());
  if (count < type->least_inputs || count > type->most_inputs) {
    if (entry.errors.size() != before) return kUnknownLayer;  // one of the keys may be a misspelt 'from'
    entry.errors.add(entry.table.at(), fmt::format("layer '{}': op '{}' takes {}{} input{}, found {}", full_name, type->name,
                                                   type->least_inputs == type->most_inputs ? "" : "at least ", type->least_inputs,
                                                   type->least_inputs == 1 ? "" : "s", count));
    return kUnknownLayer;
  }

  std::vector<Shape> shapes;
  const bool known = entry.errors.size() == before && std::find(inputs.begin(), inputs.end(), kUnknownLayer) == inputs.end();
  for (const LayerPort input : inputs) {
    if (known) shapes.push_back(shape_of(input));
  }
  if (known && !accepts_inputs(entry, *type, full_name, inputs)) return kUnknownLayer;
  try {
    LayerPlan plan = type->plan(table, shapes, entry.errors);
    if (!known || entry.errors.size() != before) return kUnknownLayer;
    if (plan.portable) try_passes(*plan.portable, shapes);
    if (only_resizes(entry) && plan.output == shapes.front()) return place_skipped(frame, entry);
    if (const Value* form = entry.table.find("stored_as"))
      store_as(resolve(*form, frame.variables, entry.errors), full_name, plan.parameters);
    return add(entry, full_name, type->name, inputs, std::move(plan));
  } catch (const Error& error) {
    entry.errors.add(entry.table.at(), fmt::format("layer '{}' ({}): {}", full_name, type->name, error.message()));
    return kUnknownLayer;
  }
}

bool Builder::accepts_inputs(const Entry& entry, const LayerType& type, const std::string& full_name,
                             const std::vector<LayerPort>& inputs) const {
  const auto name = [](Carries what) { return what == Carries::values ? "values" : "indices"; };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Carries wanted = i < type.takes.size() ? type.takes[i] : Carries::values, comes = carries(inputs[i]);
    if (comes == wanted) continue;
    entry.errors.add(entry.table.at(), fmt::format("layer '{}': op '{}' takes {} as input {}, but '{}' are {}", full_name,
                                                   type.name, name(wanted), i + 1, name_of(inputs[i]), name(comes)));
    return false;
  }
  return true;
}

const std::vector<LayerOutput>& Builder::outputs_of(int layer) const {
  return registry_.layers().find(network_.layers[static_cast<std::size_t>(layer)].op)->outputs;
}

Carries Builder::carries(LayerPort value) const {
  return value.port == 0 ? Carries::values : outputs_of(value.layer)[static_cast<std::size_t>(value.port)].carries;
}

std::string Builder::name_of(LayerPort value) const {
  if (value.layer == Network::kInput) return "@input";
  const std::string& layer = network_.layers[static_cast<std::size_t>(value.layer)].name;
  const std::vector<LayerOutput>& outputs = outputs_of(value.layer);
  return outputs.size() == 1 ? layer : layer + ":" + outputs[static_cast<std::size_t>(value.port)].name;
}

int Builder::add(const Entry& entry, const std::string& full_name, const std::string& op, const std::vector<LayerPort>& inputs,
                 LayerPlan plan) {
  const std::size_t declared = registry_.layers().find(op)->outputs.size();
  if (plan.more_outputs.size() + 1 != declared) {
    fail(ErrorKind::usage, "it has {} outputs, but its type declares {}", plan.more_outputs.size() + 1, declared);
  }
  if (elements(plan.output) > kMaxElements) fail(ErrorKind::usage, "its output of {} is too large", to_string(plan.output));
  const int index = static_cast<int>(network_.layers.size());
  const auto [taken, is_new] = by_name_.emplace(full_name, index);
  if (!is_new) {
    fail(ErrorKind::usage, "its name is taken at line {}", network_.layers[static_cast<std::size_t>(taken->second)].at.line);
  }
  Layer layer;
  layer.name = full_name;
  layer.op = op;
  layer.inputs = inputs;
  for (const LayerPort input : inputs) layer.input_shapes.push_back(shape_of(input));
  layer.output = plan.output;
  layer.more_outputs = std::move(plan.more_outputs);
  layer.multiply_adds = plan.multiply_adds;
  layer.attributes = std::move(plan.attributes);
  layer.portable = std::move(plan.portable);
  layer.at = entry.table.at();
  for (Parameter& parameter : plan.parameters) {
    if (elements(parameter.shape) > kMaxElements) {
      fail(ErrorKind::usage, "its {} of {} is too large", parameter.name, to_string(parameter.shape));
    }
    parameter.name = full_name + "." + parameter.name;
    layer.parameters.push_back(static_cast<int>(network_.parameters.size()));
    network_.parameters.push_back(std::move(parameter));
  }
  network_.layers.push_back(std::move(layer));
  return index;
}

// An unread layer is a mistake, unless it is marked auxiliary.
void Builder::check_uses() {
  std::set<LayerPort> used = auxiliary_;
  const bool is_new = used.insert(network_.result()).second;
  if (!is_new) {
    errors_.add(network_.layers.back().at,
                fmt::format("layer '{}' is the last one, whose output is the network's result: it cannot be auxiliary",
                            network_.layers.back().name));
  }
  for (const Layer& layer : network_.layers) used.insert(layer.inputs.begin(), layer.inputs.end());
  for (int i = 0; i < static_cast<int>(network_.layers.size()); ++i) {
    const Layer& layer = network_.layers[static_cast<std::size_t>(i)];
    for (int port = 0; port < layer.output_count(); ++port) {
      const LayerPort value(i, port);
      if (used.contains(value) || carries(value) != Carries::values) continue;
      errors_.add(layer.at, fmt::format("nothing takes the output of layer '{}': name it in a later layer's 'from', or "
                                        "leave it out",
                                        name_of(value)));
    }
  }
}

const Shape& Builder::shape_of(LayerPort value) const {
  return value.layer == Network::kInput ? input_shape_
                                        : network_.layers[static_cast<std::size_t>(value.layer)].output_of(value.port);
}

namespace {

// `repeated`: one '#' may stand for the instance's number.
bool is_layer_name(const std::string& name, bool repeated) {
  return !name.empty() && std::count(name.begin(), name.end(), '#') <= (repeated ? 1 : 0) &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.' || c == '#'; }) &&
         name.front() != '.' && name.back() != '.';
}

// The base of an unnamed entry's name.
std::string family(const Value& entry) {
  for (const char* key : {"op", "block"}) {
    const Value* value = entry.find(key);
    if (value && value->kind() == Value::Kind::text) return value->text();
  }
  return "layer";
}

}  // namespace

void Frame::name_entries(const Array& entries, Diagnostics& errors) {
  std::map<std::string, Position> taken;
  names.assign(entries.size(), "");
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Value* written = entries[i].find("name");
    if (!written) continue;
    const Value name = resolve(*written, variables, errors);
    if (name.kind() != Value::Kind::text || !is_layer_name(name.text(), entries[i].find("repeat") != nullptr)) {
      errors.add(name.at(),
                 fmt::format("'name' must be text of letters, digits, '_', '-' and '.' (and one '#' with 'repeat'), found {}",
                             found(name)));
      continue;
    }
    const auto [first, is_new] = taken.emplace(name.text(), name.at());
    if (is_new) {
      names[i] = name.text();
    } else {
      errors.add(name.at(), fmt::format("the name '{}' is taken{}", name.text(),
                                        first->second.line > 0 ? fmt::format(" at line {}", first->second.line) : ""));
    }
  }
  std::map<std::string, int> numbers;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!names[i].empty()) continue;
    const std::string kind = family(entries[i]);
    do {
      names[i] = kind + std::to_string(++numbers[kind]);
    } while (taken.contains(names[i]));
  }
}

void Frame::define(const std::string& name, LayerPort output) {
  const std::string full = prefix + name;
  for (Frame* frame = this; frame; frame = frame->outer)
    frame->outputs.insert_or_assign(full.substr(frame->prefix.size()), output);
}

LayerPort Frame::find(const std::string& name, const Position& at, const std::string& user, Diagnostics& errors) const {
  if (name == "@input") return input;
  for (const Frame* frame = this; frame; frame = frame->outer) {
    if (const auto output = frame->outputs.find(name); output != frame->outputs.end()) return output->second;
  }
  for (const Frame* frame = this; frame; frame = frame->outer) {
    if (std::find(frame->names.begin(), frame->names.end(), name) == frame->names.end()) continue;
    errors.add(at, fmt::format("'{}' takes the output of '{}', which is not an earlier layer", user, name));
    return kUnknownLayer;
  }
  std::vector<std::string> candidates = {"@input"};
  for (const Frame* frame = this; frame && errors.names_nearest(); frame = frame->outer) {
    for (const auto& [known, layer] : frame->outputs) candidates.push_back(known);
  }
  const auto nearest = nearest_name(name, candidates);
  errors.add(at, fmt::format("'{}' takes the output of '{}', but no earlier layer has this name{}", user, name,
                             nearest ? fmt::format("; nearest is '{}'", *nearest) : ""));
  return kUnknownLayer;
}

const BlockDefinition* Builder::block_of(const Frame& frame, const Entry& entry) {
  const Value block = resolve(*entry.table.find("block"), frame.variables, entry.errors);
  const std::string name = block.kind() == Value::Kind::text ? block.text() : found(block);
  const auto definition = document_.blocks.find(name);
  if (definition == document_.blocks.end()) {
    std::vector<std::string> names;
    if (entry.errors.names_nearest()) {
      for (const auto& [key, value] : document_.blocks) names.push_back(key);
    }
    if (const auto given = values_for_block(*entry.table.find("block"), names); !given.empty() && !nearest_name(name, names)) {
      entry.errors.add(block.at(), fmt::format("the network has no block '{}': {}", name, given));
      return nullptr;
    }
    report_unknown_name("the network", "block", name, names, block.at(), entry.errors);
    return nullptr;
  }
  if (const std::string path = recursion(frame, name); !path.empty()) {
    entry.errors.add(block.at(), fmt::format("block '{}' contains itself: {}", name, path));
    return nullptr;
  }
  return definition->second.layers ? &definition->second : nullptr;
}

// The parameters given to each instance.
std::vector<Value> Builder::instances_of(const Frame& frame, const Entry& entry, const BlockDefinition& block) {
  const std::vector<std::string> parameters = parameter_names(block);
  const std::string owner = "block '" + block.name + "'";
  const Value given = parameters_of(frame, entry, kBlockKeys, parameters, owner);

  std::int64_t count = 1;
  if (const Value* repeat = entry.table.find("repeat")) {
    const Value value = resolve(*repeat, frame.variables, entry.errors);
    if (value.kind() == Value::Kind::integer && value.integer() >= 1 && value.integer() <= kMaxRepetitions) {
      count = value.integer();
    } else {
      entry.errors.add(repeat->at(),
                       fmt::format("'repeat' must be an integer between 1 and {}, found {}", kMaxRepetitions, found(value)));
    }
  }
  std::vector<Value> instances(static_cast<std::size_t>(count), given);
  const bool has_index = given.find(kIndex) || block.defaults.find(kIndex) || variables_.find(kIndex);
  for (std::int64_t i = 0; i < count && !has_index; ++i) instances[static_cast<std::size_t>(i)].set(kIndex, Value(i));
  if (const Value* first = entry.table.find("first")) {
    if (first->kind() != Value::Kind::table) {
      entry.errors.add(first->at(), fmt::format("'first' must be a table of parameters, found {}", found(*first)));
    } else {
      const Value changes = parameters_of(frame, {*first, entry.name, entry.previous, entry.errors}, {}, parameters, owner);
      for (const Member& member : changes.table()) instances.front().set(member.key, member.value);
    }
  }
  require_references(entry, block, instances);
  return instances;
}

// Checks that each instance has all parameters that the block refers to.
void Builder::require_references(const Entry& entry, const BlockDefinition& block, const std::vector<Value>& instances) {
  std::set<std::string> missing;
  for (const Reference& reference : block.references) {
    const std::string& name = reference.name;
    const auto has = [&](const Value& instance) {
      return instance.find(name) || block.defaults.find(name) || variables_.find(name);
    };
    if (std::all_of(instances.begin(), instances.end(), has) || !missing.insert(name).second) continue;
    std::vector<std::string> names;
    for (const Value* table : std::initializer_list<const Value*>{&entry.table, &block.defaults, &variables_}) {
      for (const Member& member : table->table()) {
        if (table != &entry.table || std::ranges::find(kBlockKeys, member.key) == kBlockKeys.end()) names.push_back(member.key);
      }
    }
    if (const auto nearest = nearest_name(name, names)) {
      entry.errors.add(reference.at,
                       fmt::format("block '{}': '${{{}}}' refers to nothing; nearest is '${{{}}}'", block.name, name, *nearest));
    } else {
      entry.errors.add(entry.table.at(),
                       fmt::format("'{}' does not set '{}', which block '{}' needs", entry.name, name, block.name));
    }
  }
}

LayerPort Builder::place_block(Frame& frame, const Entry& entry, const std::vector<LayerPort>& inputs) {
  const std::size_t before = entry.errors.size();
  const BlockDefinition* block = block_of(frame, entry);
  if (!block) return kUnknownLayer;
  if (inputs.size() != 1) {
    entry.errors.add(entry.table.at(), fmt::format("'{}': a block takes one input, found {}", entry.name, inputs.size()));
  }
  const std::vector<Value> instances = instances_of(frame, entry, *block);
  const Value* written = entry.table.find("inline");
  const bool is_inline = written && is_true(frame, entry, "inline", *written);
  if (entry.errors.size() != before) return kUnknownLayer;

  LayerPort output = inputs.front();
  for (std::size_t i = 0; i < instances.size(); ++i) {
    const bool repeats = entry.table.find("repeat") != nullptr;
    const std::string name = repeats ? numbered(entry.name, i) : entry.name;
    output = expand(frame, entry, *block, is_inline ? "" : name + ".", output, instances[i]);
    if (repeats) frame.define(name, output);
  }
  return output;
}

LayerPort Builder::expand(Frame& frame, const Entry& entry, const BlockDefinition& block, const std::string& prefix,
                          LayerPort input, const Value& given) {
  const std::size_t before = entry.errors.size();
  Frame inner;
  inner.outer = &frame;
  inner.block = block.name;
  inner.prefix = frame.prefix + prefix;
  inner.variables = variables_;
  inner.input = input;
  bind(inner.variables, given, block.defaults, entry.errors);
  if (entry.errors.size() != before) return kUnknownLayer;
  const std::size_t known = errors_.size();
  const LayerPort output = lay_out(inner, *block.layers);
  for (std::size_t i = known; i < errors_.size(); ++i) {
    const Position &mistake = errors_.entries()[i].at, &use = entry.table.at();
    if (mistake.file && use.file && *mistake.file != *use.file) uses_.emplace(i, BlockUse{block.name, use});
  }
  return output;
}

}  // namespace millrace
