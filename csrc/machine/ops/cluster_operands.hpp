#pragma once

#include "machine/ops/operands.hpp"

namespace sglab::emu {

// The 16-bit CTA mask in Extra::refs[ref]; faults if it is empty or names CTAs outside the cluster.
std::uint32_t cta_mask(const Warp& w, const Inst* i, std::uint32_t ref, int lane);

// The CTA's rank, or with cta_group 2 that of the pair's even CTA; faults if the cluster has no peer.
std::uint32_t first_cta(const Warp& w, const Inst* i, int lane, int cta_group);

}  // namespace sglab::emu
