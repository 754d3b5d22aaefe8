#include "millrace/metrics/class_matrix.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "millrace/util/output_file.h"

namespace millrace {
namespace {

void append_name(std::string& csv, const std::vector<std::string>& names, std::size_t c) {
  c < names.size() ? append_csv(csv, names[c]) : append_csv(csv, std::to_string(c));
}

// ",0.5"; what is a share of nothing is not defined, and empty.
void append_share(std::string& csv, double share, double of) {
  of > 0 ? fmt::format_to(std::back_inserter(csv), ",{}", share) : fmt::format_to(std::back_inserter(csv), ",");
}

}  // namespace

ClassMatrix::ClassMatrix(std::span<const double> counts)
    : counts_(counts), classes_(static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(counts.size()))))) {}

double ClassMatrix::occurring(std::size_t c) const {
  double sum = 0;
  for (std::size_t as = 0; as < classes_; ++as) sum += count(c, as);
  return sum;
}

double ClassMatrix::predicted(std::size_t c) const {
  double sum = 0;
  for (std::size_t of = 0; of < classes_; ++of) sum += count(of, c);
  return sum;
}

double ClassMatrix::total() const {
  double sum = 0;
  for (const double each : counts_) sum += each;
  return sum;
}

double ClassMatrix::accuracy(std::size_t c) const { return quotient(count(c, c), occurring(c)); }
double ClassMatrix::precision(std::size_t c) const { return quotient(count(c, c), predicted(c)); }
double ClassMatrix::f1(std::size_t c) const { return quotient(2 * count(c, c), occurring(c) + predicted(c)); }
double ClassMatrix::iou(std::size_t c) const { return quotient(count(c, c), occurring(c) + predicted(c) - count(c, c)); }

double ClassMatrix::accuracy() const {
  double right = 0;
  for (std::size_t c = 0; c < classes_; ++c) right += count(c, c);
  return quotient(right, total());
}

double ClassMatrix::mean(double (ClassMatrix::*figure)(std::size_t) const) const {
  double sum = 0, number = 0;
  for (std::size_t c = 0; c < classes_; ++c) {
    if (occurring(c) == 0) continue;
    sum += (this->*figure)(c);
    number += 1;
  }
  return quotient(sum, number);
}

double ClassMatrix::weighted_iou() const {
  double sum = 0;
  for (std::size_t c = 0; c < classes_; ++c) sum += occurring(c) * iou(c);
  return quotient(sum, total());
}

void append_confusion(std::string& csv, std::string_view begin, const ClassMatrix& matrix,
                      const std::vector<std::string>& names) {
  for (std::size_t of = 0; of < matrix.classes(); ++of) {
    const double all = matrix.occurring(of);
    for (std::size_t as = 0; as < matrix.classes(); ++as) {
      csv += begin;
      append_name(csv, names, of);
      csv += ',';
      append_name(csv, names, as);
      const double count = matrix.count(of, as);
      fmt::format_to(std::back_inserter(csv), ",{}", count);
      append_share(csv, quotient(count, all), all);
      csv += "\r\n";
    }
  }
}

void append_classes(std::string& csv, std::string_view begin, const ClassMatrix& matrix, const std::vector<std::string>& names) {
  for (std::size_t c = 0; c < matrix.classes(); ++c) {
    csv += begin;
    append_name(csv, names, c);
    const double occurring = matrix.occurring(c), predicted = matrix.predicted(c);
    fmt::format_to(std::back_inserter(csv), ",{}", occurring);
    append_share(csv, matrix.accuracy(c), occurring);
    append_share(csv, matrix.precision(c), predicted);
    append_share(csv, matrix.f1(c), occurring + predicted);
    append_share(csv, matrix.iou(c), occurring + predicted);
    csv += "\r\n";
  }
}

}  // namespace millrace
