// Operations without weights, except batch normalisation's vectors.
#pragma once

#include "operation.h"

namespace millrace::cpu {

std::unique_ptr<Operation> make_normalisation(CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_pooling(CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_activation(CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_addition(CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_concatenation(CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_split(CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_dropout(CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_scale(CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_flatten(CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_lrn(CompileContext& compile_context, const Node& node);
std::unique_ptr<Operation> make_portable(CompileContext& compile_context, const Node& node);

PoolWindow pool_window(const PoolAttributes& pool);

// Bytes of max pooling's index for an output of this shape: 16 channels to a block.
inline std::size_t index_bytes(const MapSpec& output, const PoolWindow& window) {
  const std::int64_t blocks = (output.channels + Map::kLanes - 1) / Map::kLanes;
  return static_cast<std::size_t>(output.n * blocks * output.height * output.width * Map::kLanes) *
         (has_wide_index(window) ? sizeof(std::int32_t) : sizeof(std::uint8_t));
}

}  // namespace millrace::cpu
