// One kernel for each form of element (elements/portable.h), and the groups that elements of the second form compute in.
#pragma once

#include <cuda_runtime.h>

#include "grid.h"
#include "launch.h"

namespace millrace::cuda {

__device__ inline int thread_of_block() { return static_cast<int>(threadIdx.x); }

// ---- Form::each: a thread takes every stride-th element ----

template <class Element>
__global__ void __launch_bounds__(kBlockThreads) run_each(const __grid_constant__ Element element, std::int64_t size) {
  const std::int64_t stride = std::int64_t{gridDim.x} * kBlockThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kBlockThreads + threadIdx.x; i < size; i += stride) element(i);
}

// ---- Form::groups ----

// Butterflies: in each round both partners add the same two numbers, so all lanes end with the same bits, in an order that is
// always the same. Shuffles order no memory, so a barrier comes first: elements count on sum() and largest() to be one.
class WarpGroup {
 public:
  __device__ int lane() const { return thread_of_block() % kWarpThreads; }
  __device__ int size() const { return kWarpThreads; }
  __device__ void barrier() const { __syncwarp(); }

  template <class T>
  __device__ T sum(T value) const {
    __syncwarp();
    MILLRACE_UNROLL for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
      value += __shfl_xor_sync(0xffffffffU, value, distance);
    }
    return value;
  }
  template <class T>
  __device__ T largest(T value) const {
    __syncwarp();
    MILLRACE_UNROLL for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
      value = larger(value, __shfl_xor_sync(0xffffffffU, value, distance));
    }
    return value;
  }
  // NaN loses, whichever side it is on, so that all lanes agree.
  template <class T>
  __device__ static T larger(T a, T b) {
    return a < b || a != a ? b : a;
  }
};

class BlockGroup {
 public:
  __device__ explicit BlockGroup(double* slots) : slots_(slots) {}
  __device__ int lane() const { return thread_of_block(); }
  __device__ int size() const { return kBlockThreads; }
  __device__ void barrier() const { __syncthreads(); }

  template <class T>
  __device__ T sum(T value) const {
    const T* parts = share(WarpGroup().sum(value));
    T total = parts[0];
    MILLRACE_UNROLL for (int warp = 1; warp < kWarpsPerBlock; ++warp) total += parts[warp];
    return total;
  }
  template <class T>
  __device__ T largest(T value) const {
    const T* parts = share(WarpGroup().largest(value));
    T most = parts[0];
    MILLRACE_UNROLL for (int warp = 1; warp < kWarpsPerBlock; ++warp) most = WarpGroup::larger(most, parts[warp]);
    return most;
  }

 private:
  // Each warp's value, for all to read.
  template <class T>
  __device__ const T* share(T of_warp) const {
    static_assert(sizeof(T) <= sizeof(double));
    T* parts = reinterpret_cast<T*>(slots_);
    __syncthreads();  // what was shared before has been read
    if (threadIdx.x % kWarpThreads == 0) parts[threadIdx.x / kWarpThreads] = of_warp;
    __syncthreads();
    return parts;
  }

  double* slots_;  // (kWarpsPerBlock), in shared memory
};

// All lanes of a group go round these loops together, so barriers inside are reached by all.
template <class Element>
__global__ void __launch_bounds__(kBlockThreads) run_in_warps(const __grid_constant__ Element element, std::int64_t size) {
  const std::int64_t stride = std::int64_t{gridDim.x} * kWarpsPerBlock;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kWarpsPerBlock + threadIdx.x / kWarpThreads; i < size; i += stride) {
    element(WarpGroup(), i);
  }
}

template <class Element>
__global__ void __launch_bounds__(kBlockThreads) run_in_blocks(const __grid_constant__ Element element, std::int64_t size) {
  __shared__ double slots[kWarpsPerBlock];
  for (std::int64_t i = blockIdx.x; i < size; i += gridDim.x) element(BlockGroup(slots), i);
}

// ---- Form::columns and Form::sums: block (part, side) takes its part of the rows, of up to 32 packs ----

// From the last row to the first: the sums over the same map that came before have left its end in the cache.
template <class Column>
__global__ void __launch_bounds__(kBlockThreads, Column::kBlocks)
    run_columns(const __grid_constant__ typename Column::Element element, const ColumnBlock block) {
  const ColumnShare share =
      column_share(element.rows, block, {gridDim.x, gridDim.x - 1 - blockIdx.x, gridDim.y - 1 - blockIdx.y, thread_of_block()});
  if (share.pack < element.packs) take_rows(Column(element, share.pack), share.rows.reversed());
}

// A block that finishes a sum if it comes last (elements/last_block.h).
class SumsBlock {
 public:
  __device__ explicit SumsBlock(bool* last) : last_(last) {}
  __device__ int thread() const { return thread_of_block(); }
  __device__ int threads() const { return kBlockThreads; }
  // The ticket counts to `of` and is 0 again. The fences order what each thread wrote before the ticket, and the ticket before
  // what the last block reads.
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
    return __ldcg(from);  // never from this multiprocessor's own cache
  }

 private:
  bool* last_;  // in shared memory
};

template <class Column>
__global__ void __launch_bounds__(kBlockThreads, Column::kBlocks)
    run_sums(const __grid_constant__ typename Column::Element element, const ColumnBlock block) {
  using Element = typename Column::Element;
  constexpr int kValues = Element::kSums * static_cast<int>(kPack);
  __shared__ float shared[kValues][kBlockThreads];  // threads side by side: no two of a warp meet in a bank
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
  if (row_lane == 0 && share.pack < element.packs) {  // each wrote its own sums last, so there is nothing to wait for
    MILLRACE_UNROLL for (int sum = 0; sum < Element::kSums; ++sum) {
      float* out = element.partial + ((std::int64_t{blockIdx.x} * Element::kSums + sum) * element.packs + share.pack) * kPack;
      MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) out[k] = shared[sum * static_cast<int>(kPack) + k][thread];
    }
  }
  finish_if_last(element, SumsBlock(&last), sum_place(element.packs, block, {gridDim.x, blockIdx.x, blockIdx.y, thread}));
}

// ---- The host's side ----

// Unlike <<<>>> followed by cudaGetLastError() this cannot mistake an earlier call's error on this thread for the launch's own.
template <class... Parameters, class... Arguments>
cudaError_t launch_kernel(void (*kernel)(Parameters...), dim3 grid, cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(kBlockThreads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

template <class Element>
cudaError_t launch_columns(const Element& element, cudaStream_t stream) {
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

template <class Element>
cudaError_t launch(const Element& element, cudaStream_t stream, int multiprocessors) {
  if constexpr (Element::kForm == Form::columns || Element::kForm == Form::sums) {
    return launch_columns(element, stream);
  } else {
    const std::int64_t size = element.size();
    if (size <= 0) return cudaSuccess;
    if constexpr (Element::kForm == Form::each) {
      return launch_kernel(run_each<Element>, dim3(blocks_for(size, kBlockThreads, multiprocessors)), stream, element, size);
    } else if constexpr (Element::kThreads == kWarpThreads) {
      return launch_kernel(run_in_warps<Element>, dim3(blocks_for(size, kWarpsPerBlock, multiprocessors)), stream, element, size);
    } else {
      static_assert(Element::kThreads == kBlockThreads);
      return launch_kernel(run_in_blocks<Element>, dim3(blocks_for(size, 1, multiprocessors)), stream, element, size);
    }
  }
}

#define MILLRACE_INSTANTIATE(Element) template cudaError_t launch<Element>(const Element&, cudaStream_t, int);

}  // namespace millrace::cuda
