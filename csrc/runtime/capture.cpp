// Between the beginning and the end of a stream's capture.
#include <algorithm>
#include <utility>

#include "runtime/stream_state.hpp"

namespace sglab::runtime {
namespace {

thread_local CaptureMode thread_mode = CaptureMode::kGlobal;

bool reaches(const std::vector<Node*>& from, const Node* target) {
  return std::ranges::any_of(
      from, [target](const Node* node) { return node == target || reaches(node->after, target); });
}

}  // namespace

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
