// YOLO (docs.ultralytics.com/datasets): a text for each image, labels/1.txt of images/1.jpg, with a shape in each line: the
// class, then a box's centre and size, or the corners of a polygon, as shares of the image. A .yaml file, or classes.txt, names
// the classes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ranges>

#include "millrace/annotation.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/text.h"
#include "text_values.h"

namespace millrace {

namespace {

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }  // npos + 1 is 0
bool is_yaml(const std::string& name) { return name.ends_with(".yaml") || name.ends_with(".yml"); }

std::string unquoted(std::string_view text) {
  text = trimmed(text);
  const bool is_quoted = text.size() > 1 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front();
  return std::string(is_quoted ? text.substr(1, text.size() - 2) : text);
}

std::string_view without_comment(std::string_view line) {
  const std::size_t at = line.find(" #");
  return line.starts_with('#') ? std::string_view() : line.substr(0, at);
}

// The names under `names:`, which YAML writes as [a, b], {0: a, 1: b}, or a line for each, "- a" or "0: a".
std::vector<std::string> names_in_yaml(std::string_view text, const std::string& place) {
  std::vector<std::string> names;
  std::size_t number = 0;
  const auto add = [&](std::string_view entry) {
    const std::size_t colon = entry.find(':');
    const auto index = colon == entry.npos ? std::nullopt : parsed_number(entry.substr(0, colon));
    if (index && *index != static_cast<double>(names.size()))
      fail(ErrorKind::data, "{}:{}: class {} is named after {} others: expected 0, 1, ... in this order", place, number, *index,
           names.size());
    names.push_back(unquoted(index ? entry.substr(colon + 1) : entry));
  };
  bool is_inside = false, is_flow = false;
  std::string flow;
  while (!text.empty()) {
    const std::string_view line = without_comment(next_line(text));
    ++number;
    std::string_view content = trimmed(line);
    if (content.empty()) continue;
    if (is_flow) {
      flow += content;
    } else if (line.starts_with("names:")) {
      content = trimmed(line.substr(6));
      is_inside = content.empty();
      is_flow = content.starts_with('[') || content.starts_with('{');
      if (is_flow) flow = content;
    } else if (is_inside && (line.front() == ' ' || line.front() == '-' || line.front() == '\t')) {
      if (content.starts_with("- ")) content.remove_prefix(2);
      add(content);
    } else {
      is_inside = false;
    }
    if (is_flow && (flow.ends_with(']') || flow.ends_with('}'))) {
      const std::string entries = flow.substr(1, flow.size() - 2);
      for (const std::string_view entry : split(entries, ',')) {
        if (!trimmed(entry).empty()) add(trimmed(entry));
      }
      is_flow = false;
    }
  }
  return names;
}

// "images/train/1" of "labels/train/1.txt": the last folder `labels` is the images' folder there.
std::string image_of(const std::string& file) {
  std::string path = file.substr(0, file.rfind('.'));
  constexpr std::string_view kLabels = "labels/";
  const std::size_t at = ("/" + path).rfind("/labels/");
  if (at != path.npos) path.replace(at, kLabels.size(), "images/");
  return path;
}

class Yolo : public AnnotationFormat {
 public:
  bool recognises(std::string_view name, std::string_view begin) const override {
    const std::string lower = lower_case(name);
    if (is_yaml(lower)) return begin.starts_with("names:") || begin.find("\nnames:") != begin.npos;
    if (!lower.ends_with(".txt")) return false;
    if (last_part(lower) == "classes.txt" || begin.empty()) return true;
    while (!begin.empty()) {
      const std::string_view line = next_line(begin);
      const std::vector<std::string_view> values = words(line);
      if (values.empty()) continue;
      return values.size() >= 5 && parsed_number(values[0]) && parsed_number(values[1]) && parsed_number(values[4]);
    }
    return true;
  }

  bool lists_empty_images() const override { return false; }

  void read(AnnotationFiles& files, AnnotationSink& sink) const override {
    const std::vector<std::string> names = class_names(files);
    sink.classes(names);
    for (std::size_t file = 0; file < files.size(); ++file) {
      const std::string& name = files.name(file);
      if (!is_yaml(lower_case(name)) && last_part(name) != "classes.txt") read_image(files, file, names, sink);
    }
  }

 private:
  static std::vector<std::string> class_names(AnnotationFiles& files) {
    std::vector<std::string> names;
    std::string from;
    for (std::size_t file = 0; file < files.size(); ++file) {
      const std::string& name = files.name(file);
      std::vector<std::string> found;
      if (is_yaml(lower_case(name))) {
        found = names_in_yaml(files.text(file), files.place(file));
      } else if (last_part(name) == "classes.txt") {
        for (std::string_view text = files.text(file); !text.empty();) {
          if (const std::string_view line = trimmed(next_line(text)); !line.empty()) found.emplace_back(line);
        }
      }
      if (found.empty() || found == names) continue;
      if (!names.empty()) fail(ErrorKind::data, "'{}' and '{}' name different classes", from, files.place(file));
      names = found;
      from = files.place(file);
    }
    const auto has_text = [&](std::size_t file) { return !trimmed(files.text(file)).empty(); };
    if (names.empty() && std::ranges::any_of(std::views::iota(std::size_t{0}, files.size()), has_text)) {
      fail(ErrorKind::data,
           "'{}': no .yaml file with `names` and no classes.txt names the classes: annotations must be that .yaml, or a "
           "folder with it",
           files.place(0));
    }
    return names;
  }

  static void read_image(AnnotationFiles& files, std::size_t file, const std::vector<std::string>& names, AnnotationSink& sink) {
    const std::string place = files.place(file);
    const std::string& name = files.name(file);
    std::size_t number = 0;
    try {
      const std::uint32_t image =
          sink.image({.name = image_of(name), .other_name = name.substr(0, name.rfind('.')), .place = place});
      for (std::string_view text = files.text(file); !text.empty();) {
        const std::string_view line = next_line(text);
        ++number;
        if (const auto values = words(line); !values.empty()) sink.shape(image, shape_of(values, names));
      }
    } catch (Error& error) {
      throw error.in(fmt::format("{}:{}", place, std::max<std::size_t>(number, 1)));
    }
  }

  static AnnotatedShape shape_of(const std::vector<std::string_view>& line, const std::vector<std::string>& names) {
    constexpr double kSlack = 0.01;  // of rounding
    std::vector<double> values;
    for (const std::string_view word : line) {
      const auto value = parsed_number(word);
      if (!value) fail(ErrorKind::data, "'{}' is not a number", shown(word, 40));
      if (!values.empty() && !(*value >= -kSlack && *value <= 1 + kSlack))
        fail(ErrorKind::data, "{} is not a share of the image: expected 0 to 1", *value);
      values.push_back(*value);
    }
    if (!(values[0] >= 0 && values[0] < static_cast<double>(names.size())) || values[0] != std::floor(values[0]))
      fail(ErrorKind::data, "class {} is unknown: {} are named, from 0 on", values[0], names.size());
    AnnotatedShape shape;
    shape.label = names[static_cast<std::size_t>(values[0])];
    shape.is_relative = true;
    if (values.size() == 5) {
      shape.box = {values[1] - values[3] / 2, values[2] - values[4] / 2, values[1] + values[3] / 2, values[2] + values[4] / 2};
      return shape;
    }
    if (values.size() < 7 || values.size() % 2 == 0)
      fail(ErrorKind::data, "{} numbers: expected a class and 4 for a box, or 2 for each corner of a polygon{}", values.size(),
           values.size() == 6 ? "; predictions with their confidence are not annotations" : "");
    shape.kind = AnnotatedShape::Kind::polygon;
    shape.polygons.emplace_back(values.begin() + 1, values.end());
    return shape;
  }
};

MILLRACE_PART {
  registry.add(AnnotationType{{"yolo", "YOLO's texts with data.yaml: boxes, polygons"}, std::make_shared<Yolo>()});
}

}  // namespace
}  // namespace millrace
