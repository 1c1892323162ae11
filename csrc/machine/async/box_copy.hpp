#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "machine/async/reduce.hpp"
#include "machine/async/tensor_map.hpp"

namespace sglab::emu {

// Global memory as a bulk copy sees it. Both throw (their own type) when the range is not accessible.
class GlobalAccess {
 public:
  virtual ~GlobalAccess() = default;
  virtual const std::uint8_t* read(std::uint64_t address, std::size_t bytes) = 0;
  virtual std::uint8_t* write(std::uint64_t address, std::size_t bytes) = 0;
};

// One tensor copy: where in the tensor, and how the box is cut.
struct BoxRequest {
  enum class Mode : std::uint8_t { kTile, kGather4, kIm2col, kIm2colW, kIm2colW128 };
  Mode mode = Mode::kTile;
  // kTile: one coordinate per dimension, dimension 0 first. kGather4 (and scatter4): column, then four rows.
  std::array<std::int32_t, 5> coordinates{};
  std::array<std::uint16_t, 3> im2col_offsets{};  // kIm2colW, kIm2colW128: wHalo, wOffset
};

// The mode that the map is made for; a tiled one serves kGather4, too.
BoxRequest::Mode map_mode(const TensorMap& map);

// Bytes that the box takes in shared memory. A load completes as many on its mbarrier, out-of-bounds ones
// included; of padded elements only the bits that they have.
std::uint32_t box_bytes(const TensorMap& map, const BoxRequest& request);

// Shared-memory alignment that the box needs.
std::uint32_t box_alignment(const TensorMap& map);

// A run of elements along dimension 0: `count` of them in the box, of which [inside_begin, inside_end) lie
// inside the tensor, at global_address onward.
struct BoxRow {
  std::uint32_t smem_offset;  // before swizzling, from the start of the box
  int count;
  int inside_begin;
  int inside_end;
  std::uint64_t global_address;  // of element inside_begin
};

// Fills the box at shared address `base` (an offset into `smem`, whose byte 0 is the window's start), with
// zeros or NaN where it leaves the tensor. Throws TensorMapError, or what `global` throws, before writing
// shared memory past the failing row.
void load_box(const TensorMap& map, const BoxRequest& request, GlobalAccess& global,
              std::span<std::uint8_t> smem, std::uint32_t base);
// Elements outside the tensor are dropped.
void store_box(const TensorMap& map, const BoxRequest& request, GlobalAccess& global,
               std::span<const std::uint8_t> smem, std::uint32_t base);
void reduce_box(const TensorMap& map, const BoxRequest& request, ReduceOp op, GlobalAccess& global,
                std::span<const std::uint8_t> smem, std::uint32_t base);
// Touches what a load would read, so that a prefetch of an inaccessible range is seen.
void prefetch_box(const TensorMap& map, const BoxRequest& request, GlobalAccess& global);

}  // namespace sglab::emu
