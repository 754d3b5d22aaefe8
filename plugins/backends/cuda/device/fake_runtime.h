// CUDA's runtime acted out for tests: it computes nothing, writes down what it is asked, finishes work when the test says so, and
// fails where the test wants it to. Linked in place of the real one.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::cuda::fake {

void reset();
std::vector<std::string>
calls();  // that change something on the device, in order: "launch relu on 2"; streams are numbered from 1
bool called(const std::string& call);

void fail_next(const std::string& call, cudaError_t status);  // the next call whose text starts so
void invalidate_next(const std::string& call);                // it succeeds, and has broken the capture that it was part of
void fail_query(int number, cudaError_t status);              // the n-th question from now on whether an event is complete, once
void fail_work(cudaError_t status);                           // of all that waits and asks from now on: the device has failed

void hold();                                            // work that is recorded from now on does not finish ...
void release();                                         // ... until now
std::uint64_t recorded();                               // how many pieces of work
void finish_to(std::uint64_t recorded);                 // so many of them finish
void set_memory(std::size_t free, std::size_t total);   // allocations beyond fail
void lie_on(int device, const void* memory = nullptr);  // that memory; null: all that is asked about
int queries();                                          // of events: whether they are complete
int open_things();                                      // streams, events, graphs, memory: 0 when everything was given back

}  // namespace millrace::cuda::fake
