#include "millrace/metrics/class_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "millrace/util/output_file.h"

namespace millrace {
namespace {

void append_name(std::string& csv, const std::vector<std::string>& names, std::size_t c) {
  c < names.size() ? append_csv(csv, names[c]) : append_csv(csv, std::to_string(c));
}

// Appends ",0.5"; a share of 0 is undefined, and left empty.
void append_share(std::string& csv, double share, double of) {
  of > 0 ? fmt::format_to(std::back_inserter(csv), ",{}", share) : fmt::format_to(std::back_inserter(csv), ",");
}

}  // namespace

ClassTotals::ClassTotals(std::span<const double> totals) : totals_(totals.begin(), totals.end()) {}

void ClassTotals::add(std::size_t of, std::size_t as, double count) {
  totals_[of] += count;
  totals_[classes() + as] += count;
  if (of == as) totals_[2 * classes() + of] += count;
}

double ClassTotals::total() const {
  return std::accumulate(totals_.begin(), totals_.begin() + static_cast<std::ptrdiff_t>(classes()), 0.0);
}

double ClassTotals::accuracy() const {
  return quotient(std::accumulate(totals_.begin() + static_cast<std::ptrdiff_t>(2 * classes()), totals_.end(), 0.0), total());
}

double ClassTotals::mean_accuracy() const {
  double sum = 0, number = 0;
  for (std::size_t c = 0; c < classes(); ++c) {
    sum += accuracy(c);
    number += occurring(c) > 0 ? 1 : 0;
  }
  return quotient(sum, number);
}

double ClassTotals::mean(double (ClassTotals::*figure)(std::size_t) const) const {
  double sum = 0, number = 0;
  for (std::size_t c = 0; c < classes(); ++c) {
    sum += (this->*figure)(c);
    number += occurring(c) > 0 || predicted(c) > 0 ? 1 : 0;
  }
  return quotient(sum, number);
}

double ClassTotals::weighted_iou() const {
  double sum = 0;
  for (std::size_t c = 0; c < classes(); ++c) sum += occurring(c) * iou(c);
  return quotient(sum, total());
}

std::size_t ClassTotals::only_predicted() const {
  std::size_t there = 0, named = 0, last = classes();
  for (std::size_t c = 0; c < classes(); ++c) {
    if (occurring(c) > 0) ++there;
    if (predicted(c) > 0) ++named, last = c;
  }
  return there > 1 && named == 1 ? last : classes();
}

ClassMatrix::ClassMatrix(std::span<const double> counts)
    : ClassTotals(static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(counts.size()))))), counts_(counts) {
  for (std::size_t of = 0; of < classes(); ++of) {
    for (std::size_t as = 0; as < classes(); ++as) add(of, as, counts[of * classes() + as]);
  }
}

ClassMatrix::ClassMatrix(std::size_t classes, std::span<const Cell> cells) : ClassTotals(classes), cells_(cells) {
  for (const Cell& cell : cells) add(cell.of, cell.as, cell.count);
}

double ClassMatrix::count(std::size_t of, std::size_t as) const {
  if (!counts_.empty()) return counts_[of * classes() + as];
  const auto is_before = [](const Cell& cell, const std::pair<std::size_t, std::size_t>& at) {
    return std::pair<std::size_t, std::size_t>(cell.of, cell.as) < at;
  };
  const std::pair at(of, as);
  const auto found = std::lower_bound(cells_.begin(), cells_.end(), at, is_before);
  return found != cells_.end() && found->of == of && found->as == as ? found->count : 0;
}

void append_confusion(std::string_view begin, const ClassMatrix& matrix, const std::vector<std::string>& names,
                      const std::function<void(std::string_view rows)>& write) {
  std::string rows;
  const auto append = [&](std::size_t of, std::size_t as, double count) {
    const double all = matrix.occurring(of);
    rows += begin;
    append_name(rows, names, of);
    rows += ',';
    append_name(rows, names, as);
    fmt::format_to(std::back_inserter(rows), ",{}", count);
    append_share(rows, quotient(count, all), all);
    rows += "\r\n";
  };
  const bool is_whole = matrix.classes() <= kMaxWholeClasses, has_cells = matrix.counts_.empty();
  auto cell = matrix.cells_.begin();
  for (std::size_t of = 0; of < matrix.classes(); ++of) {
    rows.clear();
    if (!is_whole && has_cells) {
      for (; cell != matrix.cells_.end() && cell->of == of; ++cell) append(of, cell->as, cell->count);
    } else {
      for (std::size_t as = 0; as < matrix.classes(); ++as) {
        if (const double count = matrix.count(of, as); is_whole || count > 0) append(of, as, count);
      }
    }
    if (!rows.empty()) write(rows);
  }
}

void append_classes(std::string& csv, std::string_view begin, const ClassTotals& totals, const std::vector<std::string>& names) {
  for (std::size_t c = 0; c < totals.classes(); ++c) {
    csv += begin;
    append_name(csv, names, c);
    const double occurring = totals.occurring(c), predicted = totals.predicted(c);
    fmt::format_to(std::back_inserter(csv), ",{}", occurring);
    append_share(csv, totals.accuracy(c), occurring);
    append_share(csv, totals.precision(c), predicted);
    append_share(csv, totals.f1(c), occurring + predicted);
    append_share(csv, totals.iou(c), occurring + predicted);
    csv += "\r\n";
  }
}

}  // namespace millrace
