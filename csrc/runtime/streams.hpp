// Streams, events, and the capture of what streams are given.
#pragma once

#include <functional>
#include <span>

#include "runtime/graph.hpp"
#include "runtime/state.hpp"

namespace sglab::runtime {

// cudaStreamCaptureMode
enum class CaptureMode : int { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };
// cudaStreamCaptureStatus
enum class CaptureStatus : int { kNone = 0, kActive = 1, kInvalidated = 2 };

struct CaptureView {
  CaptureStatus status = CaptureStatus::kNone;
  unsigned long long id = 0;
  Graph* graph = nullptr;
  std::span<Node* const> tail;  // what the stream's next node comes after; valid until its next work
};

Status make_stream(Stream* stream, unsigned flags);
Status destroy_stream(Stream stream);
unsigned flags_of(Stream stream);

Status make_event(Event* event);
Status destroy_event(Event event);
Status record_now(Event event);  // the moment, whatever is captured
Status elapsed(Event start, Event end, float* milliseconds);

// Performs work at once, or keeps it as a node if the stream is captured.
Status submit(Stream stream, Work work);
// The same for a launch, whose arguments are only copied when it is captured. `buffer`: see make_kernel_work.
Status submit_launch(Stream stream, const void* stub, Dim3 grid, Dim3 block, Dim3 cluster, std::size_t smem,
                     void** arguments, const void* buffer = nullptr);
Status record(Event event, Stream stream);
Status wait(Stream stream, Event event);

// Waiting for what is only captured is an error and ends the capture.
Status synchronize(Stream stream, const char* call);
Status synchronize_all(const char* call);
Status synchronize_event(Event event, const char* call);
// A call that some GPUs order with everything, such as cudaMalloc, while a capture forbids those.
Status allowed_in_captures(const char* call);

Status begin_capture(Stream stream, CaptureMode mode, Graph* into, std::span<Node* const> after);
Status end_capture(Stream stream, Graph** graph);
Status view_capture(Stream stream, CaptureView& view);
Status set_tail(Stream stream, std::span<Node* const> tail, bool replaces);
CaptureMode exchange_mode(CaptureMode mode);

}  // namespace sglab::runtime
