#include "target_statistics.h"

#include <algorithm>
#include <cmath>

namespace millrace {

void NumberColumn::add(double value) {
  least_ = count_ == 0 ? value : std::min(least_, value);
  most_ = count_ == 0 ? value : std::max(most_, value);
  ++count_;
  const double difference = value - mean_;
  mean_ += difference / static_cast<double>(count_);
  squares_ += difference * (value - mean_);
}

void NumberColumn::add(const NumberColumn& other) {
  if (other.count_ == 0) return;
  least_ = count_ == 0 ? other.least_ : std::min(least_, other.least_);
  most_ = count_ == 0 ? other.most_ : std::max(most_, other.most_);
  const auto own = static_cast<double>(count_), others = static_cast<double>(other.count_);
  const double difference = other.mean_ - mean_;
  mean_ += difference * others / (own + others);
  squares_ += other.squares_ + difference * difference * own * others / (own + others);
  count_ += other.count_;
}

double NumberColumn::deviation() const { return count_ == 0 ? 0 : std::sqrt(squares_ / static_cast<double>(count_)); }

}  // namespace millrace
