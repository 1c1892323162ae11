#include <algorithm>
#include <bit>

#include "isa/aperture.hpp"
#include "observe/record/accesses.hpp"
#include "observe/sanitize/races/detector.hpp"

// Who learns what from whom: barriers, mbarriers, fences, and synchronising accesses.
namespace sglab::emu::races {
namespace {

bool acquires(Order order) {
  return order == Order::kAcquire || order == Order::kAcqRel || order == Order::kSc;
}
bool releases(Order order) {
  return order == Order::kRelease || order == Order::kAcqRel || order == Order::kSc;
}

constexpr std::size_t level(Scope scope) {
  return std::min<std::size_t>(static_cast<std::size_t>(scope), 2);
}

std::uint32_t cta_of(const Actor& actor) {
  return static_cast<std::uint32_t>(linear_index(*actor.warp->cta));
}

// Whether an operation of this scope by some thread reaches the one that left `left`.
bool reaches(Scope scope, std::uint64_t cluster, std::uint32_t cta, const Left& left) {
  switch (scope) {
    case Scope::kCta:
      return left.cluster == cluster && left.cta == cta;
    case Scope::kCluster:
      return left.cluster == cluster;
    default:
      return true;
  }
}

// Into what gathers at a barrier. A relaxed arrival releases what the fences before it cover.
void leave(View& at, Strand& strand, Threads& threads, Order order, Scope scope) {
  const ViewPtr view = threads.publish(strand);
  if (releases(order)) {
    at.join(*view);
  } else {
    if (const ViewPtr& fence = strand.fences[level(scope)]) at.join(*fence);
    at.weak.join(view->seen);
    at.weak.join(view->weak);
  }
  if (strand.before_tensor != nullptr) at.tensor.join(strand.before_tensor->tensor);
  if (strand.before_init != nullptr) at.initialised.join(strand.before_init->seen);
}

constexpr std::size_t kFoundApart = 64;

// What threads of one CTA left becomes one: a fence reaches all of it or none.
void merge(std::vector<Left>& found) {
  std::vector<Left> merged;
  for (Left& left : found) {
    const auto same = std::find_if(merged.begin(), merged.end(), [&](const Left& other) {
      return other.cluster == left.cluster && other.cta == left.cta;
    });
    if (same == merged.end()) {
      merged.push_back(std::move(left));
      continue;
    }
    auto both = make_pooled<View>(*same->view);
    both->join(*left.view);
    same->view = std::move(both);
  }
  found = std::move(merged);
}

void learn(Strand& strand, Threads& threads, const Left& left, Order order) {
  const View& view = *left.view;
  strand.tensor_found.join(view.tensor);
  if (!acquires(order)) {
    strand.tensor_found.join(view.seen);
    if (std::none_of(strand.found.begin(), strand.found.end(),
                     [&](const Left& known) { return known.view == left.view; })) {
      const std::size_t apart = strand.found.size();
      if (apart >= kFoundApart && std::has_single_bit(apart)) merge(strand.found);
      strand.found.push_back(left);
    }
    View& own = threads.change(strand);
    own.weak.join(view.seen);
    own.weak.join(view.weak);
    own.initialised.join(view.initialised);
    return;
  }
  threads.change(strand).join_from(threads.cluster(), view, left.cluster);
  // What a strand has released has come back to it: its lanes are ordered with each other up to there.
  if (left.cluster != threads.cluster()) return;
  const std::uint32_t back = view.seen[strand.slot];
  if (back >= strand.met) strand.met = back + 1;
}

}  // namespace

void RaceDetector::warp_synced(const Actor& actor, std::uint32_t all, bool memory) {
  if (memory) state(actor).threads.meet(*actor.warp, all);
}

BarrierViews& RaceDetector::barrier_of(ClusterRaces& cluster, const Actor& actor, const BarrierUse& use) {
  if (use.number == kClusterBarrierNumber) return cluster.cluster_barrier;
  std::unique_ptr<BarrierViews>& barrier = cluster.barriers[actor.warp->cta->rank][use.number];
  if (barrier == nullptr) barrier = std::make_unique<BarrierViews>();
  return *barrier;
}

void RaceDetector::arrived(const Actor& actor, const BarrierUse& use) {
  ClusterRaces& cluster = state(actor);
  const bool whole = use.number == kClusterBarrierNumber;
  BarrierViews& barrier = barrier_of(cluster, actor, use);
  if (barrier.phase < use.phase) barrier.end(use.phase - 1);
  cluster.threads.each(*actor.warp, actor.lanes, [&](Strand& strand) {
    leave(barrier.gathering, strand, cluster.threads, use.order, whole ? Scope::kCluster : Scope::kCta);
  });
  const std::uint64_t now =
      whole ? actor.warp->cluster->barrier.phase : actor.warp->cta->barriers[use.number].phase;
  if (now != use.phase) barrier.end(use.phase);
}

void RaceDetector::passed(const Actor& actor, const BarrierUse& use) {
  ClusterRaces& cluster = state(actor);
  BarrierViews& barrier = barrier_of(cluster, actor, use);
  if (barrier.phase <= use.phase) barrier.end(use.phase);  // by lanes that have exited
  const BarrierViews::Ended& ended = barrier.ended[use.phase % barrier.ended.size()];
  const Left left{ended.view, actor.warp->cluster->index, cta_of(actor), Scope::kCluster};
  cluster.threads.each(*actor.warp, actor.lanes,
                       [&](Strand& strand) { learn(strand, cluster.threads, left, Order::kAcquire); });
  if (use.number != kClusterBarrierNumber) cluster.threads.meet(*actor.warp, actor.lanes);
}

// Explicit .cta, on an mbarrier of another CTA. Without a scope such an operation counts as cluster-wide,
// though the ISA's default is .cta: CUTLASS arrives so in other CTAs.
bool RaceDetector::names_cta_scope(const Actor& actor, std::uint32_t address) const {
  if (address >> kSharedRankShift == actor.warp->cta->rank) return false;
  const Effects& effects =
      actor.warp->program->effects[static_cast<std::size_t>(actor.inst - actor.warp->code)];
  return effects.scoped && effects.scope == Scope::kCta;
}

void RaceDetector::check_initialised(const Actor& actor, const MbarrierViews& object, std::uint32_t address,
                                     const View& view) {
  if (!object.initialised) return;
  const Record& init = *object.initialised;
  if (view.seen.covers(init.slot, init.clock) || view.initialised.covers(init.slot, init.clock)) return;
  Finding finding;
  finding.detector = "races";
  finding.kind = "missing_init_fence";
  finding.message =
      "an mbarrier is used whose initialisation is not ordered before: fence.mbarrier_init or a releasing "
      "synchronisation is missing between";
  finding.at = party(actor);
  finding.other.cta = init.cta;
  finding.other.warp = init.warp;
  finding.other.lanes = init.lanes;
  finding.other.pc = init.pc;
  finding.other.position = init.position;
  finding.other_did = "initialised it";
  finding.space = "shared";
  finding.address = address;
  finding.bytes = 8;
  findings.report(std::move(finding));
}

void RaceDetector::mbarrier(const Actor& actor, const MbarrierEvent& event) {
  using Op = MbarrierUse::Op;
  if (is_misuse(event.status) && event.status != MbarrierStatus::kInitOfLiveObject) return;
  ClusterRaces& cluster = state(actor);
  MbarrierViews& object = cluster.mbarrier(event.address);
  if (actor.operation != 0) {
    signal(cluster, actor, object, event.address);
  } else {
    cluster.threads.each(*actor.warp, actor.lanes, [&](Strand& strand) {
      if (event.op == Op::kInit) {
        cluster.threads.tick(strand);
        object.initialised = record_of(actor, strand);
        object.gathering = View{};
        object.ended = nullptr;
        ++object.times;
        return;
      }
      check_initialised(actor, object, event.address, *strand.view);
      if (event.op == Op::kInval) object.initialised.reset();
      if (event.op != Op::kArrive && event.op != Op::kCompleteTx) return;
      const Order order = names_cta_scope(actor, event.address) ? Order::kRelaxed : event.order;
      visit(cluster, actor, event.address, record_of(actor, strand));
      leave(object.gathering, strand, cluster.threads, order, event.scope);
    });
  }
  if (event.status != MbarrierStatus::kPhaseComplete) return;
  object.ended = make_pooled<View>(object.gathering);
  ++object.times;
}

// An asynchronous operation arrives, or completes its bytes: a release of cluster scope ("mbarrier:
// complete-tx").
void RaceDetector::signal(ClusterRaces& cluster, const Actor& actor, MbarrierViews& object,
                          std::uint32_t address) {
  const auto found = cluster.operations.find(actor.operation);
  if (found == cluster.operations.end()) return;
  Issued& op = found->second;
  for (const ViewPtr& view : op.views) {
    check_initialised(actor, object, address, *view);
    object.gathering.join(*view);
  }
  if (op.record.role == Role::kCopy) object.gathering.seen.raise(object.slot, object.times);
  if (--op.signals == 0) cluster.operations.erase(found);
}

void RaceDetector::mbarrier_passed(const Actor& actor, const MbarrierWait& wait) {
  ClusterRaces& cluster = state(actor);
  MbarrierViews& object = cluster.mbarrier(wait.address);
  const Left left{object.ended, actor.warp->cluster->index, cta_of(actor), Scope::kCluster};
  cluster.threads.each(*actor.warp, actor.lanes, [&](Strand& strand) {
    check_initialised(actor, object, wait.address, *strand.view);
    if (wait.phase >= 0 && left.view != nullptr) learn(strand, cluster.threads, left, wait.order);
  });
}

// fence.{sc,acq_rel,…}: what relaxed operations have found is known from here on, what is known is left by
// relaxed operations from here on ("Release and acquire patterns").
void RaceDetector::fence_threads(Threads& threads, Strand& strand, const Actor& actor, const Fence& fence) {
  if (acquires(fence.order)) {
    const std::vector<Left> found = std::move(strand.found);
    strand.found.clear();
    for (const Left& left : found) {
      if (reaches(fence.scope, threads.cluster(), cta_of(actor), left)) {
        learn(strand, threads, left, Order::kAcquire);
      } else {
        strand.found.push_back(left);
      }
    }
  }
  if (!releases(fence.order)) return;
  const ViewPtr view = threads.publish(strand);
  for (std::size_t k = 0; k <= level(fence.scope); ++k) strand.fences[k] = view;
}

void RaceDetector::fenced(const Actor& actor, const Fence& fence) {
  Threads& threads = state(actor).threads;
  threads.each(*actor.warp, actor.lanes, [&](Strand& strand) {
    switch (fence.kind) {
      case Fence::Kind::kThread:
        return fence_threads(threads, strand, actor, fence);
      case Fence::Kind::kProxyAsync: {
        View& view = threads.change(strand);
        for (unsigned i = 0; i < 2; ++i) {
          if (fence.space == (i == 0 ? Space::kShared : Space::kGlobal)) continue;
          view.fenced[i].join(view.seen);
          for (LaneHistory& one : view.lanes) one.fenced[i] = true;
        }
        strand.published = true;
        return;
      }
      case Fence::Kind::kProxyTensormap: {
        View& view = threads.change(strand);
        if (releases(fence.order)) view.release_maps();
        for (std::uint32_t rest = fence.address == nullptr ? 0 : strand.lanes & actor.lanes; rest != 0;
             rest &= rest - 1)
          view.acquire_map(fence.address[std::countr_zero(rest)]);
        strand.published = true;
        return;
      }
      case Fence::Kind::kMbarrierInit:
        strand.before_init = threads.publish(strand);
        return;
      case Fence::Kind::kTcgenBefore:
        return fence_tensor(threads, strand, actor);
      case Fence::Kind::kTcgenAfter:
        threads.change(strand).tensor.join(strand.tensor_found);
        return;
      case Fence::Kind::kTcgenWaitLoad:
      case Fence::Kind::kTcgenWaitStore: {
        const auto line = fence.kind == Fence::Kind::kTcgenWaitLoad ? Threads::Line::kTensorLoad
                                                                    : Threads::Line::kTensorStore;
        if (const Channel* const channel = threads.find_channel(line, *actor.warp))
          threads.change(strand).seen.raise(channel->slot, channel->count);
        return;
      }
      default:
        return;
    }
  });
}

// tcgen05.fence::before_thread_sync: also operations that have not completed are ordered before what comes,
// for those that form a pipeline with them.
void RaceDetector::fence_tensor(Threads& threads, Strand& strand, const Actor& actor) {
  auto before = make_pooled<View>();
  before->tensor = strand.view->seen;
  before->tensor.join(strand.view->tensor);
  for (std::uint32_t rest = strand.lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    if (const Channel* const channel = threads.find_channel(Threads::Line::kTensor, *actor.warp, lane))
      before->tensor.raise(channel->second_slot, channel->count);
  }
  strand.before_tensor = std::move(before);
  strand.published = true;
}

void RaceDetector::synchronise(const Actor& actor, const Access& access) {
  ClusterRaces& cluster = state(actor);
  auto& all = access.space == Space::kGlobal ? left_ : cluster.left;
  cluster.threads.each_part(*actor.warp, access.lanes, [&](Strand& strand, std::uint32_t lanes) {
    for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
      const std::uint64_t address = access.address[std::countr_zero(rest)];
      const auto found = all.find(address);
      if (access.reads && found != all.end()) find_at(found->second, cluster.threads, strand, actor, access);
      if (!access.writes) continue;
      const bool leaves =
          releases(access.order) || strand.fences[0] != nullptr || std::has_single_bit(access.lanes);
      if (found == all.end() && !leaves) continue;
      leave_at(found != all.end() ? found->second : all[address], cluster.threads, strand, actor, access);
    }
  });
}

void RaceDetector::find_at(const Leavings& all, Threads& threads, Strand& strand, const Actor& actor,
                           const Access& access) {
  const std::uint32_t cta = cta_of(actor);
  for (const Left& left : all) {
    const bool wide = !left.weak && reaches(access.scope, threads.cluster(), cta, left) &&
                      reaches(left.scope, left.cluster, left.cta, {nullptr, threads.cluster(), cta});
    if (wide) {
      learn(strand, threads, left, access.order);
    } else if (left.cluster == threads.cluster()) {
      threads.change(strand).weak.join(left.view->seen);
    } else {
      View weak;
      weak.weak = left.view->seen;
      threads.change(strand).join_from(threads.cluster(), weak, left.cluster);
    }
  }
}

// Read-modify-writes continue what is there (release sequences); stores replace it.
void RaceDetector::leave_at(Leavings& all, Threads& threads, Strand& strand, const Actor& actor,
                            const Access& access) {
  if (!access.atomic) all.clear();
  const Left made{nullptr, threads.cluster(), cta_of(actor), access.scope, false};
  const auto add = [&](const ViewPtr& view, Scope scope, bool weak) {
    for (Left& left : all) {
      if (left.cluster != made.cluster || left.cta != made.cta || left.scope != scope || left.weak != weak)
        continue;
      if (left.view == view) return;
      auto joined = make_pooled<View>(*left.view);
      joined->join(*view);
      left.view = std::move(joined);
      return;
    }
    all.push_back({view, made.cluster, made.cta, scope, weak});
  };
  if (releases(access.order)) return add(threads.publish(strand), access.scope, false);
  for (std::size_t k = strand.fences.size(); k-- > 0;) {
    const ViewPtr& fence = strand.fences[k];
    if (fence == nullptr || (k + 1 < strand.fences.size() && fence == strand.fences[k + 1])) continue;
    add(fence, std::min(static_cast<Scope>(k), access.scope), false);
  }
  if (std::has_single_bit(access.lanes)) add(threads.publish(strand), access.scope, true);
}

}  // namespace sglab::emu::races
