// Streams, events and graphs of the driver.
#include "runtime/driver.hpp"

using namespace sglab::runtime;

extern "C" {
Status cudaGraphCreate(void** graph, unsigned flags);
Status cudaGraphDestroy(void* graph);
Status cudaGraphExecDestroy(void* executable);
Status cudaGraphGetNodes(void* graph, void** nodes, std::size_t* count);
Status cudaGraphInstantiate(void** executable, void* graph, unsigned long long flags);
Status cudaGraphLaunch(void* executable, Stream stream);
Status cudaGraphUpload(void* executable, Stream stream);
}

SGLAB_CUDA_API Status cuStreamCreate(Stream* stream, unsigned flags) {
  return make_stream(stream, flags);
}
SGLAB_CUDA_API Status cuStreamCreateWithPriority(Stream* stream, unsigned flags, int) {
  return make_stream(stream, flags);
}
SGLAB_CUDA_API Status cuStreamDestroy_v2(Stream stream) {
  return destroy_stream(stream);
}
SGLAB_CUDA_API Status cuStreamSynchronize(Stream stream) {
  return synchronize(stream, "cuStreamSynchronize");
}
SGLAB_CUDA_API Status cuStreamQuery(Stream stream) {
  return synchronize(stream, "cuStreamQuery");
}
SGLAB_CUDA_API Status cuStreamWaitEvent(Stream stream, Event event, unsigned) {
  return wait(stream, event);
}
SGLAB_CUDA_API Status cuStreamGetFlags(Stream stream, unsigned* flags) {
  *flags = flags_of(stream);
  return kSuccess;
}
SGLAB_CUDA_API Status cuStreamGetPriority(Stream, int* priority) {
  *priority = 0;
  return kSuccess;
}
SGLAB_CUDA_API Status cuLaunchHostFunc(Stream stream, void (*function)(void*), void* data) {
  return submit(stream, HostWork{function, data});
}

SGLAB_CUDA_API Status cuEventCreate(Event* event, unsigned) {
  return make_event(event);
}
SGLAB_CUDA_API Status cuEventDestroy_v2(Event event) {
  return destroy_event(event);
}
SGLAB_CUDA_API Status cuEventRecord(Event event, Stream stream) {
  return record(event, stream);
}
SGLAB_CUDA_API Status cuEventSynchronize(Event event) {
  return synchronize_event(event, "cuEventSynchronize");
}
SGLAB_CUDA_API Status cuEventQuery(Event event) {
  return synchronize_event(event, "cuEventQuery");
}
SGLAB_CUDA_API Status cuEventElapsedTime_v2(float* milliseconds, Event start, Event end) {
  return elapsed(start, end, milliseconds);
}

SGLAB_CUDA_API Status cuStreamBeginCapture_v2(Stream stream, CaptureMode mode) {
  return begin_capture(stream, mode, nullptr, {});
}
SGLAB_CUDA_API Status cuStreamEndCapture(Stream stream, void** graph) {
  Graph* made = nullptr;
  const Status status = end_capture(stream, &made);
  *graph = made;
  return status;
}
SGLAB_CUDA_API Status cuStreamIsCapturing(Stream stream, CaptureStatus* capturing) {
  CaptureView view;
  const Status status = view_capture(stream, view);
  *capturing = view.status;
  return status;
}
SGLAB_CUDA_API Status cuThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  *mode = exchange_mode(*mode);
  return kSuccess;
}
SGLAB_CUDA_API Status cuGraphCreate(void** graph, unsigned flags) {
  return cudaGraphCreate(graph, flags);
}
SGLAB_CUDA_API Status cuGraphDestroy(void* graph) {
  return cudaGraphDestroy(graph);
}
SGLAB_CUDA_API Status cuGraphGetNodes(void* graph, void** nodes, std::size_t* count) {
  return cudaGraphGetNodes(graph, nodes, count);
}
SGLAB_CUDA_API Status cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long flags) {
  return cudaGraphInstantiate(executable, graph, flags);
}
SGLAB_CUDA_API Status cuGraphUpload(void* executable, Stream stream) {
  return cudaGraphUpload(executable, stream);
}
SGLAB_CUDA_API Status cuGraphLaunch(void* executable, Stream stream) {
  return cudaGraphLaunch(executable, stream);
}
SGLAB_CUDA_API Status cuGraphExecDestroy(void* executable) {
  return cudaGraphExecDestroy(executable);
}
