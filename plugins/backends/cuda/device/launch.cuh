// Compiles the backend's elements for CUDA: those whose threads take columns of a map, and sums over its rows
// (kernels/portable.h). The other forms use the common launcher.
#pragma once

#include "grid.h"
#include "kernels/kernel.h"
#include "millrace/kernels/device_code.cuh"

namespace millrace::cuda {

// ---- Form::columns and Form::sums: block (part, side) takes its part of the rows, of up to 32 packs ----

// From the last row to the first: earlier sums over the same map have left its end in the cache.
template <class Column>
__global__ void __launch_bounds__(kBlockThreads, Column::kBlocks)
    run_columns(const __grid_constant__ typename Column::Element element, const ColumnBlock block, bool ahead) {
  begin_kernel(ahead);
  const ColumnShare share =
      column_share(element.rows, block, {gridDim.x, gridDim.x - 1 - blockIdx.x, gridDim.y - 1 - blockIdx.y, thread_of_block()});
  if (share.pack < element.packs) take_rows(Column(element, share.pack), share.rows.reversed());
}

// A block that finishes a sum if it is the last to arrive (kernels/last_block.h).
class SumsBlock {
 public:
  __device__ explicit SumsBlock(bool* last) : last_(last) {}
  __device__ int thread() const { return thread_of_block(); }
  __device__ int threads() const { return kBlockThreads; }
  // The ticket counts to `of` and resets to 0. The fences order each thread's writes before the ticket, and the ticket before the
  // last block's reads.
  __device__ bool comes_last(std::uint32_t* ticket, std::int64_t of) const {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) *last_ = atomicInc(ticket, static_cast<unsigned>(of - 1)) == static_cast<unsigned>(of - 1);
    __syncthreads();
    const bool last = *last_;
    if (last) __threadfence();
    return last;
  }
  template <class T>
  __device__ T load(const T* from) const {
    return __ldcg(from);  // bypasses this multiprocessor's cache
  }

 private:
  bool* last_;  // in shared memory
};

template <class Column>
__global__ void __launch_bounds__(kBlockThreads, Column::kBlocks)
    run_sums(const __grid_constant__ typename Column::Element element, const ColumnBlock block, bool ahead) {
  begin_kernel(ahead);
  using Element = typename Column::Element;
  constexpr int kValues = Element::kSums * static_cast<int>(kPack);
  __shared__ float shared[kValues][kBlockThreads];  // threads side by side: no bank conflicts within a warp
  __shared__ bool last;
  const int thread = thread_of_block(), row_lane = thread / block.packs;
  const ColumnShare share = column_share(element.rows, block, {gridDim.x, blockIdx.x, blockIdx.y, thread});
  float sums[Element::kSums][kPack] = {};
  if (share.pack < element.packs) take_rows(Column(element, share.pack), share.rows, sums);

  MILLRACE_UNROLL for (int value = 0; value < kValues; ++value) shared[value][thread] = sums[value / kPack][value % kPack];
  for (int half = block.rows() / 2; half > 0; half /= 2) {
    __syncthreads();
    if (row_lane < half) {
      MILLRACE_UNROLL for (int value = 0; value < kValues; ++value) shared[value][thread] +=
          shared[value][thread + half * block.packs];
    }
  }
  if (row_lane == 0 && share.pack < element.packs) {  // each thread wrote its own sums last, so no barrier is needed
    MILLRACE_UNROLL for (int sum = 0; sum < Element::kSums; ++sum) {
      float* out = element.partial + ((std::int64_t{blockIdx.x} * Element::kSums + sum) * element.packs + share.pack) * kPack;
      MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) out[k] = shared[sum * static_cast<int>(kPack) + k][thread];
    }
  }
  finish_if_last(element, SumsBlock(&last), sum_place(element.packs, block, {gridDim.x, blockIdx.x, blockIdx.y, thread}));
}

// ---- The host's side ----

template <class Element>
requires(Element::kForm == Form::columns || Element::kForm == Form::sums) cudaError_t
    launch_on_device(const Element& element, cudaStream_t stream, int /*multiprocessors*/) {
  if (element.rows <= 0 || element.packs <= 0) return cudaSuccess;
  return element.with_column([&]<class Column>(ColumnType<Column>) {
    constexpr bool kSums = Element::kForm == Form::sums;
    const std::int64_t parts =
        kSums ? chunks_of(element.rows, element.packs) : parts_of(element.rows, element.packs, Column::kAhead);
    const dim3 grid(static_cast<unsigned>(parts), column_blocks(element.packs));
    if constexpr (kSums)
      return launch_kernel(run_sums<Column>, grid, stream, element, column_block(element.packs));
    else
      return launch_kernel(run_columns<Column>, grid, stream, element, column_block(element.packs));
  });
}

}  // namespace millrace::cuda
