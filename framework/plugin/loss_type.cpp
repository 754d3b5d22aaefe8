#include "millrace/loss.h"

namespace millrace {

LossAttributes::LossAttributes() : info_(std::make_shared<LossInfo>()) {}

LossAttributes& LossAttributes::name(std::string_view value) {
  info_->name = value;
  return *this;
}
LossAttributes& LossAttributes::text(std::string_view value) {
  info_->text = value;
  return *this;
}
LossAttributes& LossAttributes::target(LossTarget value) {
  info_->target = value;
  return *this;
}
LossAttributes& LossAttributes::numbers(double low, double high) {
  info_->numbers = {low, high};
  return *this;
}
LossAttributes& LossAttributes::applies(std::string_view layer) {
  info_->applies = layer;
  return *this;
}
LossAttributes& LossAttributes::sum(std::string_view value) {
  info_->sums.emplace_back(value);
  return *this;
}
LossAttributes& LossAttributes::figure(LossFigure value) {
  info_->figures.push_back(std::move(value));
  return *this;
}
LossAttributes& LossAttributes::class_matrix() {
  info_->class_matrix = true;
  return *this;
}
LossAttributes& LossAttributes::class_totals() {
  info_->class_totals = true;
  return *this;
}
LossAttributes& LossAttributes::example(std::string_view table, Shape output) {
  examples_.push_back({std::string(table), output});
  return *this;
}

}  // namespace millrace
