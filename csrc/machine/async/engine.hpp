#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

#include "machine/async/operations.hpp"
#include "machine/async/small_copies.hpp"
#include "machine/async/tmem_pending.hpp"
#include "machine/engine/tally.hpp"
#include "machine/sync/mbarrier.hpp"
#include "machine/tensor/tmem.hpp"

namespace sglab::emu {

struct Cluster;
class Digest;
struct TmemRange;
struct Warp;
struct Wgmma;
class Warpgroup;

// One pending operation, for people. Shared addresses are shared::cluster addresses.
struct InFlight {
  const char* kind;
  Issuer issuer;
  std::uint32_t shared;
  std::uint32_t bytes;
  std::uint32_t mbarrier;  // signalled; kNoMbarrier: none
};

// The asynchronous operations of one cluster that were issued and not carried out yet, its tensor memories
// and its mbarriers.
//
// Operations are carried out as late as the programming model allows: when a warp waits for what they
// signal, when nothing else can run, when the random scheduler says so, when they have been in flight for
// very long, or when the cluster ends. A missing wait so reads old data.
class AsyncEngine {
 public:
  explicit AsyncEngine(Cluster& cluster);
  ~AsyncEngine();
  // Forgets everything; for the next cluster in the same memory.
  void reset();

  TensorMemory& tmem(std::uint32_t rank);
  bool has_tmem(std::uint32_t rank) const { return rank < tmem_.size() && tmem_[rank] != nullptr; }

  // The mbarrier object at a shared::cluster address; faults if it is misaligned or outside.
  std::uint64_t& mbarrier_word(const Issuer& issuer, std::uint32_t address);
  // Applies the outcome of an operation on it: faults on misuse, wakes waiters on a completed phase. `lanes`:
  // several, when they act together.
  void settle(const Issuer& issuer, std::uint32_t address, MbarrierStatus status, const MbarrierUse& use,
              std::uint32_t lanes = 0);
  // Live objects, for debuggers: shared::cluster addresses in order of initialisation.
  const std::vector<std::uint32_t>& mbarriers() const { return mbarriers_; }
  // A warp asked whether a phase is over, and it was or was not.
  void note_wait(const Warp& warp, const Inst* inst, std::uint32_t address, bool over);
  const MbarrierUsers& mbarrier_users() const { return users_; }
  // How many phases of an object have ended in this cluster.
  std::uint64_t mbarrier_phases(std::uint32_t address) const;
  void note_init(std::uint32_t address);
  void note_inval(std::uint32_t address);

  void submit(BulkOperation operation);  // signals an mbarrier
  void submit_grouped(Warp& warp,
                      BulkOperation operation);  // belongs to the issuing lane's current bulk group
  void submit(TensorOperation operation);
  void commit(const TensorCommit& commit, std::uint32_t cta);
  // cp.async: a record to fill, and its entry into the queue.
  SmallCopy& new_small(Warp& warp);
  void submit_small(Warp& warp);
  // wgmma operations wait in their warpgroup; they get a number here.
  void number(Issuer& issuer);
  void note_prefetch(const BulkOperation& operation);

  void commit_bulk_group(Warp& warp);
  void wait_bulk_group(Warp& warp, std::uint32_t pending);
  void commit_small_group(Warp& warp);
  void wait_small_group(Warp& warp, std::uint32_t pending);
  void wait_all_small(Warp& warp);

  // Carries out the first pending operation that signals this mbarrier. False: there is none.
  bool advance_mbarrier(std::uint32_t address);
  // Whether there is one.
  bool signals(std::uint32_t address) const;
  // Carries out the oldest pending operation of some kind; `choice` picks among kinds. False: none is
  // pending.
  bool advance(std::uint64_t choice);
  // Carries out what was issued before the last call: a GPU would be done with it, waited for or not.
  void complete_overdue();
  // Carries out everything.
  void drain();
  // The same at the end of the cluster; faults if tensor memory is still allocated.
  void finish();
  std::size_t pending() const;
  // For debuggers: what was issued and not carried out, in the order of each queue.
  std::vector<InFlight> in_flight() const;
  // Everything but shared memory; restore() takes what this engine saved.
  struct Saved;
  std::shared_ptr<const Saved> save() const;
  void restore(const Saved& saved);
  void add_to(Digest& digest) const;

  Warpgroup& warpgroup(const Warp& warp);
  // tcgen05.alloc for a warp of CTA `rank`. With cta_group 2 both CTAs of the pair must ask before either
  // gets its columns. kMustWait: ask again when woken (Wait::kResource, the CTA's or pair's even rank).
  TensorMemory::Allocation allocate_tmem(std::uint32_t rank, int cta_group, std::uint32_t columns);
  // In a launch without observers: warns of reads of what a tcgen05.st without its wait will write, and of
  // what was not waited for when the cluster ends.
  void warn_of_stores(const Warp& reader, const Inst* inst, std::uint32_t lanes,
                      const TmemRange& range) const;
  void warn_of_stores(const TensorOperation& op) const;
  void warn_of_unfinished();
  // Of registers that the text reads before a wait for what fills them. Costs nothing where it does not.
  void warn_of_early_use(const Warp& warp, const Inst* inst) const;
  // tcgen05.st of a warp since its last tcgen05.wait::st.
  std::vector<PendingStore>& tmem_stores(const Warp& warp) { return tmem_stores_[slot_of(warp)]; }
  // The memory of values that were stored serves those to come; what it holds is old.
  std::vector<std::uint32_t> take_values();
  void keep_values(std::vector<PendingStore>& stored);

 private:
  struct Grouped {
    BulkOperation operation;
    std::uint32_t group;
  };
  // A tcgen05.alloc.cta_group::2 in progress.
  struct PairAllocation {
    std::array<bool, 2> asked{};
    std::array<bool, 2> granted{};
    TensorMemory::Allocation result{};
  };
  struct TensorQueue {
    std::deque<TensorOperation> operations;
    std::deque<TensorCommit> commits;
    std::uint64_t done = 0;  // operations carried out
  };
  // What the lanes of one warp have issued in groups.
  struct WarpQueue {
    std::deque<Grouped> bulk;
    std::array<std::uint32_t, 32> bulk_groups{};  // committed, by lane
    SmallCopies small;

    void clear() {
      bulk.clear();
      bulk_groups.fill(0);
      small.clear();
    }
  };

  template <typename Operation>
  void number(Operation& operation, std::uint32_t lanes);
  WarpQueue& queue(const Warp& warp);
  static std::size_t slot_of(const Warp& warp);
  void perform(const BulkOperation& operation);
  void perform(const TensorOperation& operation);
  void perform(const SmallCopy& copy, std::uint32_t lanes);
  template <typename Operation>
  void note_performed(const Operation& operation, std::uint32_t lanes);
  void run_tensor_queue(TensorQueue& queue, std::uint64_t until);
  std::size_t perform_together(const TensorQueue& queue, std::size_t most);
  std::array<MmaCta, 2> ctas_of(const TensorOperation& operation);
  bool advance_tensor(TensorQueue& queue);
  auto performer() {
    return [this](const SmallCopy& copy, std::uint32_t lanes) { perform(copy, lanes); };
  }
  void signal(const Issuer& issuer, std::uint32_t address, std::uint32_t bytes);
  // A warp blocked at an object that a new operation will signal retries, and so has it carried out.
  void wake_waiters(std::uint32_t mbarrier, std::uint32_t multicast = 0);
  std::span<std::uint8_t> smem(std::uint32_t rank) const;
  void set_aside_tmem(std::uint32_t rank);
  void restore_tmem(const std::vector<std::unique_ptr<TensorMemory>>& saved);

  Cluster& cluster_;
  std::vector<std::unique_ptr<TensorMemory>> tmem_;
  std::vector<std::unique_ptr<TensorMemory>> spare_tmem_;  // debuggers may look at them, so they stay
  std::vector<std::uint32_t> mbarriers_;
  std::vector<std::uint32_t> left_;  // invalidated while operations had yet to arrive: they find no object
  MbarrierUsers users_;              // of this cluster and those before it
  std::unordered_map<std::uint32_t, std::uint64_t> phases_;  // ended, by address
  std::uint64_t operations_ = 0;                             // issued so far
  std::uint64_t overdue_ = 0;                                // issued before the last complete_overdue()
  std::deque<BulkOperation> bulk_;
  std::vector<TensorQueue> tensor_;    // by CTA rank
  std::vector<PairAllocation> pairs_;  // by CTA rank / 2
  std::vector<WarpQueue> warps_;       // by slot
  std::vector<std::unique_ptr<Warpgroup>> warpgroups_;
  std::vector<std::vector<PendingStore>> tmem_stores_;  // by slot
  std::vector<std::vector<std::uint32_t>> spare_values_;
};

// The engine of a warp's cluster, made on first use.
AsyncEngine& async_engine(Warp& warp);

}  // namespace sglab::emu
