#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "machine/tensor/operand.hpp"
#include "machine/tensor/smem_descriptor.hpp"
#include "machine/tensor/tmem.hpp"

namespace sglab::emu {

// tcgen05.ld / tcgen05.st between tensor memory and a warp's registers.
enum class LdStShape : std::uint8_t { k32x32b, k16x64b, k16x128b, k16x256b, k16x32bx2 };

std::optional<LdStShape> parse_ld_st_shape(std::string_view name);  // "32x32b", …

struct LdStForm {
  LdStShape shape;
  int count;           // .xN
  bool sixteen_bit;    // .pack::16b / .unpack::16b
  int half_split = 0;  // .16x32bx2: column offset of the second half (threads 16-31)
};

// Registers per thread: N for 32x32b, 16x64b and 16x32bx2; 2N for 16x128b; 4N for 16x256b.
int ld_st_registers(const LdStForm& form);
int ld_st_lanes(const LdStForm& form);  // 32 or 16
// Columns from the address on that the access reaches (with .16x32bx2, including the second half).
int ld_st_columns(const LdStForm& form);

// The address with the lanes that the warp reaches: its own 32, or the half of them that the lane field
// picks.
inline TmemAddress in_own_quarter(const LdStForm& form, TmemAddress address, std::uint32_t warp) {
  const std::uint32_t half = ld_st_lanes(form) == 32 ? 0 : address.lane & 16u;
  return {32 * (warp % 4) + half, address.column};
}

struct TmemOffset {
  int lane;
  int column;
};
// Cell of register `reg` of thread `thread`, relative to the address. With sixteen_bit, the cell of the low
// half; the high half is one column further.
TmemOffset ld_st_cell(const LdStForm& form, int thread, int reg);

// `registers` is [ld_st_registers][32 threads]. The caller has checked that the range lies in tensor memory.
void tmem_load(const TensorMemory& tmem, const LdStForm& form, TmemAddress address, std::uint32_t* registers);
void tmem_store(TensorMemory& tmem, const LdStForm& form, TmemAddress address,
                const std::uint32_t* registers);

// tcgen05.cp from shared memory.
enum class CopyShape : std::uint8_t {
  k128x256b,
  k4x256b,
  k128x128b,
  k64x128b0213,
  k64x128b0123,
  k32x128bWarpx4
};
enum class CopyFormat : std::uint8_t { kNone, kB4x16P64, kB6x16P32 };  // decompressed to b8x16

// The sixteen bytes that a sixteen-byte shared chunk becomes; b4x16_p64 elements land in bits 2-5 of their
// bytes.
void expand_chunk(CopyFormat format, const std::uint8_t* chunk, std::uint8_t* out);

std::optional<CopyShape> parse_copy_shape(std::string_view shape, std::string_view multicast);
int copy_columns(CopyShape shape);
void tmem_copy(TensorMemory& tmem, TmemAddress address, SmemView smem, const SmemDescriptor& descriptor,
               CopyShape shape, CopyFormat format);

// tcgen05.shift.down: within the 32 lanes from the address on, each lane of eight columns takes the contents
// of the next lane; the last lane keeps its own (tcgen05.cp.4x256b refreshes it).
void tmem_shift_down(TensorMemory& tmem, TmemAddress address);

}  // namespace sglab::emu
