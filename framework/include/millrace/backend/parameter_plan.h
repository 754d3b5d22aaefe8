// Lays out a replica's parameters in memory. Pure. Updates and states build on it (update_plan.h, state_plan.h); store_plan.h
// combines all three.
//
// Parameters lie in the same order in all arrays: trainable ones first and in the order of the buckets, so that a bucket is one
// range of the gradients; then running statistics; then all others. Gradients therefore cover the first gradients() elements, and
// copies of the values the first blended(). Within a bucket, parameters of one optimizer are contiguous.
//
// Threading: one thread plans; afterwards reads are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/optimizer.h"

namespace millrace {

// The parameter as a matrix (out, all others), for optimizers of scope `matrix` and reduced states. Filters are flattened as in
// Muon's original code.
MatrixShape matrix_of(const Parameter& parameter);

class ParameterPlan {
 public:
  // `network` and `options` outlive the plan.
  ParameterPlan(const Network& network, const CompileOptions& options) : network_(network), options_(options) {}

  // `elements`: size of each parameter with the backend's padding; `widths`: length of a row of its matrix in memory during the
  // update (UpdateSegment::width). Offsets are multiples of `alignment` elements, itself a multiple of whole packs.
  void place(std::span<const std::size_t> elements, std::span<const std::int64_t> widths, std::size_t alignment);

  std::size_t count() const { return elements_.size(); }
  const Parameter& parameter(int index) const { return network_.parameters[static_cast<std::size_t>(index)]; }
  std::size_t offset(int index) const { return offsets_[static_cast<std::size_t>(index)]; }     // in elements
  std::size_t elements(int index) const { return elements_[static_cast<std::size_t>(index)]; }  // with padding
  std::int64_t width(int index) const { return widths_[static_cast<std::size_t>(index)]; }
  std::size_t alignment() const { return alignment_; }
  std::vector<Bucket>& buckets() { return buckets_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  const CompileOptions& options() const { return options_; }

  // Sizes of the arrays, in elements.
  std::size_t blended() const { return blended_; }
  std::size_t all() const { return all_; }
  std::size_t gradients() const { return options_.train_batch > 0 ? trainable_ : 0; }
  std::size_t kept_gradients() const { return options_.request.micro_batches > 1 ? gradients() : 0; }

 private:
  void place_all(const std::vector<int>& indices);

  const Network& network_;
  const CompileOptions& options_;
  std::vector<std::size_t> offsets_, elements_;
  std::vector<std::int64_t> widths_;
  std::size_t alignment_ = 1;
  std::vector<Bucket> buckets_;
  std::size_t trainable_ = 0, blended_ = 0, all_ = 0;  // elements; all_ grows during placement
};

}  // namespace millrace
