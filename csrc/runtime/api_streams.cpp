// Streams, events and the capture of streams.
#include "runtime/streams.hpp"

using namespace sglab::runtime;

namespace {

using HostFunction = void (*)(void*);
using StreamCallback = void (*)(Stream, Status, void*);

// Nodes of a program's array; false if one of them is none.
bool nodes_of(void* const* handles, std::size_t count, std::vector<Node*>& nodes) {
  for (std::size_t i = 0; i < count; ++i) {
    nodes.push_back(live_node(handles[i]));
    if (nodes.back() == nullptr) return false;
  }
  return true;
}

}  // namespace

SGLAB_CUDA_API Status cudaStreamCreate(Stream* stream) {
  return make_stream(stream, 0);
}
SGLAB_CUDA_API Status cudaStreamCreateWithFlags(Stream* stream, unsigned flags) {
  return make_stream(stream, flags);
}
SGLAB_CUDA_API Status cudaStreamCreateWithPriority(Stream* stream, unsigned flags, int) {
  return make_stream(stream, flags);
}
SGLAB_CUDA_API Status cudaStreamDestroy(Stream stream) {
  return destroy_stream(stream);
}
SGLAB_CUDA_API Status cudaStreamSynchronize(Stream stream) {
  return synchronize(stream, "cudaStreamSynchronize");
}
SGLAB_CUDA_API Status cudaStreamQuery(Stream stream) {
  return synchronize(stream, "cudaStreamQuery");
}
SGLAB_CUDA_API Status cudaStreamWaitEvent(Stream stream, Event event, unsigned) {
  return wait(stream, event);
}
SGLAB_CUDA_API Status cudaStreamGetFlags(Stream stream, unsigned* flags) {
  *flags = flags_of(stream);
  return kSuccess;
}
SGLAB_CUDA_API Status cudaLaunchHostFunc(Stream stream, HostFunction function, void* data) {
  return submit(stream, HostWork{function, data});
}
SGLAB_CUDA_API Status cudaStreamAddCallback(Stream stream, StreamCallback callback, void* data, unsigned) {
  if (const Status status = synchronize(stream, "cudaStreamAddCallback"); status != kSuccess) return status;
  callback(stream, last_status(false), data);
  return kSuccess;
}

SGLAB_CUDA_API Status cudaEventCreate(Event* event) {
  return make_event(event);
}
SGLAB_CUDA_API Status cudaEventCreateWithFlags(Event* event, unsigned) {
  return make_event(event);
}
SGLAB_CUDA_API Status cudaEventRecord(Event event, Stream stream) {
  return record(event, stream);
}
SGLAB_CUDA_API Status cudaEventRecordWithFlags(Event event, Stream stream, unsigned flags) {
  constexpr unsigned kExternal = 1;  // a node of the graph that records, not a mark in the capture
  CaptureView view;
  if (const Status status = view_capture(stream, view); status != kSuccess) return status;
  if (flags == kExternal && view.status != CaptureStatus::kNone) return submit(stream, RecordWork{event});
  return record(event, stream);
}
SGLAB_CUDA_API Status cudaEventSynchronize(Event event) {
  return synchronize_event(event, "cudaEventSynchronize");
}
SGLAB_CUDA_API Status cudaEventQuery(Event event) {
  return synchronize_event(event, "cudaEventQuery");
}
SGLAB_CUDA_API Status cudaEventDestroy(Event event) {
  return destroy_event(event);
}
// Time on this machine's clock: how long emulating took, not how long a GPU would have taken.
SGLAB_CUDA_API Status cudaEventElapsedTime(float* milliseconds, Event start, Event end) {
  return elapsed(start, end, milliseconds);
}

SGLAB_CUDA_API Status cudaStreamBeginCapture(Stream stream, CaptureMode mode) {
  return begin_capture(stream, mode, nullptr, {});
}
SGLAB_CUDA_API Status cudaStreamBeginCaptureToGraph(Stream stream, void* graph, void* const* after,
                                                    const EdgeData*, std::size_t count, CaptureMode mode) {
  Graph* const into = live_graph(graph);
  std::vector<Node*> nodes;
  if (into == nullptr || !nodes_of(after, count, nodes)) return no_graph("the graph to capture to");
  return begin_capture(stream, mode, into, nodes);
}
SGLAB_CUDA_API Status cudaStreamEndCapture(Stream stream, void** graph) {
  Graph* made = nullptr;
  const Status status = end_capture(stream, &made);
  *graph = made;
  return status;
}
SGLAB_CUDA_API Status cudaStreamIsCapturing(Stream stream, CaptureStatus* capturing) {
  CaptureView view;
  const Status status = view_capture(stream, view);
  *capturing = view.status;
  return status;
}
SGLAB_CUDA_API Status cudaStreamGetCaptureInfo(Stream stream, CaptureStatus* capturing,
                                               unsigned long long* id, void** graph, Node* const** tail,
                                               const EdgeData** edges, std::size_t* count) {
  CaptureView view;
  if (const Status status = view_capture(stream, view); status != kSuccess) return status;
  *capturing = view.status;
  if (id != nullptr) *id = view.id;
  if (graph != nullptr) *graph = view.graph;
  if (tail != nullptr) *tail = view.tail.data();
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = view.tail.size();
  return kSuccess;
}
SGLAB_CUDA_API Status cudaStreamUpdateCaptureDependencies(Stream stream, void** tail, const EdgeData*,
                                                          std::size_t count, unsigned flags) {
  std::vector<Node*> nodes;
  if (!nodes_of(tail, count, nodes)) return no_graph("a node to come after");
  constexpr unsigned kReplace = 1;
  return set_tail(stream, nodes, flags == kReplace);
}
SGLAB_CUDA_API Status cudaThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  *mode = exchange_mode(*mode);
  return kSuccess;
}
