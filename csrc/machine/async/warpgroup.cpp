#include "machine/async/warpgroup.hpp"

#include <algorithm>

#include "machine/async/engine.hpp"
#include "machine/engine/cluster.hpp"
#include "machine/engine/fault.hpp"
#include "machine/engine/launch.hpp"
#include "machine/engine/registers.hpp"

namespace sglab::emu {
namespace {

// A warp's accumulators, [register][32].
std::vector<std::uint32_t> read_registers(const Warp& warp, const std::vector<Ref>& refs) {
  std::vector<std::uint32_t> values(32 * refs.size());
  for (std::size_t r = 0; r < refs.size(); ++r) std::copy_n(lanes32(warp, refs[r]), 32, &values[32 * r]);
  return values;
}

}  // namespace

// The chain whose matrix holds this warp's registers already, or a new one.
std::shared_ptr<Warpgroup::Chain> Warpgroup::chain_of(const Warp& warp, const Inst* inst, const Wgmma& op,
                                                      const std::vector<Ref>& registers) {
  for (const auto& chain : chains_) {
    if ((chain->holding >> warp.index % 4 & 1u) == 0 || chain->registers != registers) continue;
    if (chain->type == op.d_type && chain->n == op.n) return chain;
    raise_fault(warp, inst, -1, "tensor_core",
                "the accumulators are those of a wgmma of another shape or type that was not waited for");
  }
  chains_.push_back(std::make_shared<Chain>(op.d_type, op.n, registers));
  return chains_.back();
}

void Warpgroup::issue(Warp& warp, const Inst* inst, const Wgmma& op, const std::vector<Ref>& registers,
                      std::vector<std::uint32_t> a) {
  const unsigned index = warp.index % 4;
  Progress& progress = warps_[index];
  const std::uint64_t number = progress.issued++;
  if (number == done_ + operations_.size()) {
    operations_.push_back({{warp.slot, -1, inst}, op, chain_of(warp, inst, op, registers), {}, 0});
    async_engine(warp).number(operations_.back().issuer);
    operations_.back().chain->last = number;
  }
  Operation& operation = operations_[number - done_];
  if (operation.issuer.inst != inst) {
    raise_fault(warp, inst, -1, "tensor_core", "the warps of a warpgroup issue different wgmma instructions");
  }
  operation.issued |= 1u << index;
  const Issuer issuer{warp.slot, -1, inst, operation.issuer.operation, operation.issuer.position};
  const AsyncOperation event{issuer, warp.group_mask, &op};
  warp.launch->observers.notify([&](Observer& o) { o.issued(*warp.cluster, event); });
  operation.a[index] = std::move(a);
  Chain& chain = *operation.chain;
  if ((chain.holding >> index & 1u) != 0) return;
  chain.holding |= 1u << index;
  if (op.scale_d) chain.sums.load_warp(static_cast<int>(index), read_registers(warp, registers).data());
  for (const Ref ref : registers) std::fill_n(write32(warp, ref), 32, kPoison);
}

void Warpgroup::commit_group(Warp& warp) {
  Progress& progress = warps_[warp.index % 4];
  progress.groups.push_back(progress.issued);
}

bool Warpgroup::wait_group(Warp& warp, std::uint32_t pending) {
  const unsigned index = warp.index % 4;
  Progress& progress = warps_[index];
  if (progress.groups.size() <= pending) return true;
  const std::uint64_t until = progress.groups[progress.groups.size() - pending - 1];
  for (std::uint64_t number = done_; number < until; ++number) {
    if (operations_[number - done_].issued != 0xfu) return false;
  }
  const std::span<const std::uint8_t> smem(warp.cta->shared, warp.cluster->shared_bytes);
  while (done_ < until) {
    Operation& operation = operations_.front();
    std::array<const std::uint32_t*, 4> a{};
    for (unsigned i = 0; i < 4; ++i) a[i] = operation.a[i].data();
    try {
      operation.chain->sums.multiply(operation.op, smem, a);
    } catch (const SmemOutOfBounds& error) {
      raise_fault(warp, operation.issuer.inst, -1, "out_of_bounds", error.what());
    } catch (const std::invalid_argument& error) {
      raise_fault(warp, operation.issuer.inst, -1, "tensor_core", error.what());
    }
    operation.op.sums = &operation.chain->sums;
    const AsyncOperation event{operation.issuer, 0, &operation.op};
    warp.launch->observers.notify([&](Observer& o) { o.performed(*warp.cluster, event); });
    operations_.pop_front();
    ++done_;
  }
  while (progress.groups.size() > pending) progress.groups.pop_front();
  give_back(warp, index, until);
  return true;
}

// Registers of chains that end before `until` are readable again.
void Warpgroup::give_back(Warp& warp, unsigned index, std::uint64_t until) {
  for (const auto& chain : chains_) {
    if ((chain->holding >> index & 1u) == 0 || chain->last >= until) continue;
    std::vector<std::uint32_t> values(32 * chain->registers.size());
    chain->sums.store_warp(static_cast<int>(index), values.data());
    for (std::size_t r = 0; r < chain->registers.size(); ++r) {
      std::copy_n(&values[32 * r], 32, write32(warp, chain->registers[r]));
    }
    chain->holding &= ~(1u << index);
  }
  std::erase_if(chains_, [](const auto& chain) { return chain->holding == 0; });
}

const Issuer* Warpgroup::unfinished(const Warp& warp) const {
  const unsigned index = warp.index % 4;
  for (const Operation& operation : operations_) {
    if ((operation.issued >> index & 1u) != 0) return &operation.issuer;
  }
  return nullptr;
}

bool Warpgroup::in_flight(const Warp& warp) const {
  const unsigned index = warp.index % 4;
  return std::any_of(chains_.begin(), chains_.end(),
                     [index](const auto& chain) { return chain->holding >> index & 1u; });
}

}  // namespace sglab::emu
