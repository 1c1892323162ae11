#include "runtime/streams.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "runtime/launch.hpp"

namespace sglab::runtime {
namespace {

using Clock = std::chrono::steady_clock;

struct Capture {
  unsigned long long id;
  Stream origin;
  std::shared_ptr<Graph> graph;
  CaptureMode mode;
  std::thread::id thread;
  bool valid = true;
  std::vector<Node*> left = {};  // the last nodes of streams that were destroyed before its end
};

struct StreamState {
  unsigned flags = 0;
  std::shared_ptr<Capture> capture;
  std::vector<Node*> tail;
};

struct EventState {
  Clock::time_point at;
  bool recorded = false;
  std::shared_ptr<Capture> capture;
  std::vector<Node*> tail;
};

constexpr unsigned kNonBlocking = 1;
const Stream kLegacy = nullptr;

// Guarded by State::mutex.
struct All {
  std::map<Stream, StreamState> streams;
  std::map<Event, EventState> events;
  unsigned long long captures = 0;
};

All& all() {
  static All* const one = new All{{{kLegacy, {}}, {reinterpret_cast<Stream>(2), {}}}, {}, 0};
  return *one;
}

thread_local CaptureMode thread_mode = CaptureMode::kGlobal;

// cudaStreamLegacy and the null stream are one; cudaStreamPerThread is another.
StreamState* state_of(Stream stream) {
  if (reinterpret_cast<std::uintptr_t>(stream) == 1) stream = kLegacy;
  const auto found = all().streams.find(stream);
  return found == all().streams.end() ? nullptr : &found->second;
}

bool is_legacy(Stream stream) {
  return reinterpret_cast<std::uintptr_t>(stream) <= 1;
}

EventState* event_of(Event event) {
  const auto found = all().events.find(event);
  return found == all().events.end() ? nullptr : &found->second;
}

Status no_stream() {
  return fail(kInvalidResourceHandle, "this stream was never created, or was destroyed");
}
Status no_event() {
  return fail(kInvalidResourceHandle, "this event was never created, or was destroyed");
}

// Ends `capture` without a graph and says why.
Status spoil(Capture& capture, Status status, const std::string& why) {
  capture.valid = false;
  return fail(status, why + ": the capture that was under way is lost");
}

// Work in the legacy stream is ordered with all blocking streams, captured ones too.
Status legacy_is_free() {
  for (auto& [stream, state] : all().streams) {
    if (state.capture == nullptr || !state.capture->valid || state.flags & kNonBlocking) continue;
    return spoil(*state.capture, kStreamCaptureImplicit,
                 "work in the legacy stream while a stream that waits for it is captured");
  }
  return kSuccess;
}

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

void merge(std::vector<Node*>& into, std::span<Node* const> more) {
  for (Node* const node : more) {
    if (std::ranges::find(into, node) == into.end()) into.push_back(node);
  }
}

bool reaches(const std::vector<Node*>& from, const Node* target) {
  return std::ranges::any_of(
      from, [target](const Node* node) { return node == target || reaches(node->after, target); });
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

Status allowed_in_captures(const char* call) {
  const std::lock_guard lock(State::get().mutex);
  if (thread_mode == CaptureMode::kRelaxed) return kSuccess;
  for (auto& [stream, state] : all().streams) {
    if (state.capture == nullptr || !state.capture->valid || state.capture->mode == CaptureMode::kRelaxed)
      continue;
    const bool mine = state.capture->thread == std::this_thread::get_id();
    const bool global = state.capture->mode == CaptureMode::kGlobal && thread_mode == CaptureMode::kGlobal;
    if (mine || global) {
      return spoil(*state.capture, kStreamCaptureUnsupported,
                   std::string(call) + " while a stream is captured in a mode that forbids it");
    }
  }
  return kSuccess;
}

Status begin_capture(Stream stream, CaptureMode mode, Graph* into, std::span<Node* const> after) {
  const std::lock_guard lock(State::get().mutex);
  StreamState* const state = state_of(stream);
  if (state == nullptr) return no_stream();
  if (is_legacy(stream))
    return fail(kStreamCaptureUnsupported, "the legacy stream cannot be captured; create a stream");
  if (state->capture != nullptr) return fail(kIllegalState, "this stream is captured already");
  if (mode < CaptureMode::kGlobal || mode > CaptureMode::kRelaxed)
    return fail(kInvalidValue, "there is no capture mode " + std::to_string(static_cast<int>(mode)));
  auto graph = into == nullptr ? std::make_shared<Graph>() : shared(into);
  state->capture = std::make_shared<Capture>(
      Capture{++all().captures, stream, std::move(graph), mode, std::this_thread::get_id()});
  state->tail.assign(after.begin(), after.end());
  return kSuccess;
}

Status end_capture(Stream stream, Graph** graph) {
  const std::lock_guard lock(State::get().mutex);
  *graph = nullptr;
  StreamState* const state = state_of(stream);
  if (state == nullptr) return no_stream();
  const std::shared_ptr<Capture> capture = state->capture;
  if (capture == nullptr) return fail(kIllegalState, "this stream is not captured");
  if (capture->origin != stream)
    return spoil(*capture, kStreamCaptureUnmatched,
                 "a capture ends on the stream on which it began, and this is another");
  if (capture->thread != std::this_thread::get_id() && capture->mode != CaptureMode::kRelaxed)
    return spoil(*capture, kStreamCaptureWrongThread, "the capture began in another thread");
  std::vector<Node*> ends = capture->left;
  for (const auto& [other, one] : all().streams) {
    if (one.capture == capture) merge(ends, one.tail);
  }
  const bool joined = std::ranges::all_of(ends, [&](const Node* node) { return reaches(state->tail, node); });
  for (auto& [other, one] : all().streams) {
    if (one.capture != capture || other == stream) continue;
    one.capture = nullptr;
    one.tail.clear();
  }
  state->capture = nullptr;
  state->tail.clear();
  if (!capture->valid) return fail(kStreamCaptureInvalidated, "the capture was lost by an earlier error");
  capture->valid = false;  // for events that were recorded in it
  if (!joined)
    return fail(
        kStreamCaptureUnjoined,
        "a stream that joined the capture was not joined again: record an event there and wait for it");
  *graph = shared(capture->graph.get()) == nullptr ? own(capture->graph, false) : capture->graph.get();
  return kSuccess;
}

Status view_capture(Stream stream, CaptureView& view) {
  const std::lock_guard lock(State::get().mutex);
  const StreamState* const state = state_of(stream);
  if (state == nullptr) return no_stream();
  view = {};
  if (state->capture == nullptr) return is_legacy(stream) ? legacy_is_free() : kSuccess;
  view.status = state->capture->valid ? CaptureStatus::kActive : CaptureStatus::kInvalidated;
  view.id = state->capture->id;
  if (state->capture->valid) view.graph = state->capture->graph.get(), view.tail = state->tail;
  return kSuccess;
}

Status set_tail(Stream stream, std::span<Node* const> tail, bool replaces) {
  const std::lock_guard lock(State::get().mutex);
  StreamState* const state = state_of(stream);
  if (state == nullptr) return no_stream();
  if (state->capture == nullptr || !state->capture->valid)
    return fail(kIllegalState, "this stream is not captured");
  for (const Node* const node : tail) {
    if (!state->capture->graph->holds(node)) return fail(kInvalidValue, "a node of another graph");
  }
  if (replaces) state->tail.clear();
  merge(state->tail, tail);
  return kSuccess;
}

CaptureMode exchange_mode(CaptureMode mode) {
  return std::exchange(thread_mode, mode);
}

}  // namespace sglab::runtime
