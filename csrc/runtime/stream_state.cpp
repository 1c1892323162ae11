#include "runtime/stream_state.hpp"

#include <algorithm>

namespace sglab::runtime {
namespace {

const Stream kLegacy = nullptr;

}  // namespace

All& all() {
  static All* const one = new All{{{kLegacy, {}}, {reinterpret_cast<Stream>(2), {}}}, {}, 0};
  return *one;
}

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

Status spoil(Capture& capture, Status status, const std::string& why) {
  capture.valid = false;
  return fail(status, why + ": the capture that was under way is lost");
}

Status legacy_is_free() {
  for (auto& [stream, state] : all().streams) {
    if (state.capture == nullptr || !state.capture->valid || state.flags & kNonBlocking) continue;
    return spoil(*state.capture, kStreamCaptureImplicit,
                 "work in the legacy stream while a stream that waits for it is captured");
  }
  return kSuccess;
}

void merge(std::vector<Node*>& into, std::span<Node* const> more) {
  for (Node* const node : more) {
    if (std::ranges::find(into, node) == into.end()) into.push_back(node);
  }
}

}  // namespace sglab::runtime
