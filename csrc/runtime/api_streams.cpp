// Streams and events. A launch is over when it returns, so there is never anything to wait for.
#include <chrono>

#include "runtime/state.hpp"

using namespace sglab::runtime;

namespace {

using Clock = std::chrono::steady_clock;

struct Moment {
  Clock::time_point at = Clock::now();
};

Status make_stream(Stream* stream) {
  *stream = new char;
  return kSuccess;
}

Status make_event(Event* event) {
  *event = new Moment;
  return kSuccess;
}

}  // namespace

SGLAB_CUDA_API Status cudaStreamCreate(Stream* stream) {
  return make_stream(stream);
}
SGLAB_CUDA_API Status cudaStreamCreateWithFlags(Stream* stream, unsigned) {
  return make_stream(stream);
}
SGLAB_CUDA_API Status cudaStreamCreateWithPriority(Stream* stream, unsigned, int) {
  return make_stream(stream);
}
SGLAB_CUDA_API Status cudaStreamDestroy(Stream stream) {
  delete static_cast<char*>(stream);
  return kSuccess;
}
SGLAB_CUDA_API Status cudaStreamSynchronize(Stream) {
  return kSuccess;
}
SGLAB_CUDA_API Status cudaStreamQuery(Stream) {
  return kSuccess;
}
SGLAB_CUDA_API Status cudaStreamWaitEvent(Stream, Event, unsigned) {
  return kSuccess;
}
SGLAB_CUDA_API Status cudaStreamIsCapturing(Stream, int* capturing) {
  *capturing = 0;
  return kSuccess;
}

SGLAB_CUDA_API Status cudaEventCreate(Event* event) {
  return make_event(event);
}
SGLAB_CUDA_API Status cudaEventCreateWithFlags(Event* event, unsigned) {
  return make_event(event);
}
SGLAB_CUDA_API Status cudaEventRecord(Event event, Stream) {
  static_cast<Moment*>(event)->at = Clock::now();
  return kSuccess;
}
SGLAB_CUDA_API Status cudaEventSynchronize(Event) {
  return kSuccess;
}
SGLAB_CUDA_API Status cudaEventQuery(Event) {
  return kSuccess;
}
SGLAB_CUDA_API Status cudaEventDestroy(Event event) {
  delete static_cast<Moment*>(event);
  return kSuccess;
}
// Time on this machine's clock: how long emulating took, not how long a GPU would have taken.
SGLAB_CUDA_API Status cudaEventElapsedTime(float* milliseconds, Event start, Event end) {
  const auto elapsed = static_cast<Moment*>(end)->at - static_cast<Moment*>(start)->at;
  *milliseconds = std::chrono::duration<float, std::milli>(elapsed).count();
  return kSuccess;
}
