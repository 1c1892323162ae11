#pragma once

#include <algorithm>

#include "machine/async/box_copy.hpp"

namespace sglab::emu {

// Bytes of `count` elements in global and in shared memory (the padded sub-byte types grow on the way in).
inline std::uint32_t global_bytes(TensorMapType type, int count) {
  return static_cast<std::uint32_t>(count) * tensor_map_element_bits(type) / 8;
}
inline std::uint32_t smem_bytes(TensorMapType type, int count) {
  const bool padded = type == TensorMapType::kB4x16P64 || type == TensorMapType::kB6x16P32;
  return padded ? static_cast<std::uint32_t>(count) : global_bytes(type, count);
}

// Elements that the box takes along dimension `i`: every element_stride-th one of box_dim.
inline int box_extent(const TensorMap& map, int i) {
  const int step = i == 0 ? 1 : map.element_stride[i];  // the stride of dimension 0 is ignored
  return (map.box_dim[i] + step - 1) / step;
}

// The part of a row of `count` elements of `bits` each, from coordinate `first` on, that lies inside
// dimension 0.
inline BoxRow cut_row(const TensorMap& map, int bits, std::int64_t first, int count, std::uint64_t line,
                      bool line_inside, std::uint32_t smem_offset) {
  BoxRow row{smem_offset, count, 0, 0, 0};
  if (!line_inside) return row;
  const std::int64_t size = static_cast<std::int64_t>(map.global_dim[0]);
  row.inside_begin = static_cast<int>(std::clamp<std::int64_t>(-first, 0, count));
  row.inside_end = static_cast<int>(std::clamp<std::int64_t>(size - first, row.inside_begin, count));
  row.global_address = line + (first + row.inside_begin) * bits / 8;
  return row;
}

template <typename Visit>
void for_each_tile_row(const TensorMap& map, const BoxRequest& request, Visit&& visit) {
  const int count = box_extent(map, 0), bits = tensor_map_element_bits(map.type);
  const std::uint32_t pitch = smem_bytes(map.type, count);
  std::array<int, TensorMap::kMaxRank> extent{1, 1, 1, 1, 1}, index{};
  for (int i = 1; i < map.rank; ++i) extent[i] = box_extent(map, i);
  std::uint32_t offset = 0;
  for (index[4] = 0; index[4] < extent[4]; ++index[4]) {
    for (index[3] = 0; index[3] < extent[3]; ++index[3]) {
      for (index[2] = 0; index[2] < extent[2]; ++index[2]) {
        for (index[1] = 0; index[1] < extent[1]; ++index[1], offset += pitch) {
          std::uint64_t line = map.global_address;
          bool inside = true;
          for (int i = 1; i < map.rank; ++i) {
            const std::int64_t at = request.coordinates[i] + std::int64_t{index[i]} * map.element_stride[i];
            inside &= at >= 0 && at < static_cast<std::int64_t>(map.global_dim[i]);
            line += static_cast<std::uint64_t>(at) * map.global_stride[i];
          }
          visit(cut_row(map, bits, request.coordinates[0], count, line, inside, offset));
        }
      }
    }
  }
}

// .tile::gather4 / .tile::scatter4: four rows of a two-dimensional tensor.
template <typename Visit>
void for_each_gathered_row(const TensorMap& map, const BoxRequest& request, Visit&& visit) {
  const int count = box_extent(map, 0), bits = tensor_map_element_bits(map.type);
  const std::uint32_t pitch = smem_bytes(map.type, count);
  for (int i = 0; i < 4; ++i) {
    const std::int64_t at = request.coordinates[1 + i];
    const bool inside = at >= 0 && at < static_cast<std::int64_t>(map.global_dim[1]);
    const std::uint64_t line = map.global_address + static_cast<std::uint64_t>(at) * map.global_stride[1];
    visit(cut_row(map, bits, request.coordinates[0], count, line, inside, i * pitch));
  }
}

// im2col: pixels are walked width first inside the box [lower corner, size - 1 + upper corner] of each
// spatial dimension, then on to the next image; the offsets shift each pixel to the filter tap that is
// loaded.
template <typename Visit>
void for_each_im2col_row(const TensorMap& map, const BoxRequest& request, Visit&& visit) {
  const int spatial = map.rank - 2, batch = map.rank - 1;
  const int count = map.channels_per_pixel, bits = tensor_map_element_bits(map.type);
  const std::uint32_t pitch = smem_bytes(map.type, count);
  std::array<std::int64_t, TensorMap::kMaxRank> at{};
  for (int i = 0; i < map.rank; ++i) at[i] = request.coordinates[i];
  for (int pixel = 0; pixel < map.pixels_per_column; ++pixel) {
    std::uint64_t line =
        map.global_address + static_cast<std::uint64_t>(at[batch]) * map.global_stride[batch];
    bool inside = at[batch] >= 0 && at[batch] < static_cast<std::int64_t>(map.global_dim[batch]);
    for (int i = 0; i < spatial; ++i) {
      const std::int64_t tap = at[1 + i] + request.im2col_offsets[i];
      inside &= tap >= 0 && tap < static_cast<std::int64_t>(map.global_dim[1 + i]);
      line += static_cast<std::uint64_t>(tap) * map.global_stride[1 + i];
    }
    visit(cut_row(map, bits, at[0], count, line, inside, pixel * pitch));
    int i = 0;
    for (; i < spatial; ++i) {
      at[1 + i] += map.element_stride[1 + i];
      if (at[1 + i] <= static_cast<std::int64_t>(map.global_dim[1 + i]) - 1 + map.upper_corner[i]) break;
      at[1 + i] = map.lower_corner[i];
    }
    if (i == spatial) ++at[batch];
  }
}

// im2col::w: as im2col, but pixels are walked along the width alone, on into the next image; the offset moves
// the box and the first pixel. `halo` more pixels follow what the map's column has. im2col::w::128 has 128
// pixels, and as many more after every 32 of them: the first of each of the four groups, then the second, …
// (rows of four, as tcgen05.cp.4x256b takes them).
template <typename Visit>
void for_each_wide_row(const TensorMap& map, const BoxRequest& request, Visit&& visit) {
  constexpr int kGroup = 32, kGroups = 4;
  const int batch = map.rank - 1, count = map.channels_per_pixel, bits = tensor_map_element_bits(map.type);
  const std::uint32_t pitch = smem_bytes(map.type, count);
  const int halo = request.im2col_offsets[0], offset = request.im2col_offsets[1];
  const std::int64_t lower = map.lower_corner[0] + offset;
  const std::int64_t upper = static_cast<std::int64_t>(map.global_dim[1]) - 1 + map.upper_corner[0] + offset;
  std::int64_t width = std::int64_t{request.coordinates[1]} + offset, image = request.coordinates[batch];
  const auto row = [&](int number, std::int64_t at_width, std::int64_t at_image) {
    std::uint64_t line = map.global_address;
    bool inside = true;
    for (int i = 1; i < map.rank; ++i) {
      const std::int64_t at = i == 1 ? at_width : i == batch ? at_image : request.coordinates[i];
      inside &= at >= 0 && at < static_cast<std::int64_t>(map.global_dim[i]);
      line += static_cast<std::uint64_t>(at) * map.global_stride[i];
    }
    visit(cut_row(map, bits, request.coordinates[0], count, line, inside,
                  static_cast<std::uint32_t>(number) * pitch));
  };
  const auto step = [&](std::int64_t& at_width, std::int64_t& at_image) {
    at_width += map.element_stride[1];
    if (at_width <= upper) return;
    at_width = lower;
    ++at_image;
  };
  const bool groups = request.mode == BoxRequest::Mode::kIm2colW128;
  const int pixels = groups ? kGroup * kGroups : map.pixels_per_column;
  for (int pixel = 0; pixel < pixels; ++pixel) {
    row(pixel, width, image);
    step(width, image);
    if (!groups || pixel % kGroup != kGroup - 1) continue;
    std::int64_t beyond = width, of = image;
    for (int i = 0; i < halo; ++i, step(beyond, of)) row(pixels + kGroups * i + pixel / kGroup, beyond, of);
  }
  for (int i = 0; !groups && i < halo; ++i, step(width, image)) row(pixels + i, width, image);
}

template <typename Visit>
void for_each_box_row(const TensorMap& map, const BoxRequest& request, Visit&& visit) {
  switch (request.mode) {
    case BoxRequest::Mode::kTile:
      return for_each_tile_row(map, request, visit);
    case BoxRequest::Mode::kGather4:
      return for_each_gathered_row(map, request, visit);
    case BoxRequest::Mode::kIm2col:
      return for_each_im2col_row(map, request, visit);
    case BoxRequest::Mode::kIm2colW:
    case BoxRequest::Mode::kIm2colW128:
      return for_each_wide_row(map, request, visit);
  }
}

}  // namespace sglab::emu
