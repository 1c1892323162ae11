#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "machine/async/box_copy.hpp"
#include "machine/async/reduce.hpp"
#include "machine/async/tensor_map.hpp"
#include "machine/tensor/tcgen05_mma.hpp"
#include "machine/tensor/tmem_transfer.hpp"

namespace sglab::emu {

struct Inst;

// Who issued an operation, for faults raised when it is carried out later.
struct Issuer {
  std::uint32_t warp = 0;  // slot in the cluster
  std::int32_t lane = -1;
  const Inst* inst = nullptr;
  std::uint64_t operation = 0;  // its number in the cluster; 0: the instruction itself acts
  std::uint64_t position = 0;   // Launch::position when it was issued
};

constexpr std::uint32_t kNoMbarrier = 0xffffffffu;

// A bulk copy or reduction, tensor or plain. Shared addresses are shared::cluster addresses.
struct BulkOperation {
  enum class Kind : std::uint8_t {
    kLoadBox,
    kStoreBox,
    kReduceBox,
    kGlobalToShared,
    kSharedToGlobal,
    kSharedToShared,
    kReduceToGlobal,
    kReduceToShared,
    kStoreWords,  // st.async, red.async
  };
  Kind kind = Kind::kGlobalToShared;
  Issuer issuer;
  std::uint32_t shared = 0;  // the box, or the plain destination or source in shared memory
  std::uint32_t source = 0;  // shared source of kSharedToShared and kReduceToShared
  std::uint64_t global = 0;
  std::uint32_t bytes = 0;
  std::uint32_t mbarrier = kNoMbarrier;  // signalled with the bytes; kNoMbarrier: completes in a bulk group
  std::uint32_t multicast = 0;           // CTAs that get the data, by rank; 0: just the one addressed
  std::uint32_t signalled = 0;  // CTAs whose mbarrier at that offset is signalled; 0: just the one addressed
  ReduceOp reduce = ReduceOp::kAdd;
  ReduceType type = ReduceType::kU32;
  bool combines = false;             // of kStoreWords: with what is there, as `reduce` and `type` say
  std::uint16_t byte_mask = 0xffff;  // of kSharedToGlobal: which bytes of every sixteen are written
  BoxRequest box;
  TensorMap map;
  std::array<std::uint32_t, 4> words{};
};

// tcgen05.mma, .cp and .shift run in the order of their issue; tcgen05.commit marks a place in that order.
struct TensorOperation {
  enum class Kind : std::uint8_t { kMma, kCopy, kShift };
  Kind kind = Kind::kMma;
  Issuer issuer;
  std::uint8_t cta_group = 1;
  std::uint32_t cta = 0;  // rank of the CTA, or of the pair's even CTA
  Tcgen05Mma mma;
  std::uint64_t a = 0, b = 0;  // of an mma, as the instruction has them: a descriptor or an address, a
  std::uint32_t idesc = 0;     // descriptor, the instruction descriptor
  TmemAddress address{};
  SmemDescriptor source;
  CopyShape shape = CopyShape::k128x256b;
  CopyFormat format = CopyFormat::kNone;
};

struct TensorCommit {
  std::uint64_t after = 0;  // operations that come before it
  Issuer issuer;
  std::uint32_t mbarrier = 0;
  std::uint32_t multicast = 0;
};

// cp.async of a warp, and cp.async.mbarrier.arrive after it: a copy has bytes, an arrival none.
struct SmallCopy {
  SmallCopy() {}  // leaves the arrays as they are: only lanes of the mask count

  Issuer issuer;
  std::uint32_t mask = 0;
  std::uint32_t group = 0;                    // cp.async group of the warp's lanes
  std::uint8_t bytes = 0;                     // written; 0: an arrival
  std::array<std::uint8_t, 32> source_bytes;  // read; the rest is zero
  std::array<std::uint32_t, 32> shared;       // destination, or mbarrier
  std::array<std::uint64_t, 32> global;

  // Whether all lanes' copies read as much as they write; for a full mask.
  bool is_whole() const {
    std::uint8_t common = 0xff;
    for (const std::uint8_t read : source_bytes) common &= read;
    return common == bytes;  // a power of two, and none reads more
  }
};

template <class Entry>
Entry take_first(std::deque<Entry>& queue) {
  Entry first = std::move(queue.front());
  queue.pop_front();
  return first;
}

}  // namespace sglab::emu
