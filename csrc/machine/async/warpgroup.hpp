#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "isa/inst.hpp"
#include "machine/async/operations.hpp"
#include "machine/tensor/wgmma.hpp"

namespace sglab::emu {

class Digest;
struct Warp;

// The wgmma operations of four consecutive warps.
//
// Each warp issues an operation on its own; it is carried out when one of the warps waits for it and all four
// have issued it. Accumulator registers are captured at the issue and poisoned; a warp gets them back at its
// own wait. A chain of operations on the same registers keeps its sums in one matrix.
class Warpgroup {
 public:
  // `warp` issues `op`. `registers` are its accumulators' Refs, `a` its A registers' values ([register][32];
  // empty when A is in shared memory).
  void issue(Warp& warp, const Inst* inst, const Wgmma& op, const std::vector<Ref>& registers,
             std::vector<std::uint32_t> a);
  void commit_group(Warp& warp);
  // Carries out all but the `pending` latest groups of the warp and returns their accumulators to its
  // registers. False: another warp has not issued its part yet.
  bool wait_group(Warp& warp, std::uint32_t pending);
  // Whether a warp has operations that no wait has covered.
  bool in_flight(const Warp& warp) const;
  std::unique_ptr<Warpgroup> copy() const;
  void add_to(Digest& digest) const;

 private:
  struct Chain {
    Chain(ElementType type_, int n_, const std::vector<Ref>& refs)
        : type(type_), n(n_), sums(type_, n_), registers(refs) {}
    ElementType type;
    int n;
    WgmmaAccumulators sums;
    std::vector<Ref> registers;
    unsigned holding = 0;    // warps whose accumulators are in the matrix
    std::uint64_t last = 0;  // sequence number of the last operation
  };
  struct Operation {
    Issuer issuer;
    Wgmma op;
    std::shared_ptr<Chain> chain;
    std::array<std::vector<std::uint32_t>, 4> a;
    unsigned issued = 0;  // warps
  };
  struct Progress {
    std::uint64_t issued = 0;          // operations
    std::deque<std::uint64_t> groups;  // operations issued when each group was committed; not yet waited for
  };

  std::shared_ptr<Chain> chain_of(const Warp& warp, const Inst* inst, const Wgmma& op,
                                  const std::vector<Ref>& registers);
  void give_back(Warp& warp, unsigned index, std::uint64_t until);

  std::uint64_t done_ = 0;            // operations carried out
  std::deque<Operation> operations_;  // from number done_ on
  std::vector<std::shared_ptr<Chain>> chains_;
  std::array<Progress, 4> warps_;
};

// What registers hold while an asynchronous operation has not filled them: NaN as f32, f16 and bf16.
constexpr std::uint32_t kPoison = 0x7fff7fffu;

}  // namespace sglab::emu
