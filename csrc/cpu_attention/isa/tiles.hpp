// Products of bfloat16 on AMX's tiles: eight registers of 16 rows of 64 bytes. A file that defines
// SGLAB_TILES takes these products; SGLAB_TILE_MODEL does in plain C++ what the instructions do, by Intel's
// description of them, so that everything but the instructions themselves runs where no chip has them.

#pragma once

#include "cpu_attention/isa/rows.hpp"

namespace sglab::cpu_attention {
namespace {

#if !defined(SGLAB_TILES)

constexpr int kRowStep = kLanes;
struct TileScratch {
  TileScratch(Arena&, const Call&) {}
};

#else

constexpr int kRowStep = 16;  // a tile has 16 rows of q

#if defined(SGLAB_TILE_MODEL)
struct Tile {
  std::uint32_t cell[16][16];
};
thread_local Tile tile_registers[8];

struct Tiles {
  Tiles() {}
  template <int kTile>
  static void read(const void* from, std::int64_t stride) {
    for (int r = 0; r < 16; ++r) {
      std::memcpy(tile_registers[kTile].cell[r], static_cast<const char*>(from) + r * stride, 64);
    }
  }
  template <int kTile>
  static void write(void* to, std::int64_t stride) {
    for (int r = 0; r < 16; ++r) {
      std::memcpy(static_cast<char*>(to) + r * stride, tile_registers[kTile].cell[r], 64);
    }
  }
  // sum[m][n] += a[m][pair k] . b[k][pair n]
  template <int kSum, int kA, int kB>
  static void multiply() {
    for (int m = 0; m < 16; ++m) {
      for (int k = 0; k < 16; ++k) {
        const std::uint32_t a = tile_registers[kA].cell[m][k];
        for (int n = 0; n < 16; ++n) {
          const std::uint32_t b = tile_registers[kB].cell[k][n];
          float sum = float_of(tile_registers[kSum].cell[m][n]);
          sum += float_of(a << 16) * float_of(b << 16);
          sum += float_of(a & 0xffff0000u) * float_of(b & 0xffff0000u);
          tile_registers[kSum].cell[m][n] = bits_of(sum);
        }
      }
    }
  }
};
#else
// Tiles are configured while one of these lives.
struct Tiles {
  Tiles() {
    alignas(64) std::uint8_t shape[64] = {1};  // palette 1
    for (int tile = 0; tile < 8; ++tile) {
      shape[16 + 2 * tile] = 64;  // bytes of a row
      shape[48 + tile] = 16;      // rows
    }
    _tile_loadconfig(shape);
  }
  ~Tiles() { _tile_release(); }
  // The intrinsics are macros that take a tile's number as it is written.
  template <int kTile>
  static void read(const void* from, std::int64_t stride) {
    if constexpr (kTile == 0) _tile_loadd(0, from, stride);
    if constexpr (kTile == 1) _tile_loadd(1, from, stride);
    if constexpr (kTile == 2) _tile_loadd(2, from, stride);
    if constexpr (kTile == 3) _tile_loadd(3, from, stride);
    if constexpr (kTile == 4) _tile_loadd(4, from, stride);
    if constexpr (kTile == 5) _tile_loadd(5, from, stride);
    if constexpr (kTile == 6) _tile_loadd(6, from, stride);
    if constexpr (kTile == 7) _tile_loadd(7, from, stride);
  }
  template <int kTile>
  static void write(void* to, std::int64_t stride) {
    if constexpr (kTile == 0) _tile_stored(0, to, stride);
    if constexpr (kTile == 1) _tile_stored(1, to, stride);
    if constexpr (kTile == 2) _tile_stored(2, to, stride);
    if constexpr (kTile == 3) _tile_stored(3, to, stride);
  }
  // Sums 0 to 3 are those of tiles 4 and 5 with tiles 6 and 7.
  template <int kSum, int kA, int kB>
  static void multiply() {
    static_assert(kA == 4 + kSum / 2 && kB == 6 + kSum % 2);
    if constexpr (kSum == 0) _tile_dpbf16ps(0, 4, 6);
    if constexpr (kSum == 1) _tile_dpbf16ps(1, 4, 7);
    if constexpr (kSum == 2) _tile_dpbf16ps(2, 5, 6);
    if constexpr (kSum == 3) _tile_dpbf16ps(3, 5, 7);
  }
};
#endif

// C [2 x 16][kWide x 16 rows] += A [32][pairs] . B [pairs][rows], A's rows `a_stride` bytes apart. Four tiles
// of sums at a time: each tile that is loaded serves two of them.
template <bool kTwoColumns>
inline void tile_block(const std::uint8_t* a, std::int64_t a_stride, bool two_rows, const std::uint32_t* b,
                       int rows, int pairs, float* c) {
  const std::int64_t stride = rows * 4;
  Tiles::read<0>(c, stride);
  if (kTwoColumns) Tiles::read<1>(c + 16, stride);
  if (two_rows) Tiles::read<2>(c + 16 * rows, stride);
  if (kTwoColumns && two_rows) Tiles::read<3>(c + 16 * rows + 16, stride);
  for (int s = 0; s < pairs; s += 16) {
    Tiles::read<4>(a + s * 4, a_stride);
    Tiles::read<6>(b + s * rows, stride);
    Tiles::multiply<0, 4, 6>();
    if (kTwoColumns) {
      Tiles::read<7>(b + s * rows + 16, stride);
      Tiles::multiply<1, 4, 7>();
    }
    if (two_rows) {
      Tiles::read<5>(a + 16 * a_stride + s * 4, a_stride);
      Tiles::multiply<2, 5, 6>();
      if (kTwoColumns) Tiles::multiply<3, 5, 7>();
    }
  }
  Tiles::write<0>(c, stride);
  if (kTwoColumns) Tiles::write<1>(c + 16, stride);
  if (two_rows) Tiles::write<2>(c + 16 * rows, stride);
  if (kTwoColumns && two_rows) Tiles::write<3>(c + 16 * rows + 16, stride);
}

void tile_product(const std::uint8_t* a, std::int64_t a_stride, int a_rows, const std::uint32_t* b, int rows,
                  int pairs, float* c) {
  const Tiles configured;
  for (int m = 0; m < a_rows; m += 32) {
    const bool two_rows = m + 16 < a_rows;
    const std::uint8_t* const from = a + m * a_stride;
    int n = 0;
    for (; n + 32 <= rows; n += 32)
      tile_block<true>(from, a_stride, two_rows, b + n, rows, pairs, c + m * rows + n);
    if (n < rows) tile_block<false>(from, a_stride, two_rows, b + n, rows, pairs, c + m * rows + n);
  }
}

struct TileScratch {
  std::uint16_t *keys, *turned;

  TileScratch(Arena& arena, const Call& call) {
    keys = arena.take<std::uint16_t>(kBlockKeys * rounded_up(call.qk_dim, 32));
    turned = arena.take<std::uint16_t>(rounded_up(call.v_dim, 16) * kBlockKeys);
  }

  // scores [key][row] of q [pair of dims][row], whose dims are padded to 32 with zeros.
  void scores(const Block& block, const std::uint32_t* q, int rows, int dim, float* out) const {
    const std::int64_t width = rounded_up(dim, 32);
    const int count = static_cast<int>(rounded_up(block.count, 16));
    for (int j = 0; j < count; ++j) {
      std::memcpy(keys + j * width, block.k[j < block.count ? j : block.count - 1], dim * 2);
      std::memset(keys + j * width + dim, 0, (width - dim) * 2);
    }
    std::memset(out, 0, count * rows * 4);
    tile_product(reinterpret_cast<const std::uint8_t*>(keys), width * 2, count, q, rows,
                 static_cast<int>(width / 2), out);
  }

  // values [dim][row] = values * shrink + v^T . weights [pair of keys][row], whose keys are padded to 32 with
  // zeros.
  void values(const Block& block, const std::uint32_t* weights, int rows, int dim, const float* shrink,
              float* out) const {
    const int dims = static_cast<int>(rounded_up(dim, 16)),
              keys32 = static_cast<int>(rounded_up(block.count, 32));
    for (int d = 0; d < dim; ++d) {
      for (int c = 0; c < rows; c += kLanes) {
        store(out + d * rows + c, load(out + d * rows + c) * load(shrink + c));
      }
    }
    turn(block, dim, dims, keys32);
    tile_product(reinterpret_cast<const std::uint8_t*>(turned), keys32 * 2, dims, weights, rows, keys32 / 2,
                 out);
  }

 private:
  // Values [key][dim] to [dim][key], zero where there is none: eight keys at a time, of which each dim is 16
  // bytes.
  void turn(const Block& block, int dim, int dims, int keys32) const {
    for (int j = 0; j < keys32; j += 8) {
      for (int d = 0; d < dims; ++d) {
        std::uint16_t eight[8];
        for (int i = 0; i < 8; ++i) {
          eight[i] = j + i < block.count && d < dim ? load_as<std::uint16_t>(block.v[j + i] + d * 2) : 0;
        }
        std::memcpy(turned + d * keys32 + j, eight, sizeof(eight));
      }
    }
  }
};

#endif

}  // namespace
}  // namespace sglab::cpu_attention
