// A stage type's attributes, and its entry in the registry. Separate from the header, which every plugin would compile again.
#include "millrace/error.h"
#include "millrace/plugin.h"

namespace millrace {

StageAttributes& StageAttributes::name(std::string_view value) {
  name_ = value;
  return *this;
}
StageAttributes& StageAttributes::text(std::string_view value) {
  text_ = value;
  return *this;
}
StageAttributes& StageAttributes::input(std::string_view payload, std::string_view port) {
  traits_.inputs.push_back({std::string(port), std::string(payload)});
  return *this;
}
StageAttributes& StageAttributes::output(std::string_view payload, std::string_view port) {
  traits_.outputs.push_back({std::string(port), std::string(payload)});
  return *this;
}
StageAttributes& StageAttributes::serial() {
  traits_.concurrency = Concurrency::serial;
  return *this;
}
StageAttributes& StageAttributes::per_replica() {
  traits_.per_replica = true;
  return *this;
}
StageAttributes& StageAttributes::stepwise() {
  traits_.stepwise = true;
  return *this;
}
StageAttributes& StageAttributes::any_image() {
  traits_.any_image = true;
  return *this;
}
StageAttributes& StageAttributes::in_recipes(RecipeRole role, RecipeEffect effect) {
  traits_.recipe_role = role;
  traits_.recipe_effect = effect;
  return *this;
}
StageAttributes& StageAttributes::writes(std::initializer_list<std::string_view> results) {
  traits_.writes.assign(results.begin(), results.end());
  return *this;
}
StageAttributes& StageAttributes::example(std::string_view table, ImageShape image) {
  traits_.examples.push_back({std::string(table), image});
  return *this;
}
StageAttributes& StageAttributes::example(std::string_view table, void (*files)(const std::string& folder)) {
  traits_.examples.push_back({.table = std::string(table), .files = files});
  return *this;
}

StageType::StageType() = default;
StageType::StageType(const StageType&) = default;
StageType::StageType(StageType&&) noexcept = default;
StageType& StageType::operator=(const StageType&) = default;
StageType& StageType::operator=(StageType&&) noexcept = default;
StageType::~StageType() = default;

const DataContext& AnyContext::data() const {
  if (data_ == nullptr) fail(ErrorKind::usage, "this stage needs to know the samples that arrive: put it after a source");
  return *data_;
}

const StepContext& AnyContext::step() const {
  if (step_ == nullptr) fail(ErrorKind::usage, "this stage needs to know replicas and steps: put it after 'batch' in flow");
  return *step_;
}

void StageTypeAccess::check_image(const StageAttributes& attributes, const ImageShape& image) {
  if (image.is_plain() || attributes.traits_.any_image) return;
  fail(ErrorKind::usage,
       "stage type '{}' takes 8-bit images of one frame, but these are {}: put a stage before it that makes such images",
       attributes.name_, to_string(image));
}

StageType StageTypeAccess::described(const StageAttributes& attributes, StageType::Role role,
                                     const std::vector<ParamInfo>& params, const void* defaults) {
  StageType type;
  static_cast<TypeDescription&>(type) = {attributes.name_, attributes.text_, {}, params, write_params(params, defaults)};
  static_cast<StageTraits&>(type) = attributes.traits_;
  type.role = role;
  const bool transforms = role == StageType::Role::sample_transform;
  if (transforms && type.inputs.empty()) type.inputs.push_back({"in", std::string(payload::kImageChunk)});
  if (transforms && type.outputs.empty()) type.outputs.push_back({"out", std::string(payload::kImageChunk)});
  if (role == StageType::Role::source && type.outputs.empty()) {
    type.outputs.push_back({"out", std::string(payload::kSampleChunk)});
  }
  return type;
}

}  // namespace millrace
