#include "testkit/synthetic.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>

#include "millrace/optimizer.h"
#include "testkit/optimizers.h"
#include "testkit/plain.h"
#include "toml/document.h"

namespace millrace::conformance {

namespace fs = std::filesystem;

namespace {

// Holds image_folder() and folders of examples; removed with the process that made it.
const fs::path& working_folder() {
  struct Folder {
    fs::path path;
    pid_t by = ::getpid();
    ~Folder() {
      std::error_code ignored;
      if (::getpid() == by) fs::remove_all(path, ignored);
    }
  };
  static const Folder folder{[] {
    const fs::path root = fs::temp_directory_path() / fmt::format("millrace_conformance_{}", ::getpid());
    fs::create_directories(root);
    return root;
  }()};
  return folder.path;
}

}  // namespace

const fs::path& image_folder() {
  static const fs::path folder = [] {
    const fs::path root = working_folder() / "images";
    fs::create_directories(root);
    std::ofstream list(root / "metadata.csv");  // for stages that read lists
    list << "file_name,label\n";
    for (const char* name : {"first", "second"}) {
      fs::create_directories(root / name);
      for (int i = 0; i < 6; ++i) {
        const std::vector<std::uint8_t> bytes = grey_jpeg(8, 8, static_cast<std::uint8_t>(20 * i + (name[0] == 'f' ? 10 : 100)));
        std::ofstream file(root / name / (std::to_string(i) + ".jpg"), std::ios::binary);
        file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
        list << name << '/' << i << ".jpg," << name << '\n';
      }
    }
    write_archives(root);
    return root;
  }();
  return folder;
}

ExampleFolder::ExampleFolder(void (*files)(const std::string& folder)) : is_own_(files != nullptr) {
  if (!is_own_) {
    path_ = image_folder();
    return;
  }
  static std::atomic<int> number{0};
  path_ = working_folder() / fmt::format("example_{}_{}", ::getpid(), number++);
  fs::create_directories(path_);
  files(path_.string());
}

ExampleFolder::~ExampleFolder() {
  std::error_code ignored;
  if (is_own_) fs::remove_all(path_, ignored);
}

std::string read_example(const StageExample& example, const fs::path& folder, Value& table) {
  constexpr std::string_view kFolder = "${folder}";
  std::string text = example.table;
  for (std::size_t at = 0; (at = text.find(kFolder, at)) != std::string::npos; at += folder.string().size()) {
    text.replace(at, kFolder.size(), folder.string());
  }
  Diagnostics errors;
  std::optional<Value> read = parse_toml(text, "example", errors);
  if (read) table = std::move(*read);
  return errors.text();
}

namespace {

double in_range(const ParamInfo& info, double wanted) {
  if (info.low) wanted = std::max(wanted, *info.low);
  if (info.high) wanted = std::min(wanted, *info.high);
  return wanted;
}

Value plausible_table(const std::vector<ParamInfo>& members) {
  Value table;
  for (const ParamInfo& member : members) {
    if (member.required) table.set(member.name, plausible(member));
  }
  return table;
}

bool asks_for_a_path(const std::string& name) {
  for (const char* word : {"path", "folder", "root", "url", "file", "images"}) {
    if (name.find(word) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

Value plausible(const ParamInfo& info) {
  const Value integer(static_cast<std::int64_t>(in_range(info, 4))), number(in_range(info, 0.5));
  const Value text(!info.choices.empty()        ? info.choices.front()
                   : asks_for_a_path(info.name) ? image_folder().string()
                   : info.name == "layer"       ? std::string("relu")  // for small_network()
                                                : std::string("a"));
  if (info.type == "integer") return integer;
  if (info.type == "number") return number;
  if (info.type == "true or false") return Value(true);
  if (info.type == "text") return text;
  if (info.type == "[low, high]") return Value(Array{number, number});
  if (info.type == "[height, width]") return Value(Array{integer, integer});
  const std::size_t length = std::max<std::size_t>(info.length, 1);
  if (info.type == "list of integers") return Value(Array(length, integer));
  if (info.type == "list of numbers") return Value(Array(length, number));
  if (info.type == "list of texts") return Value(Array(length, text));
  if (info.type == "list of true or false") return Value(Array(length, Value(true)));
  if (info.name == "sources") {
    Value source;
    source.set("stage", Value("read_folder"));
    source.set("path", Value(image_folder().string()));
    return Value(Array{source, source});
  }
  if (info.type == "table") return plausible_table(info.members);
  if (info.type == "list of tables") return Value(Array{plausible_table(info.members)});
  return integer;
}

Bench::Bench(const Registry& registry, bool with_replicas, ImageShape image) : network_(testkit::small_network(kImage, 5, 2)) {
  context_.graph = "test";
  context_.seed = 11;
  context_.image = context_.window = image;
  context_.run = &run_;
  run_.set_folder(image_folder());
  context_.registry = &registry;
  if (!with_replicas) return;
  backend_ = testkit::make_plain_backend();
  device_ = backend_->open(0, {});
  CompileOptions options;
  options.train_batch = options.infer_batch = kSamples;
  if (registry.optimizers().find("sgd") != nullptr) options.request.update = testkit::sgd(network_);
  for (int i = 0; i < 2; ++i) {
    replicas_.push_back(device_->compile(network_, options));
    replicas_.back()->start();
    context_.replicas.push_back(replicas_.back().get());
    context_.devices.push_back(device_.get());
    context_.load.push_back(1);
  }
  context_.network = &network_;
  context_.replica = 0;
  context_.batch_size = kSamples;
  context_.steps_per_epoch = 2;
  context_.total_steps = context_.last_step = 4;
}

std::string refusal(const StageType& type, const Value& table, const StepContext& context) {
  StepContext own = context;
  own.name = type.name;
  Diagnostics errors;
  try {
    if (type.create(table, own, errors)) return {};
    return errors.text();
  } catch (const Error& error) {
    return error.what();
  }
}

std::optional<Value> workable_table(const StageType& type, const StepContext& context, std::string& why) {
  const Value required = plausible_table(type.params);
  std::vector<Value> candidates{required};
  for (const ParamInfo& param : type.params) {
    if (param.required) continue;
    candidates.push_back(required);
    candidates.back().set(param.name, plausible(param));
  }
  for (const Value& table : candidates) {
    why = refusal(type, table, context);
    if (why.empty()) return table;
  }
  return std::nullopt;
}

void fill_sample(Sample& sample, std::uint32_t slot, std::string_view input_payload, ImageShape shape) {
  sample.url = fmt::format("sample/{}", slot);
  sample.label = static_cast<std::int32_t>(slot % 2);
  if (input_payload == payload::kSampleChunk) {
    const std::vector<std::uint8_t> bytes = grey_jpeg(shape.height, shape.width, static_cast<std::uint8_t>(10 * slot));
    std::memcpy(sample.encoded.resize(bytes.size()), bytes.data(), bytes.size());
    return;
  }
  const Image image = sample.new_image(shape);
  for (std::size_t i = 0; i < shape.bytes(); ++i) image.data[i] = static_cast<std::uint8_t>(7 * i + 31 * slot);
  sample.set_image(image, SourceMap{shape.height, shape.width, {}});
}

Ref<Batch> filled_batch(std::string_view input_payload, std::uint32_t samples, ImageShape image) {
  Ref<Batch> batch = testkit::make_batch(samples, image);
  for (std::uint32_t slot = 0; slot < samples; ++slot) fill_sample(batch->samples[slot], slot, input_payload, image);
  return batch;
}

std::vector<std::shared_ptr<const Optimizer>> workable_optimizers(const OptimizerType& type) {
  Value other;
  for (const ParamInfo& param : type.params) {
    if (param.type == "number") other.set(param.name, Value(0.5));
    if (param.type == "true or false") other.set(param.name, Value(true));
  }
  std::vector<std::shared_ptr<const Optimizer>> optimizers;
  for (const Value& table : {Value(), other}) {
    Diagnostics errors;
    if (auto optimizer = type.create(table, type.name, errors)) optimizers.push_back(std::move(optimizer));
  }
  return optimizers;
}

}  // namespace millrace::conformance
