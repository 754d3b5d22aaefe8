// A fake CUDA runtime for tests: it computes nothing, logs all calls, finishes work on request of the test, and fails where the
// test wants it to. Linked instead of the real one.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::cuda::fake {

void reset();
std::vector<std::string>
calls();  // calls that change something on the device, in order: "launch relu on 2"; streams are numbered from 1
bool called(const std::string& call);

void fail_next(const std::string& call, cudaError_t status);  // the next call whose text starts with this
void invalidate_next(const std::string& call);                // the call succeeds but breaks its capture
void fail_query(int number, cudaError_t status);              // fails the n-th event query from now on, once
void fail_work(cudaError_t status);                           // for all later waits and queries: the device has failed

void hold();                                            // later recorded work does not finish ...
void release();                                         // ... until this call
std::uint64_t recorded();                               // number of pieces of work
void finish_to(std::uint64_t recorded);                 // finishes this many of them
void set_memory(std::size_t free, std::size_t total);   // allocations beyond fail
void lie_on(int device, const void* memory = nullptr);  // that memory; null: all queried memory
int queries();                                          // event queries so far
int open_things();                                      // streams, events, graphs, memory: 0 when everything was freed

}  // namespace millrace::cuda::fake
