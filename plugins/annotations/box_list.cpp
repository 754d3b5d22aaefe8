// Lists of boxes (.csv): a box in each line, with columns for the file, the corners and the class, under any of their usual
// names. A line without corners is an image without boxes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "millrace/annotation.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/text.h"
#include "text_values.h"

namespace millrace {

namespace {

using Names = std::vector<std::string_view>;
const std::array<Names, 8> kColumns = {
    Names{"filename", "file_name", "file", "image", "image_path", "image_id", "imageid", "path", "image_name"},
    Names{"xmin", "x_min", "x1", "left"},
    Names{"ymin", "y_min", "y1", "top"},
    Names{"xmax", "x_max", "x2", "right"},
    Names{"ymax", "y_max", "y2", "bottom"},
    Names{"class", "label", "name", "class_name", "label_name", "labelname", "category"},
    Names{"width", "image_width"},
    Names{"height", "image_height"}};
enum Column { kFile, kLeft, kTop, kRight, kBottom, kClass, kWidth, kHeight };
constexpr std::size_t kRequired = 6;

// Fields of a line; a quoted one may hold separators and doubled quotes.
std::vector<std::string> fields_of(std::string_view line, char separator) {
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && is_quoted && i + 1 < line.size() && line[i + 1] == '"')
      fields.back() += line[++i];
    else if (c == '"')
      is_quoted = !is_quoted;
    else if (c == separator && !is_quoted)
      fields.emplace_back();
    else
      fields.back() += c;
  }
  for (std::string& field : fields) field = trimmed(field);
  return fields;
}

char separator_of(std::string_view line) { return std::ranges::count(line, ';') > std::ranges::count(line, ',') ? ';' : ','; }

// The position of each of kColumns; empty if the header lacks a required one.
std::optional<std::array<std::optional<std::size_t>, kColumns.size()>> columns_in(const std::vector<std::string>& header) {
  std::array<std::optional<std::size_t>, kColumns.size()> columns;
  for (std::size_t column = 0; column < kColumns.size(); ++column) {
    for (const std::string_view name : kColumns[column]) {
      const auto found = std::ranges::find_if(header, [&](const std::string& each) { return lower_case(each) == name; });
      if (found != header.end() && !columns[column]) columns[column] = static_cast<std::size_t>(found - header.begin());
    }
    if (!columns[column] && column < kRequired) return {};
  }
  return columns;
}

class BoxList : public AnnotationFormat {
 public:
  bool recognises(std::string_view name, std::string_view begin) const override {
    constexpr std::string_view kMark = "\xef\xbb\xbf";
    if (begin.starts_with(kMark)) begin.remove_prefix(kMark.size());
    if (!lower_case(name).ends_with(".csv") || begin.empty()) return false;
    const std::string_view line = next_line(begin);
    return columns_in(fields_of(line, separator_of(line))).has_value();
  }

  void read(AnnotationFiles& files, AnnotationSink& sink) const override {
    for (std::size_t file = 0; file < files.size(); ++file) {
      std::string_view text = files.text(file);
      const std::string place = files.place(file);
      const std::string_view head = next_line(text);
      const char separator = separator_of(head);
      const std::vector<std::string> header = fields_of(head, separator);
      const auto columns = columns_in(header);
      for (std::size_t number = 2; !text.empty(); ++number) {
        const std::string_view line = next_line(text);
        if (trimmed(line).empty()) continue;
        const std::string at = fmt::format("{}:{}", place, number);
        try {
          const std::vector<std::string> fields = fields_of(line, separator);
          if (fields.size() != header.size()) fail(ErrorKind::data, "{} fields instead of {}", fields.size(), header.size());
          read_box(fields, *columns, at, sink);
        } catch (Error& error) {
          throw error.in(at);
        }
      }
    }
  }

 private:
  static void read_box(const std::vector<std::string>& fields,
                       const std::array<std::optional<std::size_t>, kColumns.size()>& columns, const std::string& place,
                       AnnotationSink& sink) {
    const auto text = [&](Column column) -> const std::string& { return fields[*columns[column]]; };
    const auto number = [&](Column column) {
      const auto value = parsed_number(text(column));
      if (!value) fail(ErrorKind::data, "'{}' is not a number", shown(text(column), 40));
      return *value;
    };
    AnnotatedImage image{.name = text(kFile), .may_repeat = true, .place = place};
    if (columns[kWidth] && columns[kHeight]) {
      image.width = whole_number(number(kWidth));
      image.height = whole_number(number(kHeight));
    }
    const std::uint32_t listed = sink.image(image);
    if (text(kLeft).empty() && text(kTop).empty() && text(kRight).empty() && text(kBottom).empty()) return;
    AnnotatedShape shape;
    shape.label = text(kClass);
    shape.box = {number(kLeft), number(kTop), number(kRight), number(kBottom)};
    sink.shape(listed, shape);
  }
};

MILLRACE_PART { registry.add(AnnotationType{{"box_list", "Lists of boxes in CSV"}, std::make_shared<BoxList>()}); }

}  // namespace
}  // namespace millrace
