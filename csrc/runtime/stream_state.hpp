// What is known of streams, events and captures. Guarded by State::mutex.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/streams.hpp"

namespace sglab::runtime {

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

struct All {
  std::map<Stream, StreamState> streams;
  std::map<Event, EventState> events;
  unsigned long long captures = 0;
};

All& all();

StreamState* state_of(Stream stream);
EventState* event_of(Event event);
bool is_legacy(Stream stream);

Status no_stream();
Status no_event();

// Ends `capture` without a graph and says why.
Status spoil(Capture& capture, Status status, const std::string& why);
// Work in the legacy stream is ordered with all blocking streams, captured ones too.
Status legacy_is_free();
// Adds the nodes that are not there yet.
void merge(std::vector<Node*>& into, std::span<Node* const> more);

}  // namespace sglab::runtime
