#include "optimizer_launches.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace millrace::cuda {

void OptimizerLaunches::plan(Machine& machine, std::vector<MatrixShape> matrices) {
  matrices_ = std::move(matrices);
  if (!plan_.updates.is_empty()) plan_launches();
  for (int index = 0; index < static_cast<int>(matrices_.size()); ++index) {
    if (plan_.updates.is_matrix(index)) orthogonaliser_.add(machine, matrices_[static_cast<std::size_t>(index)]);
  }
}

void OptimizerLaunches::plan_launches() {
  for (int bucket = 0; bucket < static_cast<int>(plan_.parameters.buckets().size()); ++bucket) {
    std::vector<Launch>& launches = launches_.emplace_back();
    for (const UpdatePlan::Range& range : plan_.updates.ranges(bucket)) {
      const std::vector<UpdateSegment> segments = segments_of(range, {});
      const std::int64_t packs = static_cast<std::int64_t>(range.elements) / kPack, last = packs - segments.back().begin;
      const Launch& launch =
          launches.emplace_back(Launch{segment_count_, segments.size(), segments.back().first_chunk + chunks_of_norms(last)});
      segment_count_ += launch.segments;
      most_chunks_ = std::max(most_chunks_, launch.chunks);
      if (range.optimizer->scope() == OptimizerScope::matrix) most_directions_ = std::max(most_directions_, range.elements);
    }
  }
}

// The sums of squares of one launch at a time: of its chunks, then of its segments.
std::size_t OptimizerLaunches::norm_bytes() const {
  return plan_.updates.needs_norms() ? (static_cast<std::size_t>(most_chunks_) + segment_count_) * sizeof(Squares) : 0;
}

void OptimizerLaunches::start(Machine& machine) {
  machine_ = &machine;
  norms_ = DeviceMemory(machine, norm_bytes(), "norms of parameters");
  segments_ = DeviceMemory(machine, segment_count_ * sizeof(UpdateSegment), "factors of the optimizer");
  directions_ = DeviceMemory(machine, most_directions_ * sizeof(float), "directions of updates");
  orthogonaliser_.start(machine);
}

std::vector<UpdateSegment> OptimizerLaunches::segments_of(const UpdatePlan::Range& range,
                                                          std::span<const double> rate_factor) const {
  const std::size_t begin = plan_.parameters.offset(range.parameters.front());
  std::vector<UpdateSegment> segments;
  for (const int index : range.parameters) {
    UpdateSegment segment = plan_.updates.segment(index, rate_factor);
    segment.begin = static_cast<std::int64_t>((plan_.parameters.offset(index) - begin) / kPack);
    if (!segments.empty()) {
      const UpdateSegment& before = segments.back();
      segment.first_chunk = before.first_chunk + chunks_of_norms(segment.begin - before.begin);
      segment.first_row = before.first_row + before.rows;
      segment.first_column = before.first_column + column_packs(before.width) * kUpdatePack;
    }
    segments.push_back(segment);
  }
  return segments;
}

void OptimizerLaunches::upload_segments(Queue& queue, std::span<const double> rate_factor) {
  if (segments_are_up_ && std::ranges::equal(rate_factor, uploaded_factors_)) return;
  segments_are_up_ = true;
  uploaded_factors_.assign(rate_factor.begin(), rate_factor.end());
  if (segments_.bytes() == 0) return;
  std::vector<UpdateSegment> segments;
  for (int bucket = 0; bucket < static_cast<int>(plan_.parameters.buckets().size()); ++bucket) {
    for (const UpdatePlan::Range& range : plan_.updates.ranges(bucket)) {
      std::ranges::copy(segments_of(range, rate_factor), std::back_inserter(segments));
    }
  }
  const HostMemory& upload = uploads_.emplace_back(*machine_, segments_.bytes());
  machine_->host_access(upload.data(), upload.bytes(), true);
  std::memcpy(upload.data(), segments.data(), segments_.bytes());
  queue.copy_in(segments_.data(), upload.data(), segments_.bytes());
}

void OptimizerLaunches::update(Queue& queue, int bucket, const UpdateStep& step, const ArraysOf& arrays_of) {
  const std::vector<UpdatePlan::Range>& ranges = plan_.updates.ranges(bucket);
  upload_segments(queue, step.rate_factor);
  for (std::size_t k = 0; k < ranges.size(); ++k) {
    const Launch& launch = launches_[static_cast<std::size_t>(bucket)][k];
    UpdateArguments arguments = arrays_of(ranges[k]);
    arguments.segments = segments_.as<UpdateSegment>() + launch.first_segment;
    arguments.segment_count = static_cast<std::int32_t>(launch.segments);
    if (norms_.bytes() > 0) {
      arguments.partial_squares = norms_.as<Squares>();
      arguments.squares = norms_.as<Squares>() + most_chunks_ + launch.first_segment;
      arguments.chunks = launch.chunks;
    }
    arguments.direction = directions_.as<float>();
    arguments.learning_rate = static_cast<float>(step.learning_rate);
    arguments.scale = step.scale;
    arguments.wrong = step.wrong;
    update(queue, ranges[k], arguments, step);
  }
}

void OptimizerLaunches::update(Queue& queue, const UpdatePlan::Range& range, UpdateArguments arguments, const UpdateStep& step) {
  const Optimizer& optimizer = *range.optimizer;
  const auto run = [&](const Kernel& kernel, const void* element) { queue.run(kernel, element); };
  if (optimizer.scope() == OptimizerScope::matrix) {
    optimizer.directions(arguments, step, run);
    const std::size_t begin = plan_.parameters.offset(range.parameters.front());
    for (std::size_t k = 0; k < range.parameters.size(); ++k) {
      float* const direction = arguments.direction + (plan_.parameters.offset(range.parameters[k]) - begin);
      const MatrixShape& shape = matrices_[static_cast<std::size_t>(range.parameters[k])];
      orthogonaliser_.run(queue, direction, arguments.squares + k, shape, optimizer.newton_schulz());
    }
  }
  optimizer.update(arguments, step, run);
}

}  // namespace millrace::cuda
