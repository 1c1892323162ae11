#include <algorithm>
#include <bit>

#include "isa/aperture.hpp"
#include "machine/async/engine.hpp"
#include "machine/engine/cluster.hpp"
#include "machine/engine/fault.hpp"
#include "machine/engine/launch.hpp"

// mbarriers: their words, what an arrival does, and who is notified of it.
namespace sglab::emu {
namespace {}  // namespace

std::uint64_t& AsyncEngine::mbarrier_word(const Issuer& issuer, std::uint32_t address) {
  const std::uint32_t rank = rank_of(address), offset = offset_of(address);
  const Warp& warp = cluster_.warps[issuer.warp];
  if (offset % 8 != 0) {
    raise_fault(warp, issuer.inst, issuer.lane, "misaligned",
                "mbarrier at shared address " + hex(address) + " is not aligned to 8 bytes");
  }
  if (rank >= cluster_.ctas.size() || offset + 8 > cluster_.shared_bytes) {
    raise_fault(warp, issuer.inst, issuer.lane, "out_of_bounds",
                "mbarrier at " + hex(address) + " lies outside shared memory");
  }
  return *reinterpret_cast<std::uint64_t*>(cluster_.ctas[rank].shared + offset);
}

void AsyncEngine::settle(const Issuer& issuer, std::uint32_t address, MbarrierStatus status,
                         const MbarrierUse& use, std::uint32_t lanes) {
  ++cluster_.events;
  if (status == MbarrierStatus::kUninitialised && issuer.operation != 0 &&
      std::find(left_.begin(), left_.end(), address) != left_.end())
    return;
  if (use.op == MbarrierUse::Op::kArrive || use.op == MbarrierUse::Op::kCompleteTx) {
    BarrierUsers& users = users_[address];
    users.arrivers.set(issuer.warp);
    users.ended = users.ended || status == MbarrierStatus::kPhaseComplete;
  }
  if (const Observers& observers = cluster_.launch->observers; !observers.none()) {
    const MbarrierChange event{issuer, lanes, address, use, status, mbarrier_word(issuer, address)};
    observers.notify([&](Observer& o) { o.mbarrier_changed(cluster_, event); });
  }
  if (status == MbarrierStatus::kPhaseComplete) {
    ++phases_[address];
    for (Warp& warp : cluster_.warps) wake(warp, Wait::kMbarrier, address);
    return;
  }
  if (!is_refused(status)) return;
  const Mbarrier state = Mbarrier::load(mbarrier_word(issuer, address));
  raise_fault(cluster_.warps[issuer.warp], issuer.inst, issuer.lane, "mbarrier",
              std::string(mbarrier_status_name(status)) + ": mbarrier at shared address " + hex(address) +
                  " has pending " + std::to_string(state.pending) + " of " + std::to_string(state.expected) +
                  ", tx-count " + std::to_string(state.tx_count) + ", phase " + std::to_string(state.phase));
}

std::uint64_t AsyncEngine::mbarrier_phases(std::uint32_t address) const {
  const auto known = phases_.find(address);
  return known == phases_.end() ? 0 : known->second;
}

void AsyncEngine::note_wait(const Warp& warp, const Inst* inst, std::uint32_t address, bool over) {
  BarrierUsers& users = users_[address];
  using Purpose = BarrierUsers::Purpose;
  if (users.purpose == Purpose::kUnknown)
    users.purpose = over && !users.ended ? Purpose::kEmpty : Purpose::kFull;
  users.waiters.set(warp.slot);
  const auto pc = static_cast<std::uint32_t>(inst - warp.code);
  if (std::find(users.waits.begin(), users.waits.end(), pc) == users.waits.end()) users.waits.push_back(pc);
}

void AsyncEngine::note_init(std::uint32_t address) {
  if (cluster_.launch->follows_writers) cluster_.mark_written(address, 8);
  std::erase(left_, address);
  if (std::find(mbarriers_.begin(), mbarriers_.end(), address) == mbarriers_.end())
    mbarriers_.push_back(address);
}

void AsyncEngine::note_inval(std::uint32_t address) {
  std::erase(mbarriers_, address);
  if (signals(address)) left_.push_back(address);
}

void AsyncEngine::wake_waiters(std::uint32_t mbarrier, std::uint32_t multicast) {
  if (multicast == 0) multicast = 1u << rank_of(mbarrier);
  for (; multicast != 0; multicast &= multicast - 1) {
    const auto rank = static_cast<std::uint32_t>(std::countr_zero(multicast));
    const std::uint32_t address = rank << kSharedRankShift | offset_of(mbarrier);
    for (Warp& warp : cluster_.warps) wake(warp, Wait::kMbarrier, address);
  }
}

}  // namespace sglab::emu
