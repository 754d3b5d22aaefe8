#include "read_annotations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "label_map.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/sample.h"
#include "millrace/storage.h"
#include "millrace/util/annotation_files.h"
#include "millrace/util/colour.h"
#include "millrace/util/image_size.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

constexpr std::uint8_t kIgnored = 255;
constexpr const char* kBackground = "background";
constexpr std::size_t kChannels = 3;  // of objects that are cut out

struct GivenClass {
  std::string name, colour;
};

// "cat" or { name = "cat", colour = "#804080" }. Label values of masks have no meaning here.
std::vector<GivenClass> given_classes(const Value& value) {
  std::vector<GivenClass> classes;
  if (value.kind() == Value::Kind::table && value.table().empty()) return classes;  // left out
  if (value.kind() != Value::Kind::array) fail(ErrorKind::usage, "classes: expected a list of names, found {}", found(value));
  for (const Value& entry : value.array()) {
    const std::string key = fmt::format("classes[{}]", classes.size());
    const Value* const name = entry.kind() == Value::Kind::text ? &entry : entry.find("name");
    if (name == nullptr || name->kind() != Value::Kind::text)
      fail(ErrorKind::usage, "{}: expected a name, or {{ name = \"...\" }}, found {}", key, found(entry));
    if (entry.find("ids") != nullptr)
      fail(ErrorKind::usage, "{}: annotations name their classes: remove `ids`, which are values of label images", key);
    const Value* const colour = entry.find("colour");
    if (std::ranges::find(classes, name->text(), &GivenClass::name) != classes.end())
      fail(ErrorKind::usage, "{}: '{}' is listed twice", key, name->text());
    classes.push_back({name->text(), colour != nullptr && colour->kind() == Value::Kind::text ? colour->text() : ""});
    if (!classes.back().colour.empty()) {
      const auto [red, green, blue] = parse_colour(classes.back().colour, fmt::format("{}: class '{}'", key, name->text()));
      classes.back().colour = fmt::format("#{:02x}{:02x}{:02x}", red, green, blue);
    }
  }
  return classes;
}

ShapeRules rules_of(const ReadAnnotations::Params& params) {
  ShapeRules rules;
  const bool are_columns = params.target == ReadAnnotations::Made::labels || params.target == ReadAnnotations::Made::counts;
  for (const GivenClass& entry : given_classes(params.classes)) rules.classes.push_back(entry.name);
  if (are_columns) rules.classes = params.numbers;
  rules.leave_out = params.leave_out;
  rules.ignored = {params.ignored.begin(), params.ignored.end()};
  rules.keeps_outlines = params.target == ReadAnnotations::Made::map;
  rules.needs_sizes = rules.keeps_outlines || params.samples == "objects";
  rules.refuses_unknown = !are_columns;
  return rules;
}

void refuse_choices_by_class(const SourceParams& sampling, const char* why) {
  const char* key = !sampling.only.empty()            ? "only"
                    : sampling.balance                ? "balance"
                    : !sampling.class_weights.empty() ? "class_weights"
                                                      : nullptr;
  if (key) fail(ErrorKind::usage, "{}: {}", key, why);
}

}  // namespace

namespace {

// Two images with a shape each.
void write_example(const std::string& folder) {
  const std::vector<std::uint8_t> pixels(64, 90);
  ByteBuffer png;
  write_png(pixels.data(), 8, 8, png);
  std::filesystem::create_directories(folder + "/images");
  for (const char* name : {"a", "b"}) {
    std::ofstream file(fmt::format("{}/images/{}.png", folder, name), std::ios::binary);
    file.write(reinterpret_cast<const char*>(png.data()), static_cast<std::streamsize>(png.size()));
  }
  std::ofstream(folder + "/shapes.json") << R"({"images": [{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "b.png"}],
"categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
"annotations": [{"image_id": 1, "category_id": 1, "bbox": [1, 1, 4, 4]}, {"image_id": 2, "category_id": 2, "bbox": [2, 0, 5, 8]}]})";
}

}  // namespace

void ReadAnnotations::describe(StageDescription<Params>& d) {
  constexpr const char* kExample = "images = '${folder}/images'\nannotations = '${folder}/shapes.json'\n";
  d.name("read_annotations")
      .text("Reads images with targets made from the shapes in annotations.")
      .example(kExample, &write_example)
      .example(std::string(kExample) + "target = 'map'", &write_example);
  d.params.add("images", &Params::images).required().text("folder of the images; a path or a URL");
  d.params.add("annotations", &Params::annotations)
      .required()
      .text("a file of annotations, or a folder of them; the format is found by content");
  d.params.add("folder", &Params::folder)
      .text("use only images in this folder of `images`; the annotations may be those of others too");
  d.params
      .add("target", &Params::target,
           {{"class", Made::one_class}, {"labels", Made::labels}, {"counts", Made::counts}, {"map", Made::map}})
      .text(
          "class: that of all shapes in an image; labels: 1 for each of `numbers` with a shape, else 0; counts: their shapes; "
          "map: "
          "a class for each pixel");
  d.params.add("classes", &Params::classes)
      .text(
          "names of the classes, or { name = ..., colour = \"#rrggbb\" }, in the network's order; default: the annotations'. "
          "Maps "
          "begin with \"background\" unless it is listed");
  d.params.add("numbers", &Params::numbers).text("classes that are counted: the numbers to predict");
  d.params.add("ignored", &Params::ignored).text("classes whose shapes are ignored, as crowds are");
  d.params.add("leave_out", &Params::leave_out)
      .text("classes to leave out, as if they had no shapes; * matches any text. Those in `classes` stay");
  d.params.add("samples", &Params::samples)
      .choices({"images", "objects"})
      .text("objects: each shape is a sample, cut out of its image; for target = \"class\"");
  d.params.add("margin", &Params::margin)
      .range(0, 10)
      .text("what is cut out around an object, on each side, as a share of its width and height");
  d.params.add("empty", &Params::empty)
      .choices({"auto", "background", "refuse", "leave out"})
      .text(
          "images without shapes: of the class \"background\", an error, or left out; auto: background, but an error for target "
          "= \"class\"");
  d.params.add("unpaired", &Params::unpaired)
      .choices({"fail", "skip"})
      .text("annotated images without a file: an error, or skipped");
  SourceParams::describe(d.params);
}

ReadAnnotations::ReadAnnotations(const Params& params, const StageSite& site)
    : Source(params),
      registry_(site.registry),
      run_(site.run),
      table_(fmt::format("{}.{}", site.graph, site.name)),
      images_(params.images),
      annotations_(params.annotations),
      root_(join_url(params.images, "")),
      made_(params.target),
      has_objects_(params.samples == "objects"),
      margin_(params.margin),
      skips_missing_(params.unpaired == "skip"),
      folder_(params.folder.empty() ? "" : join_url(params.folder, "")),
      empty_(params.empty),
      rules_(rules_of(params)),
      image_storage_(storage_for(site, "images", params.images, Storage::Kind::folder)) {
  storage_for(site, "annotations", params.annotations);  // throws if nothing is there
  for (const GivenClass& entry : given_classes(params.classes)) given_colours_.push_back(entry.colour);
  if (made_ == Made::labels || made_ == Made::counts) {
    columns_ = params.numbers;
    if (columns_.empty()) fail(ErrorKind::usage, "numbers: expected the classes to learn, such as [\"cat\", \"dog\"]");
    if (const std::set<std::string> names(columns_.begin(), columns_.end()); names.size() != columns_.size())
      fail(ErrorKind::usage, "numbers: a class is listed twice");
    refuse_choices_by_class(params, "images have several labels here");
  }
  if (has_objects_ && made_ != Made::one_class) fail(ErrorKind::usage, "samples: objects have a class each: target = \"class\"");
  if (made_ == Made::map) refuse_choices_by_class(params, "pixels have classes here, images do not");
  if (empty_ == "auto") empty_ = made_ == Made::one_class ? "refuse" : "background";
}

std::optional<TargetSpec> ReadAnnotations::target() const {
  if (made_ != Made::map) return {};
  TargetSpec target;
  target.kind = TargetSpec::Kind::classes;
  target.ignored = kIgnored;
  for (std::size_t value = 0; value < target.classes.size(); ++value) target.classes[value] = static_cast<std::uint8_t>(value);
  return target;
}

void ReadAnnotations::list_images() {
  image_storage_.list(images_, [&](const Storage::Object& object) {
    if (!usual_images().match(object.name)) {
      if (seems_to_be_an_image(object.name)) {
        const std::string ends = usual_images().text();
        left_out_.add({"file without the extension " + ends, "files without the extension " + ends}, object.name);
      }
      return;
    }
    names_.add(object.name);
    listed_bytes_.push_back(object.bytes);
    listed_versions_.push_back(fingerprint_of(object));
  });
  if (names_.size() == 0)
    fail(ErrorKind::data, "no image in '{}': expected files that end in {}", images_, usual_images().text());
}

void ReadAnnotations::read_files(ShapeList& shapes) {
  const FoundAnnotations found(*registry_, annotations_);
  fingerprint_ = combine(fingerprint_, found.fingerprint());
  if (found.unknown() > 0)
    left_out_.add({"file of annotations in no known format", "files of annotations in no known format"}, found.first_unknown(),
                  found.unknown());
  found.read(shapes);
  if (!found.list_empty_images()) shapes.add_unlisted();
}

// "background" first, unless it is one of the names; for maps, and for images without shapes.
std::vector<std::string> ReadAnnotations::classes_with_background(const std::vector<std::string>& names) const {
  const bool has_background = made_ == Made::map || (made_ == Made::one_class && empty_ == "background");
  std::vector<std::string> all = names;
  if (has_background && std::ranges::find(names, kBackground) == names.end()) all.insert(all.begin(), kBackground);
  return all;
}

void ReadAnnotations::choose_classes() {
  const std::vector<std::string>& names = shapes_->class_names();
  if (made_ == Made::labels || made_ == Made::counts) return;
  classes_ = classes_with_background(names);
  const auto background = std::ranges::find(classes_, kBackground);
  if (background != classes_.end()) background_ = static_cast<std::uint8_t>(background - classes_.begin());
  if (made_ == Made::map && classes_.size() > kIgnored)
    fail(ErrorKind::data,
         "'{}' has {} classes with the background; a label map can have {}: choose some by `classes`, and leave_out = [\"*\"]",
         line_text(annotations_), classes_.size(), kIgnored);
  const std::size_t before = classes_.size() - names.size();
  for (std::size_t label = 0; label < names.size(); ++label) map_labels_.push_back(static_cast<std::int32_t>(label + before));
  if (std::ranges::all_of(given_colours_, &std::string::empty)) return;
  if (std::ranges::any_of(given_colours_, &std::string::empty))
    fail(ErrorKind::usage, "classes: name the colours of all classes, or of none");
  colours_ = given_colours_;
  if (before > 0) colours_.insert(colours_.begin(), "#000000");
}

void ReadAnnotations::add_sample(const ShapeList::Image& image, std::int32_t label) {
  paths_.add(names_[image.name]);
  const std::uint64_t bytes = listed_bytes_[image.name];
  bytes_.push_back(saturated_size(bytes));
  fingerprint_ = combine(fingerprint_, listed_versions_[image.name]);
  std::size_t largest = bytes;
  if (made_ == Made::one_class) labels_.push_back(label);
  if (made_ == Made::map) {
    drawn_.push_back(image);
    largest += png_bytes(image.size.width, image.size.height);
  }
  if (has_objects_) {
    const Object& object = objects_.back();
    largest = static_cast<std::size_t>(object.width) * static_cast<std::size_t>(object.height) * kChannels;
  }
  largest_ = std::max(largest_, largest);
}

// The bounding box of each shape with its margin, in whole pixels, within the image.
void ReadAnnotations::add_objects(const ShapeList::Image& image) {
  for (std::uint64_t i = image.begin; i < image.end; ++i) {
    const StoredShape& shape = shapes_->shapes()[i];
    if (shape.label == StoredShape::kIgnored) continue;
    const auto [width, height] = image.size;
    Object object{image.size, 0, 0, width, height};
    if (shape.kind != AnnotatedShape::Kind::image) {
      const auto [left, top, right, bottom] = shape.box;
      const double x = margin_ * (right - left), y = margin_ * (bottom - top);
      const auto within = [](double value, int side) {
        return static_cast<int>(std::clamp(value, 0., static_cast<double>(side)));
      };
      object.left = within(std::floor(left - x), width - 1);
      object.top = within(std::floor(top - y), height - 1);
      object.width = std::max(within(std::ceil(right + x), width) - object.left, 1);
      object.height = std::max(within(std::ceil(bottom + y), height) - object.top, 1);
    }
    objects_.push_back(object);
    add_sample(image, map_labels_[static_cast<std::size_t>(shape.label)]);
  }
}

void ReadAnnotations::take(const ShapeList::Image& image) {
  if (has_objects_) return add_objects(image);
  std::set<std::int32_t> labels;
  std::vector<float> counts(columns_.size());
  for (std::uint64_t i = image.begin; i < image.end; ++i) {
    const StoredShape& shape = shapes_->shapes()[i];
    if (shape.label == StoredShape::kIgnored) continue;
    labels.insert(shape.label);
    if (!counts.empty()) counts[static_cast<std::size_t>(shape.label)] += 1;
  }
  const std::string& name = names_[image.name];
  if (image.begin == image.end) {
    if (empty_ == "leave out") return left_out_.add({"image without shapes", "images without shapes"}, name);
    if (empty_ == "refuse")
      fail(ErrorKind::data,
           "'{}' has no shapes: empty = \"background\" gives such images the class \"background\", and \"leave out\" "
           "leaves them out; with data.path, --set 'data.empty=leave out'",
           line_text(join_url(images_, name)));
  } else if (made_ == Made::one_class && labels.empty()) {
    return left_out_.add({"image with ignored shapes alone", "images with ignored shapes alone"}, name);
  }
  if (made_ == Made::one_class && labels.size() > 1) {
    const std::vector<std::string>& names = shapes_->class_names();
    fail(ErrorKind::data,
         "'{}' has shapes of classes '{}' and '{}', and its class is not known: several labels of an image are "
         "learned by extends = \"labels\", and pixels by \"segment\"",
         line_text(join_url(images_, name)), line_text(names[static_cast<std::size_t>(*labels.begin())]),
         line_text(names[static_cast<std::size_t>(*labels.rbegin())]));
  }
  const std::int32_t label = made_ != Made::one_class ? -1
                             : labels.empty()         ? background_
                                                      : map_labels_[static_cast<std::size_t>(*labels.begin())];
  add_sample(image, label);
  for (const float count : counts) numbers_.push_back(made_ == Made::labels ? std::min(count, 1.F) : count);
}

void ReadAnnotations::make_decoder() {
  const StageType* const type = registry_->stages().find("decode_image");
  if (type == nullptr) fail(ErrorKind::usage, "samples: objects need the stage decode_image, which no plugin provides");
  StepContext context;
  context.graph = table_;
  context.name = "decode_image";
  context.registry = registry_;
  Diagnostics errors;
  decoder_ = std::dynamic_pointer_cast<SampleTransform>(type->create(Value(), context, errors));
  errors.throw_if_any();
  decoder_->open();
}

// Gives the object's pixels as decoded ones.
void ReadAnnotations::cut_out(std::uint64_t index, Sample& sample) const {
  thread_local Sample whole;
  whole.reset(sample.key, {});
  whole.url = sample.url;
  read_sample_file(image_storage_, sample.url, whole.encoded);
  Draw none(0, sample.key, 0);
  decoder_->process(whole, none);
  const ImageView image = whole.image();
  const Object& object = objects_[index];
  if (image.shape.width != object.image.width || image.shape.height != object.image.height)
    fail(ErrorKind::content, "the image is {} x {}, and the annotations were made on {} x {} pixels (width x height)",
         image.shape.width, image.shape.height, object.image.width, object.image.height);
  sample.decoded = {object.height, object.width, static_cast<int>(kChannels)};
  std::uint8_t* out = sample.encoded.resize(sample.decoded.bytes());
  const std::size_t row = static_cast<std::size_t>(object.width) * kChannels;
  for (int y = 0; y < object.height; ++y, out += row) {
    const std::size_t at = static_cast<std::size_t>(object.top + y) * static_cast<std::size_t>(image.shape.width) +
                           static_cast<std::size_t>(object.left);
    std::memcpy(out, image.data + at * kChannels, row);
  }
}

void ReadAnnotations::open() {
  if (has_objects_) make_decoder();
  list_images();
  const auto size_of = [&](std::uint32_t image) -> std::optional<ImageSize> {
    ByteBuffer bytes;
    const std::string url = join_url(images_, names_[image]);
    constexpr std::uint64_t kBegin = 64 * 1024;
    for (const std::uint64_t some : {std::min(kBegin, listed_bytes_[image]), listed_bytes_[image]}) {
      bytes.resize(some);
      if (some > 0) image_storage_.read(url, 0, some, bytes.data());
      if (const auto size = image_size({bytes.data(), bytes.size()})) return size;
    }
    return {};
  };
  shapes_ = std::make_unique<ShapeList>(rules_, names_, size_of);
  read_files(*shapes_);
  shapes_->finish();
  if (const std::vector<std::string>& missing = shapes_->missing(); !missing.empty()) {
    const std::string what = fmt::format("{} has no matching image in '{}'{}", missing.front(), line_text(images_),
                                         missing.size() == 1 ? "" : fmt::format(", one of {} such images", missing.size()));
    if (!skips_missing_)
      fail(ErrorKind::data, "{0}; unpaired = \"skip\" in [{1}] leaves them out, with data.path --set data.unpaired=skip", what,
           table_);
    if (run_) run_->warn(what + ", and is left out");
  }
  choose_classes();
  std::vector<ShapeList::Image> images = shapes_->images();
  std::ranges::sort(images, [&](const auto& a, const auto& b) { return names_[a.name] < names_[b.name]; });
  for (const ShapeList::Image& image : images) {
    if (is_in_folder(image.name)) take(image);
  }
  if (paths_.size() == 0)
    fail(ErrorKind::data, "'{}' leaves no image of '{}' to read", line_text(annotations_), line_text(images_));
  paths_.finish();
  std::vector<char> is_listed(names_.size());
  for (const ShapeList::Image& image : images) is_listed[image.name] = 1;
  for (std::size_t name = 0; name < names_.size(); ++name) {
    if (is_listed[name] == 0 && is_in_folder(name))
      left_out_.add({"image without annotations", "images without annotations"}, names_[name]);
  }
  warn_of_skipped();
  names_ = {};
  listed_bytes_ = {};
  listed_versions_ = {};
}

void ReadAnnotations::warn_of_skipped() const {
  if (run_ == nullptr) return;
  if (!left_out_.empty()) run_->warn(left_out_.text(images_));
  if (!shapes_->skipped().empty()) run_->warn(shapes_->skipped().text(annotations_));
  const std::string unused = shapes_->unused_patterns(annotations_);
  if (!unused.empty()) run_->warn(unused);
  const std::string lacking = classes_without("shape", shapes_->class_names(), shapes_->counts(), annotations_);
  if (!lacking.empty()) run_->warn(lacking);
  const auto is_box = [](const StoredShape& shape) { return shape.kind == AnnotatedShape::Kind::box; };
  if (made_ == Made::map && !shapes_->shapes().empty() && std::ranges::all_of(shapes_->shapes(), is_box))
    run_->warn(fmt::format("'{}' has boxes alone: the label maps consist of rectangles", line_text(annotations_)));
}

std::uint64_t ReadAnnotations::listing_hash() const {
  const std::uint64_t numbers = hash_bytes(numbers_.data(), numbers_.size() * sizeof(float));
  return combine(combine(paths_.hash(), numbers), Source::listing_hash());
}

bool ReadAnnotations::place(std::uint64_t index, SampleOrigin& origin) const {
  origin.url.assign(root_);
  paths_.append(index, origin.url);
  return true;
}

void ReadAnnotations::draw(const ShapeList::Image& image, std::uint8_t* pixels) const {
  LabelMap map(pixels, image.size.width, image.size.height);
  map.fill(background_);
  for (const bool ignored : {true, false}) {
    for (std::uint64_t i = image.begin; i < image.end; ++i) {
      const StoredShape& shape = shapes_->shapes()[i];
      if ((shape.label == StoredShape::kIgnored) != ignored) continue;
      const std::uint8_t value =
          ignored ? kIgnored : static_cast<std::uint8_t>(map_labels_[static_cast<std::size_t>(shape.label)]);
      std::span<const std::int32_t> outline = shapes_->outline(shape);
      if (shape.kind == AnnotatedShape::Kind::mask) {
        map.runs(outline, value);
        continue;
      }
      while (!outline.empty()) {
        const auto count = static_cast<std::size_t>(outline.front());
        map.polygon(outline.subspan(1, count), value);
        outline = outline.subspan(1 + count);
      }
    }
  }
}

void ReadAnnotations::read(Sample& sample) {
  const std::uint64_t index = sample.key.index;
  place(index, sample);
  sample.label = label(index);
  const std::size_t width = columns_.size();
  sample.numbers.assign(numbers_.data() + index * width, numbers_.data() + (index + 1) * width);
  if (has_objects_) return cut_out(index, sample);
  read_sample_file(image_storage_, sample.url, sample.encoded);
  if (made_ != Made::map) return;
  sample.target_url.assign(annotations_);
  const ShapeList::Image& image = drawn_[index];
  const ImageSize& size = image.size;
  const auto seen = image_size({sample.encoded.data(), sample.encoded.size()});
  const bool fits = seen && ((seen->width == size.width && seen->height == size.height) ||
                             (seen->width == size.height && seen->height == size.width));
  if (seen && !fits)  // others are compared when they are decoded
    fail(ErrorKind::content, "the image is {} x {}, and the annotations were made on {} x {} pixels (width x height)",
         seen->width, seen->height, size.width, size.height);
  thread_local ByteBuffer pixels;
  draw(image, pixels.resize(static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.height)));
  write_png(pixels.data(), size.width, size.height, sample.encoded_target);
}

std::size_t ReadAnnotations::memory_bound() const {
  return paths_.memory() + (shapes_ ? shapes_->memory() : 0) + bytes_.capacity() * sizeof(std::uint32_t) +
         labels_.capacity() * sizeof(std::int32_t) + numbers_.capacity() * sizeof(float) +
         drawn_.capacity() * sizeof(ShapeList::Image) + objects_.capacity() * sizeof(Object);
}

}  // namespace millrace

MILLRACE_PLUGIN("read_annotations", "1.0", "Images with annotations of labelling tools.") {
  registry.add_stage<millrace::ReadAnnotations>();
}
