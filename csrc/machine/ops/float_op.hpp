#pragma once

// What the families of f32 and f64 arithmetic have in common.
namespace sglab::emu::SGLAB_ISA {

enum Op { kAdd, kSub, kMul, kFma, kDiv, kRcp, kSqrt };

}  // namespace sglab::emu::SGLAB_ISA
