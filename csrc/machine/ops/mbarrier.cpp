// mbarrier.*, cp.async.mbarrier.arrive.

#include <algorithm>
#include <bit>

#include "machine/async/engine.hpp"
#include "machine/engine/warning.hpp"
#include "machine/ops/operands.hpp"
#include "machine/ops/tensor_families.hpp"

namespace sglab::emu {
namespace {

// Inst::target of the arrive family.
enum ArriveFlags : std::uint32_t {
  kDrop = 1,
  kExpectTx = 2,
  kNoComplete = 4,
  kHasCount = 8,
  kReturnsState = 16
};
// Inst::target of the wait family.
enum WaitFlags : std::uint32_t { kParity = 1, kBlocking = 2 };

template <typename Apply>
const Inst* for_each_object(Warp& w, const Inst* i, Apply apply) {
  AsyncEngine& engine = async_engine(w);
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    const Issuer issuer{w.slot, lane, i};
    const std::uint32_t address = shared_address(w, i, main_address(i), lane);
    apply(engine, issuer, address, engine.mbarrier_word(issuer, address), lane);
  }
  return i + 1;
}

const Inst* init(Warp& w, const Inst* i) {
  const std::uint32_t* counts = lanes32(w, i->b);
  return for_each_object(
      w, i,
      [&](AsyncEngine& engine, const Issuer& issuer, std::uint32_t address, std::uint64_t& word, int lane) {
        const MbarrierUse use{MbarrierUse::Op::kInit, word, counts[lane]};
        const MbarrierStatus status = mbarrier_init(word, counts[lane]);
        engine.settle(issuer, address, status, use);
        engine.note_init(address);
      });
}

const Inst* inval(Warp& w, const Inst* i) {
  return for_each_object(
      w, i,
      [&](AsyncEngine& engine, const Issuer& issuer, std::uint32_t address, std::uint64_t& word, int lane) {
        // Triton does so at the end of a kernel, and a GPU forgives it.
        if (engine.signals(address)) {
          warn(w, i, 1u << lane, "mbarrier_invalidated_early",
               "operations that arrive at the mbarrier at shared address " + hex(address) +
                   " were outstanding: nobody has waited for them");
        }
        const MbarrierUse use{MbarrierUse::Op::kInval, word};
        engine.settle(issuer, address, mbarrier_inval(word), use);
        engine.note_inval(address);
      });
}

const Inst* expect_tx(Warp& w, const Inst* i) {
  const std::uint32_t* bytes = lanes32(w, i->b);
  return for_each_object(
      w, i,
      [&](AsyncEngine& engine, const Issuer& issuer, std::uint32_t address, std::uint64_t& word, int lane) {
        const MbarrierUse use{MbarrierUse::Op::kExpect, word, 0, bytes[lane]};
        engine.settle(issuer, address, mbarrier_expect_tx(word, bytes[lane]), use);
      });
}

const Inst* complete_tx(Warp& w, const Inst* i) {
  const std::uint32_t* bytes = lanes32(w, i->b);
  return for_each_object(
      w, i,
      [&](AsyncEngine& engine, const Issuer& issuer, std::uint32_t address, std::uint64_t& word, int lane) {
        const MbarrierUse use{MbarrierUse::Op::kCompleteTx, word, 0, bytes[lane]};
        engine.settle(issuer, address, mbarrier_complete_tx(word, bytes[lane]), use);
      });
}

// Many lanes that arrive at one object together, the common case of a whole warp.
bool arrive_together(Warp& w, const Inst* i, AsyncEngine& engine) {
  if (w.mask != 0xffffffffu || (i->target & ~kHasCount) != 0) return false;
  const std::uint32_t first = shared_address(w, i, main_address(i), 0);
  const std::uint32_t* counts = (i->target & kHasCount) != 0 ? lanes32(w, i->b) : nullptr;
  std::uint32_t total = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if (shared_address(w, i, main_address(i), lane) != first) return false;
    total += counts != nullptr ? counts[lane] : 1;
  }
  const Issuer issuer{w.slot, 0, i};
  std::uint64_t& word = engine.mbarrier_word(issuer, first);
  // When the phase could end in between, or on misuse, lanes go one by one.
  if (!mbarrier_is_valid(word) || total > Mbarrier::load(word).pending) return false;
  ArriveOptions options;
  options.count = total;
  const MbarrierUse use{MbarrierUse::Op::kArrive, word, total};
  engine.settle(issuer, first, mbarrier_arrive(word, options), use, w.mask);
  return true;
}

const Inst* arrive(Warp& w, const Inst* i) {
  if (arrive_together(w, i, async_engine(w))) return i + 1;
  const std::uint32_t flags = i->target;
  const bool has_count = (flags & kHasCount) != 0;
  const std::uint32_t* values = has_count || (flags & kExpectTx) != 0 ? lanes32(w, i->b) : nullptr;
  return for_each_object(
      w, i,
      [&](AsyncEngine& engine, const Issuer& issuer, std::uint32_t address, std::uint64_t& word, int lane) {
        ArriveOptions options;
        options.drop = (flags & kDrop) != 0;
        options.no_complete = (flags & kNoComplete) != 0;
        options.expect_tx = (flags & kExpectTx) != 0;
        if (has_count) options.count = values[lane];
        if (options.expect_tx) options.tx_bytes = values[lane];
        if ((flags & kReturnsState) != 0) write64(w, i->d)[lane] = word;
        const MbarrierUse use{MbarrierUse::Op::kArrive, word, options.count, options.tx_bytes, options.drop};
        engine.settle(issuer, address, mbarrier_arrive(word, options), use);
      });
}

bool others_wait(const Warp& w, std::uint32_t address) {
  const std::vector<Warp>& all = w.cluster->warps;
  return std::any_of(all.begin(), all.end(), [&](const Warp& other) {
    return &other != &w && std::any_of(other.groups.begin(), other.groups.begin() + other.group_count,
                                       [&](const Group& g) { return g.arrived && g.key == address; });
  });
}

// The phase that a lane waits for: its parity, or its state.
std::uint64_t awaited(const Warp& w, const Inst* i, int lane) {
  return (i->target & kParity) != 0 ? lanes32(w, i->b)[lane] & 1u : lanes64(w, i->b)[lane];
}

// Whether the phase a lane waits for is over; what would end it is carried out first.
bool phase_done(AsyncEngine& engine, Warp& w, const Inst* i, int lane, std::uint32_t address) {
  const Issuer issuer{w.slot, lane, i};
  const std::uint64_t& word = engine.mbarrier_word(issuer, address);
  if (!mbarrier_is_valid(word))
    engine.settle(issuer, address, MbarrierStatus::kUninitialised, {MbarrierUse::Op::kWait, word});
  const std::uint64_t phase = awaited(w, i, lane);
  const auto over = [&] {
    return (i->target & kParity) != 0 ? mbarrier_parity_done(word, phase != 0)
                                      : mbarrier_state_done(word, phase);
  };
  while (!over()) {
    // Others see the end of this phase before this warp may have the next one ended.
    const bool shared = others_wait(w, address);
    if (!engine.advance_mbarrier(address)) return false;
    w.yield = w.yield || shared;
  }
  return true;
}

// Whether the phase that the group was waiting for ended since it blocked; the object may be further by now.
bool met(const AsyncEngine& engine, const Group& g, std::uint32_t address) {
  return g.arrived && g.key == address && engine.mbarrier_phases(address) != g.ticket;
}

const Inst* wait(Warp& w, const Inst* i) {
  AsyncEngine& engine = async_engine(w);
  std::uint32_t done = 0, missing = 0;
  std::uint64_t phase = 0;
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    const std::uint32_t address = shared_address(w, i, main_address(i), lane);
    const std::uint64_t wanted = awaited(w, i, lane);
    if (done != 0 && address == missing && wanted == phase) {  // as the lane before: over
      done |= 1u << lane;
      continue;
    }
    missing = address;
    phase = wanted;
    if (missing >> kSharedRankShift != w.cta->rank) {
      raise_fault(w, i, lane, "mbarrier",
                  "a wait needs an mbarrier in the CTA's own shared memory, not " + hex(missing));
    }
    const bool over = met(engine, w.current(), missing) || phase_done(engine, w, i, lane, missing);
    if (rest == w.mask || !over) engine.note_wait(w, i, missing, over);
    if (!over) break;
    done |= 1u << lane;
  }
  if (done != w.mask && (i->target & kBlocking) != 0 && !w.current().released) {
    const Inst* const next = block(w, i, Wait::kMbarrier, missing);
    w.current().arrived = true;
    w.current().ticket = engine.mbarrier_phases(missing);
    return next;
  }
  w.current().released = w.current().arrived = false;
  // The lanes after the first one that must wait have not been tried yet.
  for (std::uint32_t rest = w.mask & ~done; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    if (phase_done(engine, w, i, lane, shared_address(w, i, main_address(i), lane))) done |= 1u << lane;
  }
  if (done != w.mask) w.yield = true;  // a polling warp lets the others run
  std::uint32_t& target = w.predicates[i->d];
  target = (target & ~w.mask) | done;
  return i + 1;
}

const Inst* pending_count(Warp& w, const Inst* i) {
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const int lane = first_lane(rest);
    write32(w, i->d)[lane] = mbarrier_pending_count(lanes64(w, i->a)[lane]);
  }
  return i + 1;
}

const Inst* cp_async_arrive(Warp& w, const Inst* i) {
  AsyncEngine& engine = async_engine(w);
  SmallCopy& arrival = engine.new_small(w);
  arrival.issuer = {w.slot, -1, i};
  arrival.mask = w.mask;
  const bool counted = i->target != 0;  // .noinc: the arrival is already in the expected count
  for_each_object(
      w, i, [&](AsyncEngine&, const Issuer& issuer, std::uint32_t address, std::uint64_t& word, int lane) {
        const MbarrierUse use{MbarrierUse::Op::kAddPending, word, 1};
        if (!counted) engine.settle(issuer, address, mbarrier_add_pending(word), use);
        arrival.shared[static_cast<std::size_t>(lane)] = address;
      });
  engine.submit_small(w);
  return i + 1;
}

void build_address_and_word(Builder& b) {
  b.expect_count(2, 2);
  b.address(b.operand(0));
  b.use(Field::kB, b.operand(1), 'w');
}

void build_address(Builder& b) {
  b.expect_count(1, 1);
  b.address(b.operand(0));
  b.inst.target = b.has("noinc") ? 1 : 0;
}

void build_arrive(Builder& b) {
  // [state,] [address] [, count]
  const bool returns = b.count() > 0 && b.operand(0).kind != OperandKind::kAddress;
  const unsigned at = returns ? 1 : 0;
  b.expect_count(at + 1, at + 2);
  b.address(b.operand(at));
  std::uint32_t flags = 0;
  if (b.form.mnemonic.find("arrive_drop") != std::string_view::npos) flags |= kDrop;
  if (b.has("expect_tx")) flags |= kExpectTx;
  if (b.has("noComplete")) flags |= kNoComplete;
  if (b.count() > at + 1) {
    b.use(Field::kB, b.operand(at + 1), 'w');
    if (!b.has("expect_tx")) flags |= kHasCount;
  } else if (b.has("expect_tx")) {
    b.refuse("expected a transaction count");
  }
  if (returns && b.operand(0).kind != OperandKind::kSink) {
    b.def(Field::kD, b.operand(0), 'l');
    flags |= kReturnsState;
  }
  b.inst.target = flags;
}

void build_wait(Builder& b) {
  // done, [address], state or parity [, time limit]
  b.expect_count(3, 4);
  b.def(Field::kD, b.operand(0), 'p');
  b.address(b.operand(1));
  const bool parity = b.has("parity");
  b.use(Field::kB, b.operand(2), parity ? 'w' : 'l');
  b.inst.target =
      (parity ? kParity : 0u) | (b.form.mnemonic.find("try_wait") != std::string_view::npos ? kBlocking : 0u);
}

void build_pending_count(Builder& b) {
  b.expect_count(2, 2);
  b.def(Field::kD, b.operand(0), 'w');
  b.use(Field::kA, b.operand(1), 'l');
}

}  // namespace

void register_mbarrier(Table& t) {
  t.family("Synchronisation: mbarrier", InstClass::kBarrier);
  t.row("mbarrier.init[.layout::v0][.shared|.shared::cta].b64",
        does::keeps_mbarrier(Event::kInit, Cost::kMbarrier).using_barrier(BarrierAct::kInit),
        build_address_and_word, init);
  t.row("mbarrier.inval[.shared|.shared::cta].b64",
        does::keeps_mbarrier(Event::kInit, Cost::kMbarrier).using_barrier(BarrierAct::kInval), build_address,
        inval);
  t.row("mbarrier.expect_tx[.relaxed][.cta|.cluster][.shared|.shared::cta|.shared::cluster].b64",
        does::keeps_mbarrier(Event::kArrive, Cost::kMbarrierArrive).using_barrier(BarrierAct::kExpect),
        build_address_and_word, expect_tx);
  t.row("mbarrier.complete_tx[.relaxed][.cta|.cluster][.shared|.shared::cta|.shared::cluster].b64",
        does::arrives_at_mbarrier(), build_address_and_word, complete_tx);
  t.row(
      "mbarrier.{arrive|arrive_drop}[.expect_tx|.noComplete][.release|.relaxed][.cta|.cluster]"
      "[.shared|.shared::cta|.shared::cluster].b64",
      does::arrives_at_mbarrier(), build_arrive, arrive);
  t.row("mbarrier.{test_wait|try_wait}[.parity][.acquire|.relaxed][.cta|.cluster][.shared|.shared::cta].b64",
        does::waits_for_mbarrier(), build_wait, wait);
  t.row("mbarrier.pending_count.b64",
        does::computes(Cost::kMbarrier, TaintRule::kControl).moving(Motion::kOrdered), build_pending_count,
        pending_count);
  t.row("cp.async.mbarrier.arrive[.noinc][.shared|.shared::cta].b64",
        does::arrives_at_mbarrier(Cost::kCopiesArrive), build_address, cp_async_arrive);
}

}  // namespace sglab::emu
