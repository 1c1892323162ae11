#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "isa/aperture.hpp"
#include "machine/ops/members.hpp"
#include "machine/tensor/tmem_transfer.hpp"
#include "observe/sanitize/detector.hpp"
#include "observe/sanitize/shadow.hpp"
#include "observe/sanitize/taint.hpp"

namespace sglab::emu {

// For messages.
inline const char* name_of(Space space) {
  return space == Space::kShared ? "shared" : space == Space::kLocal ? "local" : "global";
}

// Finds reads of what has never been written: registers, local, shared and tensor memory, and global memory
// that the user has marked.
//
// Reading alone is no error: compilers load what they will not use, kernels compute on padding and mask
// the result. So a value that was never written taints the register that it is loaded into, taint follows the
// data (Taint), and a finding is made where it decides something: a branch, an address, a store to global
// memory, a barrier, an asynchronous operation. Bytes that an asynchronous operation itself reads are
// judged immediately, but for operands of tcgen05.mma, scale factors and metadata: these taint the rows and
// columns of D that they make, and D where it is added to.
class MemorySanitizer final : public Detector {
 public:
  MemorySanitizer(Findings& findings, std::shared_ptr<MarkedMemory> marked);

  void launched(const Launch& launch) override;
  void cluster_started(const Cluster& cluster) override;
  void cluster_finished(const Cluster& cluster) override;
  void accessed(const Actor& actor, const Access& access) override;
  void performed(const Actor& actor, const AsyncOp& op, const Footprint& footprint) override;
  void mbarrier(const Actor& actor, const MbarrierEvent& event) override;
  void tensor_memory(const Actor& actor, const TmemUse& use) override;

  // A shfl.sync is about to be executed. Where whole warps without taint exchange there is nothing to know.
  void look_at_shuffle(const Warp& w, const Inst* inst, std::uint32_t lanes) {
    const Ref members = inst->extra->refs[0];
    shuffles_ = lanes != 0xffffffffu || taint_.follows(w, static_cast<std::uint32_t>(inst - w.code)) ||
                ((members & kConstantRef) == 0 && naming(w, members, lanes, lanes32(w, members)[0]) != lanes);
    if (shuffles_) taint_.look_at_shuffle(w, inst);
  }
  void look_at_members(const Warp& w, const Inst* inst) {
    if (taint_.follows(w, static_cast<std::uint32_t>(inst - w.code))) taint_.look_at_members(w, inst);
  }
  void look_at_logic(const Warp& w, const Inst* inst) { taint_.look_at_logic(w, inst); }
  void warp_synced(const Actor& actor, std::uint32_t all, bool memory) override;

  // Whether the instruction that has been executed must be followed although nothing was tainted before.
  bool begins() const { return begins_; }
  // Whether flow() must be notified of the warp's instructions.
  bool follows(const Warp& w, std::uint32_t pc) { return found_bad_ || taint_.follows(w, pc); }
  // Whether it may be so in some launch of the program; whether it may be so at present for any instruction.
  bool may_follow(std::uint32_t pc) const { return taint_.may_follow(pc); }
  bool follows_all() const { return found_bad_ || taint_.spread(); }
  // An instruction has been executed, its other events reported. `group`: its lanes before the guard.
  void flow(const Actor& actor, std::uint32_t group);

 private:
  // Cells of a tensor memory that were computed from something that was never written.
  struct DerivedCells {
    CellFlags cells;
    std::array<std::uint32_t, TensorMemory::kColumns> origin{};  // as in Taint::Mask, by column
  };
  struct Memories {
    std::vector<ByteFlags> shared;                       // by CTA rank
    std::vector<ByteFlags> local;                        // by warp, 32 lanes one after the other
    std::vector<std::unique_ptr<CellFlags>> tensor;      // by CTA rank; made by the first allocation
    std::vector<std::unique_ptr<DerivedCells>> derived;  // by CTA rank; made by the first such cell
  };
  struct SeenAccess {
    Access access;
    std::uint64_t address[32];
  };
  Memories& of(const Cluster& cluster) {
    if (cached_index_ != cluster.index) {
      cached_index_ = cluster.index;
      cached_ = &memories_[cluster.index];
    }
    return *cached_;
  }
  Memories& of(const Warp& w) { return of(*w.cluster); }
  CellFlags& cells(const Cluster& cluster, std::uint32_t rank);
  ByteFlags& local_of(const Warp& w) { return of(w).local[w.slot]; }
  void find_bad(const Actor& actor, const Access& access);
  bool initialised(const Warp& w, Space space, int lane, std::uint64_t address, std::uint32_t bytes);
  void written(const Warp& w, Space space, int lane, std::uint64_t address, std::uint32_t bytes);
  // The first range in shared or global memory that has bytes which were never written.
  const Range* find_unwritten(const Actor& actor, const Footprint& footprint);
  void judge(const Actor& actor, const AsyncOp& op, const Footprint& footprint);
  bool reads_unwritten(const Cluster& cluster, const Footprint& footprint);
  void taint_product(const Actor& actor, const TensorOperation& op, const Footprint& footprint,
                     const Range* unwritten);
  void taint_moved(const Actor& actor, const AsyncOp& op, const Footprint& footprint);
  void product_written(const Actor& actor, const TensorOperation& op, const TmemRange& range);
  std::optional<std::uint32_t> unknown(const Actor& actor, const TmemRange& range);
  std::optional<std::uint32_t> beside_row(const Actor& actor, const TensorOperation& op,
                                          const DatapathBlock& block, int r);
  static bool any_derived(const Memories& memories) {
    return std::any_of(memories.derived.begin(), memories.derived.end(),
                       [](const auto& one) { return one != nullptr; });
  }
  void derive(const Cluster& cluster, const TmemRange& range, std::uint32_t origin);
  std::optional<std::uint32_t> derived(const Cluster& cluster, const TmemRange& range);
  void forget_derived(const Cluster& cluster, const TmemRange& range);
  void flow_access(const Actor& actor, std::uint32_t group);
  void flow_stored(const Actor& actor);
  void flow_loaded(const Actor& actor);
  void flow_matrix_rows(const Actor& actor);
  void flow_tile(const Actor& actor);
  void flow_tmem(const Actor& actor, bool loads);
  void taint_stored(const Warp& w, const SeenAccess& seen, std::uint32_t begin, std::uint32_t bytes,
                    Taint::Mask mask);
  std::uint32_t bad_lanes(std::uint32_t begin, std::uint32_t end) const;

  std::shared_ptr<MarkedMemory> marked_;
  const Launch* launch_ = nullptr;
  std::unordered_map<std::uint64_t, Memories> memories_;  // by Cluster::index
  std::vector<ByteFlags> spare_;                          // of CTAs that are over
  std::uint64_t cached_index_ = ~std::uint64_t{0};
  Memories* cached_ = nullptr;  // those of cached_index_
  Taint taint_;
  std::vector<SeenAccess> seen_;  // of the instruction being reported
  std::uint32_t bad_[32]{};       // bytes of each lane's access that were never written
  bool found_bad_ = false;        // there are some
  bool shuffles_ = false;         // where its lanes take their values from is known
  bool begins_ = false;           // a lane took a value from one that did not take part
  TmemUse tmem_use_{};
};

}  // namespace sglab::emu
