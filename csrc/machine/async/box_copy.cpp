#include "machine/async/box_copy.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "machine/async/box_rows.hpp"
#include "machine/tensor/element.hpp"

namespace sglab::emu {
namespace {

constexpr std::uint32_t kMaxRowBytes = 256 * 8;

using Mode = BoxRequest::Mode;

void check_wide(const TensorMap& map, const BoxRequest& request) {
  const std::int64_t halo = request.im2col_offsets[0], offset = request.im2col_offsets[1];
  const std::int64_t most = map.wide == Im2colWide::kW128 ? 31 : 511;
  if (halo > most || offset > 31) {
    throw TensorMapError("tensor copy: wHalo = " + std::to_string(halo) + " and wOffset = " +
                         std::to_string(offset) + "; expected at most " + std::to_string(most) + " and 31");
  }
  if (request.coordinates[1] > static_cast<std::int64_t>(map.global_dim[1]) - 1 + map.upper_corner[0]) {
    throw TensorMapError("tensor copy: the first pixel, W = " + std::to_string(request.coordinates[1]) +
                         ", lies to the right of the box; im2col::w begins in it or to its left");
  }
}

void check_mode(const TensorMap& map, const BoxRequest& request) {
  if (map.interleave != Interleave::kNone)
    throw TensorMapError("tensor copy: interleaved layouts are not implemented");
  const Mode mode = request.mode == Mode::kGather4 ? Mode::kTile : request.mode;
  if (mode != map_mode(map)) {
    throw TensorMapError(
        "tensor copy: the instruction's mode and the tensor map's differ (tiled, im2col, im2col::w or "
        "im2col::w::128)");
  }
  if (map.wide != Im2colWide::kNone) check_wide(map, request);
  if (request.mode == BoxRequest::Mode::kGather4 && (map.rank != 2 || map.box_dim[1] != 1)) {
    throw TensorMapError("tensor copy: gather4 and scatter4 need a 2-D tensor map with boxDim[1] = 1");
  }
}

void check_smem(const TensorMap& map, const BoxRequest& request, std::size_t size, std::uint32_t base) {
  const std::uint32_t alignment = box_alignment(map);
  if (base % alignment != 0) {
    throw TensorMapError("tensor copy: shared address " + std::to_string(base) + " is not aligned to " +
                         std::to_string(alignment) + " bytes");
  }
  const std::uint32_t bytes = box_bytes(map, request);
  // A narrow box under a wider swizzle spreads over whole spans.
  const std::uint32_t span = swizzle_span(map.swizzle);
  const std::uint64_t end = (std::uint64_t{base} + bytes + span - 1) / span * span;
  if (base + std::uint64_t{bytes} > size || (map.swizzle != Swizzle::kNone && end > size)) {
    throw TensorMapError("tensor copy: " + std::to_string(bytes) + " bytes at shared address " +
                         std::to_string(base) + " leave the CTA's " + std::to_string(size));
  }
}

// Every swizzle exchanges pieces within a line of its rows, all of a line in one way.
template <std::uint32_t kStep, typename Byte, typename Move>
void walk_pieces(Swizzle swizzle, Byte* smem, std::uint32_t address, std::uint32_t bytes, Move move) {
  constexpr std::uint32_t kLine = 128;
  for (std::uint32_t at = 0; at < bytes;) {
    const std::uint32_t first = address + at, exchange = swizzle_address(swizzle, first) ^ first;
    const std::uint32_t end = std::min(bytes, at + kLine - first % kLine);
    if (end - at == kLine) {  // the commonest, of known length
      for (std::uint32_t i = 0; i < kLine; i += kStep) move(smem + ((first + i) ^ exchange), at + i, kStep);
      at = end;
      continue;
    }
    for (; at < end; at += kStep) move(smem + ((address + at) ^ exchange), at, kStep);
  }
}

// Shared memory and the box row change places 16 bytes at a time (8 under the 8-byte flip).
template <typename Byte, typename Move>
void walk_row(const TensorMap& map, Byte* smem, std::uint32_t address, std::uint32_t bytes, Move move) {
  if (map.swizzle == Swizzle::kNone) return move(smem + address, 0u, bytes);
  if (map.swizzle == Swizzle::k128BAtom32BFlip8B)
    return walk_pieces<8>(map.swizzle, smem, address, bytes, move);
  walk_pieces<16>(map.swizzle, smem, address, bytes, move);
}

void fill(const TensorMap& map, std::uint8_t* row, int count) {
  if (!map.nan_fill) {
    std::memset(row, 0, smem_bytes(map.type, count));
    return;
  }
  // The NaN for which fma.oob looks, in every 16 bits.
  const std::uint32_t bytes = smem_bytes(map.type, count);
  for (std::uint32_t at = 0; at < bytes; at += 2) row[at] = 0xf7, row[at + 1] = 0x7f;
}

// Sub-byte groups of sixteen elements get their padding; the padding is zero here and uninitialised on a GPU.
void widen_groups(TensorMapType type, const std::uint8_t* source, int count, std::uint8_t* row) {
  const int data = type == TensorMapType::kB4x16P64 ? 8 : 12;
  for (int group = 0; group < count / 16; ++group) {
    std::memcpy(row + 16 * group, source + data * group, data);
    std::memset(row + 16 * group + data, 0, 16 - data);
  }
}

void flush_subnormals(std::uint8_t* row, int count) {
  for (int i = 0; i < count; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, row + 4 * i, 4);
    if ((bits & 0x7f800000u) == 0) bits &= 0x80000000u;
    std::memcpy(row + 4 * i, &bits, 4);
  }
}

void read_row(const TensorMap& map, const BoxRow& row, GlobalAccess& global, std::uint8_t* out) {
  const int inside = row.inside_end - row.inside_begin;
  const auto at = [&map, out](int element) { return out + smem_bytes(map.type, element); };
  if (row.inside_begin > 0) fill(map, out, row.inside_begin);
  if (row.inside_end < row.count) fill(map, at(row.inside_end), row.count - row.inside_end);
  if (inside == 0) return;
  const std::uint32_t bytes = global_bytes(map.type, inside);
  const std::uint8_t* source = global.read(row.global_address, bytes);
  if (map.type == TensorMapType::kB4x16P64 || map.type == TensorMapType::kB6x16P32) {
    widen_groups(map.type, source, inside, at(row.inside_begin));
  } else {
    std::memcpy(at(row.inside_begin), source, bytes);
  }
  if (map.type == TensorMapType::kF32Ftz || map.type == TensorMapType::kTf32Ftz) {
    flush_subnormals(at(row.inside_begin), inside);
  }
}

// Rows that are fetched into the cache before they are copied: they lie far apart in memory, and each would
// be waited for.
class RowsAhead {
 public:
  template <typename Copy>
  void add(std::uint32_t offset, const std::uint8_t* source, std::uint32_t bytes, Copy& copy) {
    Waiting& place = waiting_[count_++ % kRows];
    if (count_ > kRows) copy(place.offset, place.source, place.bytes);
    place = {offset, bytes, source};
    for (std::uint32_t at = 0; at < bytes; at += 64) __builtin_prefetch(source + at);
  }
  template <typename Copy>
  void finish(Copy& copy) {
    for (std::uint32_t i = count_ > kRows ? count_ - kRows : 0; i < count_; ++i) {
      const Waiting& place = waiting_[i % kRows];
      copy(place.offset, place.source, place.bytes);
    }
  }

 private:
  struct Waiting {
    std::uint32_t offset;  // of the row in the box
    std::uint32_t bytes;
    const std::uint8_t* source;
  };
  static constexpr std::uint32_t kRows = 16;
  Waiting waiting_[kRows];
  std::uint32_t count_ = 0;
};

// .b6p2x16: sixteen bytes of six bits each become twelve bytes.
void narrow_groups(const std::uint8_t* row, int count, std::uint8_t* target) {
  for (int group = 0; group < count / 16; ++group) {
    std::uint8_t packed[12] = {};
    for (int i = 0; i < 16; ++i) {
      const std::uint32_t bits = static_cast<std::uint32_t>(row[16 * group + i] & 0x3f) << (6 * i % 8);
      packed[6 * i / 8] |= static_cast<std::uint8_t>(bits);
      if (bits > 0xff) packed[6 * i / 8 + 1] |= static_cast<std::uint8_t>(bits >> 8);
    }
    std::memcpy(target + 12 * group, packed, 12);
  }
}

// Calls use(row, bytes of the row in order) for each row that touches the tensor.
template <typename Use>
void for_each_stored_row(const TensorMap& map, const BoxRequest& request, std::span<const std::uint8_t> smem,
                         std::uint32_t base, Use use) {
  check_mode(map, request);
  check_smem(map, request, smem.size(), base);
  if (map.swizzle == Swizzle::k128BAtom32BFlip8B || map.type == TensorMapType::kB4x16P64) {
    throw TensorMapError("tensor copy: this swizzle or type exists for loads only");
  }
  for_each_box_row(map, request, [&](const BoxRow& row) {
    if (row.inside_begin == row.inside_end) return;
    std::uint8_t bytes[kMaxRowBytes];
    walk_row(map, smem.data(), base + row.smem_offset, smem_bytes(map.type, row.count),
             [&bytes](const std::uint8_t* from, std::uint32_t at, std::uint32_t count) {
               std::memcpy(bytes + at, from, count);
             });
    use(row, bytes + smem_bytes(map.type, row.inside_begin));
  });
}

ReduceType reduce_type(const TensorMap& map) {
  switch (map.type) {
    case TensorMapType::kU32:
      return ReduceType::kU32;
    case TensorMapType::kS32:
      return ReduceType::kS32;
    case TensorMapType::kU64:
      return ReduceType::kU64;
    case TensorMapType::kS64:
      return ReduceType::kS64;
    case TensorMapType::kF16:
      return ReduceType::kF16;
    case TensorMapType::kBf16:
      return ReduceType::kBf16;
    case TensorMapType::kF32:
      return ReduceType::kF32;
    case TensorMapType::kF64:
      return ReduceType::kF64;
    default:
      throw TensorMapError("cp.reduce.async.bulk.tensor: no reduction for element type " +
                           std::string(tensor_map_type_name(map.type)));
  }
}

}  // namespace

BoxRequest::Mode map_mode(const TensorMap& map) {
  if (!map.im2col) return Mode::kTile;
  return map.wide == Im2colWide::kNone ? Mode::kIm2col
         : map.wide == Im2colWide::kW  ? Mode::kIm2colW
                                       : Mode::kIm2colW128;
}

std::uint32_t box_bytes(const TensorMap& map, const BoxRequest& request) {
  if (map.im2col) {
    std::uint32_t pixels = map.pixels_per_column;
    if (request.mode == Mode::kIm2colW) pixels += request.im2col_offsets[0];
    if (request.mode == Mode::kIm2colW128) pixels = 128 + 4u * request.im2col_offsets[0];
    return smem_bytes(map.type, map.channels_per_pixel) * pixels;
  }
  std::uint32_t rows = request.mode == Mode::kGather4 ? 4 : 1;
  for (int i = 1; i < map.rank; ++i) rows *= static_cast<std::uint32_t>(box_extent(map, i));
  return rows * smem_bytes(map.type, box_extent(map, 0));
}

std::uint32_t box_alignment(const TensorMap& map) {
  return map.interleave == Interleave::k32B ? 256 : 128;
}

void load_box(const TensorMap& map, const BoxRequest& request, GlobalAccess& global,
              std::span<std::uint8_t> smem, std::uint32_t base) {
  check_mode(map, request);
  check_smem(map, request, smem.size(), base);
  const auto copy = [&](std::uint32_t offset, const std::uint8_t* source, std::uint32_t bytes) {
    walk_row(map, smem.data(), base + offset, bytes,
             [source](std::uint8_t* to, std::uint32_t at, std::uint32_t count) {
               std::memcpy(to, source + at, count);
             });
  };
  const bool plain = map.type <= TensorMapType::kBf16;
  // Of every row.
  const std::uint32_t size = smem_bytes(map.type, map.im2col ? map.channels_per_pixel : box_extent(map, 0));
  RowsAhead ahead;
  for_each_box_row(map, request, [&](const BoxRow& row) {
    if (plain && row.inside_begin == 0 && row.inside_end == row.count) {
      ahead.add(row.smem_offset, global.read(row.global_address, size), size, copy);
    } else {
      std::uint8_t bytes[kMaxRowBytes];
      read_row(map, row, global, bytes);
      copy(row.smem_offset, bytes, size);
    }
  });
  ahead.finish(copy);
}

void store_box(const TensorMap& map, const BoxRequest& request, GlobalAccess& global,
               std::span<const std::uint8_t> smem, std::uint32_t base) {
  for_each_stored_row(map, request, smem, base, [&](const BoxRow& row, const std::uint8_t* bytes) {
    const int inside = row.inside_end - row.inside_begin;
    const std::uint32_t size = global_bytes(map.type, inside);
    std::uint8_t* target = global.write(row.global_address, size);
    if (map.type == TensorMapType::kB6x16P32) {
      narrow_groups(bytes, inside, target);
    } else {
      std::memcpy(target, bytes, size);
    }
  });
}

void reduce_box(const TensorMap& map, const BoxRequest& request, ReduceOp op, GlobalAccess& global,
                std::span<const std::uint8_t> smem, std::uint32_t base) {
  const ReduceType type = reduce_type(map);
  if (!reduce_is_defined(op, type)) {
    throw TensorMapError("cp.reduce.async.bulk.tensor: this operation does not exist for element type " +
                         std::string(tensor_map_type_name(map.type)));
  }
  for_each_stored_row(map, request, smem, base, [&](const BoxRow& row, const std::uint8_t* bytes) {
    const int inside = row.inside_end - row.inside_begin;
    std::uint8_t* target = global.write(row.global_address, global_bytes(map.type, inside));
    reduce_elements(op, type, target, bytes, static_cast<std::size_t>(inside),
                    map.type == TensorMapType::kF32Ftz);
  });
}

void prefetch_box(const TensorMap& map, const BoxRequest& request, GlobalAccess& global) {
  check_mode(map, request);
  for_each_box_row(map, request, [&](const BoxRow& row) {
    if (row.inside_begin < row.inside_end) {
      global.read(row.global_address, global_bytes(map.type, row.inside_end - row.inside_begin));
    }
  });
}

}  // namespace sglab::emu
