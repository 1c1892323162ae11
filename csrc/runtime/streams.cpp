#include "runtime/streams.hpp"

#include <utility>

#include "runtime/launch.hpp"
#include "runtime/stream_state.hpp"

namespace sglab::runtime {
namespace {

// Where work of `stream` goes: kSuccess and the stream if it is captured, null if it is performed now.
Status place_for(Stream stream, StreamState*& captured) {
  captured = nullptr;
  if (const Status status = earlier_fault(); status != kSuccess) return status;
  StreamState* const state = state_of(stream);
  if (state == nullptr) return no_stream();
  if (state->capture != nullptr) {
    if (!state->capture->valid)
      return fail(kStreamCaptureInvalidated, "this stream's capture was lost by an earlier error");
    captured = state;
    return kSuccess;
  }
  return is_legacy(stream) ? legacy_is_free() : kSuccess;
}

void append(StreamState& state, Work work) {
  state.tail = {state.capture->graph->add(std::move(work), state.tail)};
}

}  // namespace

Status make_stream(Stream* stream, unsigned flags) {
  const std::lock_guard lock(State::get().mutex);
  static std::uintptr_t next = 0x1000;  // no address: nothing is read through it
  *stream = reinterpret_cast<Stream>(next += 0x10);
  all().streams[*stream].flags = flags;
  return kSuccess;
}

Status destroy_stream(Stream stream) {
  const std::lock_guard lock(State::get().mutex);
  StreamState* const state = state_of(stream);
  if (state == nullptr || reinterpret_cast<std::uintptr_t>(stream) <= 2) return no_stream();
  if (const auto capture = state->capture; capture != nullptr) {
    if (capture->origin == stream) capture->valid = false;
    merge(capture->left, state->tail);
  }
  all().streams.erase(stream);
  return kSuccess;
}

unsigned flags_of(Stream stream) {
  const std::lock_guard lock(State::get().mutex);
  const StreamState* const state = state_of(stream);
  return state == nullptr ? 0 : state->flags;
}

Status make_event(Event* event) {
  const std::lock_guard lock(State::get().mutex);
  static std::uintptr_t next = 0x1000;
  *event = reinterpret_cast<Event>(next += 0x10);
  all().events[*event];
  return kSuccess;
}

Status destroy_event(Event event) {
  const std::lock_guard lock(State::get().mutex);
  return all().events.erase(event) == 0 ? no_event() : kSuccess;
}

Status record_now(Event event) {
  const std::lock_guard lock(State::get().mutex);
  EventState* const state = event_of(event);
  if (state == nullptr) return no_event();
  *state = {Clock::now(), true, nullptr, {}};
  return kSuccess;
}

Status elapsed(Event start, Event end, float* milliseconds) {
  const std::lock_guard lock(State::get().mutex);
  const EventState* const from = event_of(start);
  const EventState* const to = event_of(end);
  if (from == nullptr || to == nullptr) return no_event();
  if (!from->recorded || !to->recorded) return fail(kInvalidResourceHandle, "an event was never recorded");
  *milliseconds = std::chrono::duration<float, std::milli>(to->at - from->at).count();
  return kSuccess;
}

Status submit(Stream stream, Work work) {
  {
    const std::lock_guard lock(State::get().mutex);
    StreamState* captured = nullptr;
    if (const Status status = place_for(stream, captured); status != kSuccess) return status;
    if (captured != nullptr) {
      append(*captured, std::move(work));
      return kSuccess;
    }
  }
  return perform(work);
}

Status submit_launch(Stream stream, const void* stub, Dim3 grid, Dim3 block, Dim3 cluster, std::size_t smem,
                     void** arguments, const void* buffer) {
  const std::lock_guard lock(State::get().mutex);
  StreamState* captured = nullptr;
  if (const Status status = place_for(stream, captured); status != kSuccess) return status;
  if (captured == nullptr && buffer == nullptr) return launch(stub, grid, block, cluster, smem, arguments);
  KernelWork work;
  const Status status = make_kernel_work(stub, grid, block, cluster, smem, arguments, buffer, work);
  if (status != kSuccess) return status;
  if (captured == nullptr) return perform(work);
  append(*captured, std::move(work));
  return kSuccess;
}

Status record(Event event, Stream stream) {
  const std::lock_guard lock(State::get().mutex);
  EventState* const state = event_of(event);
  if (state == nullptr) return no_event();
  StreamState* captured = nullptr;
  if (const Status status = place_for(stream, captured); status != kSuccess) return status;
  if (captured == nullptr) return record_now(event);
  state->capture = captured->capture;
  state->tail = captured->tail;
  return kSuccess;
}

Status wait(Stream stream, Event event) {
  const std::lock_guard lock(State::get().mutex);
  EventState* const awaited = event_of(event);
  if (awaited == nullptr) return no_event();
  StreamState* const state = state_of(stream);
  if (state == nullptr) return no_stream();
  if (awaited->capture == nullptr) {
    if (state->capture == nullptr) return kSuccess;
    return spoil(*state->capture, kStreamCaptureIsolation,
                 "a captured stream waits for an event of work outside the capture");
  }
  if (!awaited->capture->valid)
    return fail(kStreamCaptureInvalidated, "this event belongs to a capture that was lost or is over");
  if (state->capture != nullptr && state->capture != awaited->capture)
    return spoil(*state->capture, kStreamCaptureMerge, "a wait would join two captures");
  if (is_legacy(stream))
    return spoil(*awaited->capture, kStreamCaptureImplicit, "the legacy stream waits for a captured event");
  state->capture = awaited->capture;
  merge(state->tail, awaited->tail);
  return kSuccess;
}

Status synchronize(Stream stream, const char* call) {
  if (const Status status = earlier_fault(); status != kSuccess) return status;
  const std::lock_guard lock(State::get().mutex);
  StreamState* const state = state_of(stream);
  if (state == nullptr) return no_stream();
  if (state->capture == nullptr) return is_legacy(stream) ? legacy_is_free() : kSuccess;
  return spoil(*state->capture, kStreamCaptureUnsupported,
               std::string(call) + " on a captured stream, whose work has not begun");
}

Status synchronize_all(const char* call) {
  if (const Status status = earlier_fault(); status != kSuccess) return status;
  const std::lock_guard lock(State::get().mutex);
  for (auto& [stream, state] : all().streams) {
    if (state.capture != nullptr && state.capture->valid)
      return spoil(*state.capture, kStreamCaptureUnsupported,
                   std::string(call) + " while a stream is captured");
  }
  return kSuccess;
}

Status synchronize_event(Event event, const char* call) {
  if (const Status status = earlier_fault(); status != kSuccess) return status;
  const std::lock_guard lock(State::get().mutex);
  EventState* const state = event_of(event);
  if (state == nullptr) return no_event();
  if (state->capture == nullptr) return kSuccess;
  if (!state->capture->valid) return fail(kCapturedEvent, std::string(call) + " on a captured event");
  return spoil(*state->capture, kCapturedEvent, std::string(call) + " on a captured event");
}

}  // namespace sglab::runtime
