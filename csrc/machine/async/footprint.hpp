#pragma once

#include <cstdint>
#include <vector>

#include "isa/types.hpp"
#include "machine/async/operations.hpp"
#include "machine/engine/cluster.hpp"

namespace sglab::emu {

struct Wgmma;

struct Range {
  Space space;  // kGlobal or kShared
  std::uint64_t address;
  std::uint32_t bytes;
  std::uint8_t warps = 0xf;  // of a wgmma: those of its warpgroup that read it
};
struct TmemRange {
  std::uint32_t rank;  // of the CTA
  std::uint32_t lane, lanes;
  std::uint32_t column, columns;
};
struct Footprint {
  std::vector<Range> reads, writes;
  std::vector<TmemRange> tmem_reads, tmem_writes;
  bool atomic = false;  // the writes are reductions

  void clear() {
    reads.clear(), writes.clear(), tmem_reads.clear(), tmem_writes.clear();
    atomic = false;
  }
};

// The bytes and cells that an asynchronous operation touches. `lanes`: of a SmallCopy, those that are carried
// out. `f`: an earlier footprint, whose memory serves again.
Footprint footprint_of(const Cluster& cluster, const BulkOperation& operation, std::uint32_t lanes,
                       Footprint f = {});
Footprint footprint_of(const Cluster& cluster, const TensorOperation& operation, std::uint32_t lanes,
                       Footprint f = {});
Footprint footprint_of(const Cluster& cluster, const SmallCopy& copy, std::uint32_t lanes, Footprint f = {});
Footprint footprint_of(std::uint32_t rank, const Wgmma& operation, Footprint f = {});

}  // namespace sglab::emu
