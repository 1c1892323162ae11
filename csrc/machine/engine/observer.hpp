#pragma once

#include <algorithm>
#include <cstdint>
#include <variant>
#include <vector>

namespace sglab::emu {

struct BulkOperation;
struct Cluster;
struct Cta;
struct Fault;
struct Inst;
struct Issuer;
struct Launch;
struct MbarrierUse;
struct SmallCopy;
struct TensorCommit;
struct TensorOperation;
struct Warning;
struct Warp;
struct Wgmma;
enum class MbarrierStatus : std::uint8_t;

// An asynchronous operation at its issue, or as it is carried out. Operations have numbers in their cluster,
// Issuer::operation. A wgmma is issued four times, by one warp after the other, with one number.
struct AsyncOperation {
  const Issuer& issuer;
  std::uint32_t lanes;  // that issue it, or for which it is carried out; 0: the issuer's
  std::variant<const BulkOperation*, const TensorOperation*, const TensorCommit*, const SmallCopy*,
               const Wgmma*>
      what;
};

// What an instruction or an operation's signal (Issuer::operation) did to an mbarrier, or was refused.
struct MbarrierChange {
  const Issuer& issuer;
  std::uint32_t lanes;    // several, when they act together; 0: the issuer's
  std::uint32_t address;  // shared::cluster
  const MbarrierUse& use;
  MbarrierStatus status;  // kPhaseComplete: it ended the phase
  std::uint64_t word;     // the object as it is now
};

enum class BarrierKind : std::uint8_t { kNamed, kMbarrier, kCluster };

// The instructions that an observer must hear of. The others it only has counted, so that they cost next to
// nothing.
struct Followed {
  enum : std::uint8_t { kHeard = 1, kCounted = 2 };
  std::vector<std::uint8_t> instructions;  // by number
  bool all = false;                        // are heard of at present
  std::uint64_t count = 0;                 // executed so far, of those that count
};

// What a launch notifies of: the one stream of events that recorders, sanitizers and breakpoints follow. An
// observed launch runs on one host thread, so events have one order, that of their effects.
class Observer {
 public:
  virtual ~Observer() = default;

  virtual void launched(const Launch&) {}
  virtual void cluster_started(const Cluster&) {}
  virtual void cluster_finished(const Cluster&) {}  // nothing is in flight any more
  virtual void failed(const Fault&) {}
  virtual void warned(const Warp&, const Inst*, const Warning&) {}

  // Whether this one hears of every attempt at an instruction, too.
  virtual bool follows_instructions() const { return false; }
  virtual void attempting(const Warp&, const Inst*) {}
  // The handler returned; Warp::retry: the attempt blocked. Nothing follows an attempt that faulted.
  virtual void attempted(const Warp&, const Inst*, const Inst* next) { (void)next; }

  virtual void issued(const Cluster&, const AsyncOperation&) {}
  // A prefetch has no effect here.
  virtual void prefetched(const Cluster&, const BulkOperation&) {}
  // The operation's bytes move now; those of a cp.async may do so lane by lane.
  virtual void performed(const Cluster&, const AsyncOperation&) {}

  virtual void mbarrier_changed(const Cluster&, const MbarrierChange&) {}
  // `arrived` of the `wanted` threads that end a phase have come to a named barrier or to the cluster's
  // barrier; 0 of 0 when a phase has ended.
  virtual void barrier_changed(const Cta&, BarrierKind, std::uint32_t number, std::uint32_t arrived,
                               std::uint32_t wanted) {
    (void)number, (void)arrived, (void)wanted;
  }
  // The instruction being executed completes this phase.
  virtual void barrier_completed(const Cta&, BarrierKind, std::uint32_t number, std::uint64_t phase) {
    (void)number, (void)phase;
  }
  // Of one that follows instructions: which it must hear of; nullptr: all. Those that it hears of it counts
  // itself.
  virtual Followed* followed() { return nullptr; }
};

// The observers of a launch at one moment. Without any, an event costs one comparison, an instruction none.
class Observers {
 public:
  void add(Observer& observer) {
    all_.push_back(&observer);
    if (observer.follows_instructions()) of_instructions_.push_back(&observer);
  }
  void remove(Observer& observer) {
    std::erase(all_, &observer);
    std::erase(of_instructions_, &observer);
  }
  bool none() const { return all_.empty(); }
  const std::vector<Observer*>& of_instructions() const { return of_instructions_; }
  template <class Event>
  void notify(Event event) const {
    for (Observer* const observer : all_) event(*observer);
  }

 private:
  std::vector<Observer*> all_, of_instructions_;
};

}  // namespace sglab::emu
