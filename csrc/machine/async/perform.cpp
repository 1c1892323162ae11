// How the asynchronous operations of AsyncEngine are carried out.

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "isa/aperture.hpp"
#include "machine/async/engine.hpp"
#include "machine/async/footprint.hpp"
#include "machine/engine/cluster.hpp"
#include "machine/engine/fault.hpp"
#include "machine/engine/launch.hpp"

namespace sglab::emu {
namespace {

// What a box counts on its mbarrier: elements that shared memory pads to 8 bits count as many bits as they
// have.
std::uint32_t completed_bytes(const BulkOperation& op) {
  const std::uint32_t bytes = box_bytes(op.map, op.box);
  const bool padded = op.map.type == TensorMapType::kB4x16P64 || op.map.type == TensorMapType::kB6x16P32;
  return padded ? bytes / 8 * static_cast<std::uint32_t>(tensor_map_element_bits(op.map.type)) : bytes;
}

// How many CTAs of a multicast copy complete on the mbarrier of a signalled one: with .cta_group::2 both of
// its pair where both get the data.
std::uint32_t destinations_of(const BulkOperation& op, std::uint32_t rank) {
  if (op.signalled == op.multicast) return 1;
  return static_cast<std::uint32_t>(std::popcount(op.multicast >> (rank & ~1u) & 3u));
}

// Whether all lanes copy into one CTA's memory; for a full mask.
bool one_rank(const SmallCopy& copy) {
  std::uint32_t differing = 0;
  for (const std::uint32_t address : copy.shared) differing |= address ^ copy.shared[0];
  return differing >> kSharedRankShift == 0;
}

// Global memory of a launch; faults name the instruction that issued the operation.
class LaunchGlobal final : public GlobalAccess {
 public:
  LaunchGlobal(Cluster& cluster, const Issuer& issuer) : cluster_(cluster), issuer_(issuer) {}

  const std::uint8_t* read(std::uint64_t address, std::size_t bytes) override {
    return at(address, bytes, false);
  }
  std::uint8_t* write(std::uint64_t address, std::size_t bytes) override { return at(address, bytes, true); }

 private:
  // All of a box is read, or all written.
  std::uint8_t* at(std::uint64_t address, std::size_t bytes, bool writes) {
    if (address >= begin_ && address <= end_ && bytes <= end_ - address)
      return reinterpret_cast<std::uint8_t*>(address);
    const Allocation* found = cluster_.launch->find(address, bytes);
    if (found == nullptr) {
      fail("out_of_bounds", std::to_string(bytes) + " bytes of global memory " +
                                (writes ? "written" : "read") + " at " + hex(address) + " " +
                                cluster_.launch->nearest(address));
    }
    if (writes && found->read_only) {
      fail("read_only", std::to_string(bytes) + " bytes written at " + hex(address) + ", in variable '" +
                            found->name + "' of constant memory");
    }
    begin_ = found->begin;
    end_ = found->end;
    return reinterpret_cast<std::uint8_t*>(address);
  }

  [[noreturn]] void fail(const char* kind, const std::string& message) const {
    raise_fault(cluster_.warps[issuer_.warp], issuer_.inst, issuer_.lane, kind, message);
  }

  Cluster& cluster_;
  const Issuer& issuer_;
  std::uint64_t begin_ = 1, end_ = 0;  // the allocation that served the last one
};

// Several host threads may reduce into the same elements.
class ReduceLock {
 public:
  explicit ReduceLock(Launch& launch) : mutex_(launch.concurrent ? &launch.mutex : nullptr) {
    if (mutex_ != nullptr) mutex_->lock();
  }
  ~ReduceLock() {
    if (mutex_ != nullptr) mutex_->unlock();
  }
  ReduceLock(const ReduceLock&) = delete;

 private:
  std::mutex* mutex_;
};

// `mask` says which bytes of every sixteen are written.
void copy_masked(std::uint8_t* to, const std::uint8_t* from, std::uint32_t bytes, std::uint16_t mask) {
  if (mask == 0xffff) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (std::uint32_t at = 0; at < bytes; ++at) {
    if (mask >> at % 16 & 1) to[at] = from[at];
  }
}

}  // namespace

void AsyncEngine::signal(const Issuer& issuer, std::uint32_t address, std::uint32_t bytes) {
  std::uint64_t& word = mbarrier_word(issuer, address);
  const MbarrierUse use{MbarrierUse::Op::kCompleteTx, word, 0, bytes};
  settle(issuer, address, mbarrier_complete_tx(word, bytes), use);
}

template <typename Operation>
void AsyncEngine::note_performed(const Operation& operation, std::uint32_t lanes) {
  if (cluster_.launch->follows_writers) {
    for (const Range& range : footprint_of(cluster_, operation, lanes).writes) {
      if (range.space == Space::kShared)
        cluster_.mark_written(range.address, static_cast<std::uint32_t>(range.bytes));
    }
  }
  const AsyncOperation event{operation.issuer, lanes, &operation};
  cluster_.launch->observers.notify([&](Observer& o) { o.performed(cluster_, event); });
}

void AsyncEngine::perform(const BulkOperation& op) {
  using Kind = BulkOperation::Kind;
  const Warp& warp = cluster_.warps[op.issuer.warp];
  LaunchGlobal global(cluster_, op.issuer);
  const std::uint32_t offset = op.shared & kSharedOffsetMask, own = op.shared >> kSharedRankShift;
  std::uint8_t* const here = cluster_.ctas[own].shared + offset;
  try {
    switch (op.kind) {
      case Kind::kLoadBox:
        for (std::uint32_t rank = 0; rank < cluster_.ctas.size(); ++rank) {
          if (op.multicast != 0 ? (op.multicast >> rank & 1u) != 0 : rank == own) {
            load_box(op.map, op.box, global, smem(rank), offset);
          }
        }
        break;
      case Kind::kStoreBox:
        store_box(op.map, op.box, global, smem(own), offset);
        break;
      case Kind::kReduceBox: {
        const ReduceLock lock(*cluster_.launch);
        reduce_box(op.map, op.box, op.reduce, global, smem(own), offset);
        break;
      }
      case Kind::kGlobalToShared: {
        const std::uint8_t* source = global.read(op.global, op.bytes);
        for (std::uint32_t rank = 0; rank < cluster_.ctas.size(); ++rank) {
          if (op.multicast != 0 ? (op.multicast >> rank & 1u) != 0 : rank == own) {
            std::memcpy(cluster_.ctas[rank].shared + offset, source, op.bytes);
          }
        }
        break;
      }
      case Kind::kSharedToGlobal:
        copy_masked(global.write(op.global, op.bytes), here, op.bytes, op.byte_mask);
        break;
      case Kind::kSharedToShared:
        std::memmove(here,
                     cluster_.ctas[op.source >> kSharedRankShift].shared + (op.source & kSharedOffsetMask),
                     op.bytes);
        break;
      case Kind::kReduceToGlobal: {
        const ReduceLock lock(*cluster_.launch);
        const auto count = op.bytes / static_cast<std::uint32_t>(reduce_type_bytes(op.type));
        reduce_elements(op.reduce, op.type, global.write(op.global, op.bytes), here, count, true);
        break;
      }
      case Kind::kReduceToShared: {
        const auto count = op.bytes / static_cast<std::uint32_t>(reduce_type_bytes(op.type));
        const std::uint8_t* source =
            cluster_.ctas[op.source >> kSharedRankShift].shared + (op.source & kSharedOffsetMask);
        reduce_elements(op.reduce, op.type, here, source, count);
        break;
      }
      case Kind::kStoreWords:
        if (op.combines) {
          reduce_elements(op.reduce, op.type, here, reinterpret_cast<const std::uint8_t*>(op.words.data()),
                          1);
        } else {
          std::memcpy(here, op.words.data(), op.bytes);
        }
        break;
    }
  } catch (const TensorMapError& error) {
    raise_fault(warp, op.issuer.inst, op.issuer.lane, "tensor_map", error.what());
  }
  ++cluster_.events;
  note_performed(op, 0);
  if (op.mbarrier == kNoMbarrier) return;
  const std::uint32_t bytes = op.kind == Kind::kLoadBox ? completed_bytes(op) : op.bytes;
  if (op.signalled == 0) return signal(op.issuer, op.mbarrier, bytes);
  for (std::uint32_t rank = 0; rank < cluster_.ctas.size(); ++rank) {
    if (op.signalled >> rank & 1u) {
      signal(op.issuer, rank << kSharedRankShift | (op.mbarrier & kSharedOffsetMask),
             bytes * destinations_of(op, rank));
    }
  }
}

std::array<MmaCta, 2> AsyncEngine::ctas_of(const TensorOperation& op) {
  std::array<MmaCta, 2> ctas;
  for (std::uint32_t i = 0; i < op.cta_group; ++i) ctas[i] = {smem(op.cta + i), &tmem(op.cta + i)};
  return ctas;
}

// The first mma of a queue and those that continue its sums, as one product; how many that were. None where
// somebody looks at each, or where it cannot be: then each alone says what is wrong with it.
std::size_t AsyncEngine::perform_together(const TensorQueue& queue, std::size_t most) {
  const Launch& launch = *cluster_.launch;
  const TensorOperation& first = queue.operations.front();
  if (first.kind != TensorOperation::Kind::kMma || !launch.observers.none() || launch.follows_writers)
    return 0;
  std::array<const Tcgen05Mma*, 4> mmas{&first.mma};
  std::size_t count = 1;
  for (most = std::min(most, mmas.size()); count < most; ++count) {
    const TensorOperation& next = queue.operations[count];
    if (next.kind != first.kind || next.cta != first.cta || !continues_product(first.mma, next.mma)) break;
    mmas[count] = &next.mma;
  }
  if (count == 1) return 0;
  try {
    const std::array<MmaCta, 2> ctas = ctas_of(first);
    run_tcgen05_product({mmas.data(), count}, {ctas.data(), first.cta_group});
  } catch (const std::logic_error&) {
    return 0;
  }
  cluster_.events += count;
  for (std::size_t i = 0; i < count; ++i) warn_of_stores(queue.operations[i]);
  return count;
}

void AsyncEngine::perform(const TensorOperation& op) {
  const Warp& warp = cluster_.warps[op.issuer.warp];
  ++cluster_.events;
  note_performed(op, 0);
  warn_of_stores(op);
  try {
    const std::array<MmaCta, 2> ctas = ctas_of(op);
    for (std::uint32_t i = 0; i < op.cta_group; ++i) {
      ctas[i].tmem->set_writer(
          {op.issuer.position, op.issuer.warp, static_cast<std::uint32_t>(op.issuer.inst - warp.code), true});
    }
    switch (op.kind) {
      case TensorOperation::Kind::kMma:
        return run_tcgen05_mma(op.mma, {ctas.data(), op.cta_group});
      case TensorOperation::Kind::kCopy:
        for (std::uint32_t i = 0; i < op.cta_group; ++i) {
          tmem_copy(*ctas[i].tmem, op.address, ctas[i].smem, op.source, op.shape, op.format);
        }
        return;
      case TensorOperation::Kind::kShift:
        for (std::uint32_t i = 0; i < op.cta_group; ++i) tmem_shift_down(*ctas[i].tmem, op.address);
        return;
    }
  } catch (const SmemOutOfBounds& error) {
    raise_fault(warp, op.issuer.inst, op.issuer.lane, "out_of_bounds", error.what());
  } catch (const std::out_of_range& error) {
    raise_fault(warp, op.issuer.inst, op.issuer.lane, "tensor_memory", error.what());
  } catch (const std::invalid_argument& error) {
    raise_fault(warp, op.issuer.inst, op.issuer.lane, "tensor_core", error.what());
  }
}

void AsyncEngine::perform(const SmallCopy& copy, std::uint32_t lanes) {
  note_performed(copy, lanes);
  if (copy.bytes == 0) {
    for (; lanes != 0; lanes &= lanes - 1) {
      const auto lane = static_cast<std::size_t>(std::countr_zero(lanes));
      Issuer issuer = copy.issuer;
      issuer.lane = static_cast<std::int32_t>(lane);
      std::uint64_t& word = mbarrier_word(issuer, copy.shared[lane]);
      const MbarrierUse use{MbarrierUse::Op::kArrive, word, 1};
      settle(issuer, copy.shared[lane], mbarrier_arrive(word, {}), use);
    }
    return;
  }
  std::uint32_t rank = copy.shared[static_cast<std::size_t>(std::countr_zero(lanes))] >> kSharedRankShift;
  std::uint8_t* shared = cluster_.ctas[rank].shared;
  if (lanes == 0xffffffffu && copy.bytes == 16 && copy.is_whole() && one_rank(copy)) {
    for (std::size_t lane = 0; lane < 32; ++lane) {
      std::memcpy(shared + (copy.shared[lane] & kSharedOffsetMask),
                  reinterpret_cast<const std::uint8_t*>(copy.global[lane]), 16);
    }
    return;
  }
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto lane = static_cast<std::size_t>(std::countr_zero(lanes));
    const std::uint32_t address = copy.shared[lane];
    if (address >> kSharedRankShift != rank) [[unlikely]] {
      rank = address >> kSharedRankShift;
      shared = cluster_.ctas[rank].shared;
    }
    std::uint8_t* const target = shared + (address & kSharedOffsetMask);
    const auto* source = reinterpret_cast<const std::uint8_t*>(copy.global[lane]);
    const std::size_t read = copy.source_bytes[lane];
    if (read == 16) {
      std::memcpy(target, source, 16);
    } else if (read == 0 && copy.bytes == 16) {
      std::memset(target, 0, 16);
    } else {
      std::memcpy(target, source, read);
      std::memset(target + read, 0, copy.bytes - read);
    }
  }
}

}  // namespace sglab::emu
