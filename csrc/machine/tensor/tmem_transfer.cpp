#include "machine/tensor/tmem_transfer.hpp"

#include <cstring>
#include <stdexcept>

namespace sglab::emu {
namespace {

struct CopyPlan {
  int rows;
  int chunks;
};

CopyPlan copy_plan(CopyShape shape) {
  switch (shape) {
    case CopyShape::k128x256b:
      return {128, 2};
    case CopyShape::k4x256b:
      return {4, 2};
    case CopyShape::k128x128b:
      return {128, 1};
    case CopyShape::k64x128b0213:
    case CopyShape::k64x128b0123:
      return {64, 1};
    case CopyShape::k32x128bWarpx4:
      return {32, 1};
  }
  throw std::invalid_argument("tcgen05.cp: unknown shape");
}

// Lanes that row `row` lands in, relative to the address.
int copy_lanes(CopyShape shape, int row, int lanes[4]) {
  switch (shape) {
    case CopyShape::k4x256b:
      lanes[0] = 32 * row;
      return 1;
    case CopyShape::k64x128b0213:  // warps 0 and 2 share a half, warps 1 and 3 the other
      lanes[0] = row, lanes[1] = row + 64;
      return 2;
    case CopyShape::k64x128b0123:  // warps 0 and 1 share a half, warps 2 and 3 the other
      lanes[0] = row % 32 + 64 * (row / 32), lanes[1] = lanes[0] + 32;
      return 2;
    case CopyShape::k32x128bWarpx4:
      for (int warp = 0; warp < 4; ++warp) lanes[warp] = row + 32 * warp;
      return 4;
    default:
      lanes[0] = row;
      return 1;
  }
}

}  // namespace

std::optional<LdStShape> parse_ld_st_shape(std::string_view name) {
  constexpr std::string_view kNames[] = {"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"};
  for (int i = 0; i < 5; ++i) {
    if (name == kNames[i]) return static_cast<LdStShape>(i);
  }
  return std::nullopt;
}

int ld_st_registers(const LdStForm& form) {
  if (form.shape == LdStShape::k16x128b) return 2 * form.count;
  return form.shape == LdStShape::k16x256b ? 4 * form.count : form.count;
}

int ld_st_lanes(const LdStForm& form) {
  return form.shape == LdStShape::k32x32b ? 32 : 16;
}

int ld_st_columns(const LdStForm& form) {
  const int scale = form.sixteen_bit ? 2 : 1;
  switch (form.shape) {
    case LdStShape::k32x32b:
      return form.count * scale;
    case LdStShape::k16x64b:
      return 2 * form.count * scale;
    case LdStShape::k16x128b:
      return 4 * form.count * scale;
    case LdStShape::k16x256b:
      return 8 * form.count * scale;
    case LdStShape::k16x32bx2:
      return form.half_split + form.count * scale;
  }
  return 0;
}

TmemOffset ld_st_cell(const LdStForm& form, int thread, int reg) {
  const int scale = form.sixteen_bit ? 2 : 1;
  switch (form.shape) {
    case LdStShape::k32x32b:
      return {thread, reg * scale};
    case LdStShape::k16x64b:
      return {thread / 4 + 8 * (thread % 2), (2 * reg + thread / 2 % 2) * scale};
    case LdStShape::k16x128b:
      return {thread / 4 + 8 * (reg % 2), (4 * (reg / 2) + thread % 4) * scale};
    case LdStShape::k16x256b:
      return {thread / 4 + 8 * (reg / 2 % 2), (8 * (reg / 4) + 2 * (thread % 4) + reg % 2) * scale};
    case LdStShape::k16x32bx2:
      return {thread % 16, reg * scale + (thread / 16) * form.half_split};
  }
  return {0, 0};
}

void tmem_load(const TensorMemory& tmem, const LdStForm& form, TmemAddress address,
               std::uint32_t* registers) {
  const int count = ld_st_registers(form);
  if (form.shape == LdStShape::k32x32b && !form.sixteen_bit) {
    for (int reg = 0; reg < count; ++reg) {
      std::memcpy(registers + 32 * reg, tmem.column(address.column + reg) + address.lane, 128);
    }
    return;
  }
  for (int reg = 0; reg < count; ++reg) {
    for (int thread = 0; thread < 32; ++thread) {
      const TmemOffset at = ld_st_cell(form, thread, reg);
      std::uint32_t value = tmem.cell(address.lane + at.lane, address.column + at.column);
      if (form.sixteen_bit) {
        value = (value & 0xffffu) | tmem.cell(address.lane + at.lane, address.column + at.column + 1) << 16;
      }
      registers[32 * reg + thread] = value;
    }
  }
}

void tmem_store(TensorMemory& tmem, const LdStForm& form, TmemAddress address,
                const std::uint32_t* registers) {
  const int count = ld_st_registers(form);
  if (form.shape == LdStShape::k32x32b && !form.sixteen_bit) {
    for (int reg = 0; reg < count; ++reg) {
      std::memcpy(tmem.column(address.column + reg) + address.lane, registers + 32 * reg, 128);
    }
    tmem.mark_written(address.column, static_cast<std::uint32_t>(count), address.lane, 32);
    return;
  }
  for (int reg = 0; reg < count; ++reg) {
    for (int thread = 0; thread < 32; ++thread) {
      const TmemOffset at = ld_st_cell(form, thread, reg);
      const std::uint32_t lane = address.lane + at.lane, column = address.column + at.column;
      const std::uint32_t value = registers[32 * reg + thread];
      tmem.cell(lane, column) = form.sixteen_bit ? value & 0xffffu : value;
      tmem.mark_written(column, lane, 1);
      if (form.sixteen_bit) {
        tmem.cell(lane, column + 1) = value >> 16;
        tmem.mark_written(column + 1, lane, 1);
      }
    }
  }
}

void expand_chunk(CopyFormat format, const std::uint8_t* chunk, std::uint8_t* out) {
  switch (format) {
    case CopyFormat::kNone:
      std::memcpy(out, chunk, 16);
      return;
    case CopyFormat::kB4x16P64:
      // A 4-bit element sits in bits 2-5 of its 8-bit container.
      for (int i = 0; i < 16; ++i)
        out[i] = static_cast<std::uint8_t>(((chunk[i / 2] >> (4 * (i % 2))) & 0xf) << 2);
      return;
    case CopyFormat::kB6x16P32:
      for (int i = 0; i < 16; ++i) {
        const int bit = 6 * i;
        const std::uint32_t word = chunk[bit / 8] | static_cast<std::uint32_t>(chunk[bit / 8 + 1]) << 8;
        out[i] = static_cast<std::uint8_t>((word >> (bit % 8)) & 0x3f);
      }
  }
}

std::optional<CopyShape> parse_copy_shape(std::string_view shape, std::string_view multicast) {
  if (shape == "128x256b" && multicast.empty()) return CopyShape::k128x256b;
  if (shape == "4x256b" && multicast.empty()) return CopyShape::k4x256b;
  if (shape == "128x128b" && multicast.empty()) return CopyShape::k128x128b;
  if (shape == "64x128b" && multicast == "warpx2::02_13") return CopyShape::k64x128b0213;
  if (shape == "64x128b" && multicast == "warpx2::01_23") return CopyShape::k64x128b0123;
  if (shape == "32x128b" && multicast == "warpx4") return CopyShape::k32x128bWarpx4;
  return std::nullopt;
}

int copy_columns(CopyShape shape) {
  return 4 * copy_plan(shape).chunks;
}

void tmem_copy(TensorMemory& tmem, TmemAddress address, SmemView smem, const SmemDescriptor& descriptor,
               CopyShape shape, CopyFormat format) {
  const CopyPlan plan = copy_plan(shape);
  const ChunkAddress chunk_address(descriptor, Major::kK);
  for (int row = 0; row < plan.rows; ++row) {
    int lanes[4];
    const int copies = copy_lanes(shape, row, lanes);
    for (int chunk = 0; chunk < plan.chunks; ++chunk) {
      const std::uint32_t at = chunk_address(row, chunk);
      if (at > smem.size() || smem.size() - at < 16) throw SmemOutOfBounds(at, smem.size());
      std::uint32_t words[4];
      std::uint8_t bytes[16];
      expand_chunk(format, smem.data() + at, bytes);
      std::memcpy(words, bytes, 16);
      for (int i = 0; i < copies; ++i) {
        const std::uint32_t lane = address.lane + lanes[i];
        for (int w = 0; w < 4; ++w) {
          const std::uint32_t column = address.column + 4 * chunk + w;
          if (lane >= TensorMemory::kLanes || column >= TensorMemory::kColumns) {
            throw std::out_of_range("tcgen05.cp writes lane " + std::to_string(lane) + ", column " +
                                    std::to_string(column) + " of tensor memory's 128 x 512");
          }
          tmem.cell(lane, column) = words[w];
          tmem.mark_written(column, lane, 1);
        }
      }
    }
  }
}

void tmem_shift_down(TensorMemory& tmem, TmemAddress address) {
  for (std::uint32_t column = address.column; column < address.column + 8; ++column) {
    std::uint32_t* cells = tmem.column(column) + address.lane;
    std::memmove(cells, cells + 1, 31 * sizeof(std::uint32_t));
  }
}

}  // namespace sglab::emu
