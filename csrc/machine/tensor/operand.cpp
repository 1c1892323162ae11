#include "machine/tensor/operand.hpp"

#include <algorithm>
#include <cstring>

namespace sglab::emu {
namespace {

const std::uint8_t* chunk_at(SmemView smem, std::uint32_t address) {
  if (address > smem.size() || smem.size() - address < 16) throw SmemOutOfBounds(address, smem.size());
  return smem.data() + address;
}

std::uint32_t six_bits(const std::uint8_t* chunk, int index) {
  const int bit = 6 * index;
  std::uint32_t word = chunk[bit / 8];
  if (bit % 8 > 2) word |= static_cast<std::uint32_t>(chunk[bit / 8 + 1]) << 8;
  return (word >> (bit % 8)) & 0x3f;
}

bool is_sixteen_bit(ElementType type) {
  return type == ElementType::kF16 || type == ElementType::kBf16;
}

void decode_tf32(const std::uint8_t* chunk, float* out) {
  std::uint32_t words[4];
  std::memcpy(words, chunk, 16);
  for (std::uint32_t& word : words) word &= 0xffffe000u;
  std::memcpy(out, words, 16);
}

template <ElementType kType>
void decode_bytes(const std::uint8_t* chunk, float* out) {
  const float* table = byte_decode_table(kType);
  for (int i = 0; i < 16; ++i) out[i] = table[chunk[i]];
}

template <ElementType kType, int kCount>
void decode_nibbles(const std::uint8_t* chunk, float* out) {
  const float* table = byte_decode_table(kType);
  for (int i = 0; i < kCount; ++i) out[i] = table[(chunk[i / 2] >> (4 * (i % 2))) & 0xf];
}

template <ElementType kType>
void decode_six_bits(const std::uint8_t* chunk, float* out) {
  const float* table = byte_decode_table(kType);
  for (int i = 0; i < 16; ++i) out[i] = table[six_bits(chunk, i)];
}

bool is_eight_bit(ElementType type) {
  return element_bits(type) == 8;
}

// Throws if one of the chunks at first ^ 16 * i, i < run, lies outside.
void check_run(SmemView smem, std::uint32_t first, std::uint32_t run) {
  const std::uint32_t begin = first & ~(16 * run - 1);
  if (begin <= smem.size() && smem.size() - begin >= 16 * run) return;
  for (std::uint32_t i = 0; i < run; ++i) chunk_at(smem, first ^ 16 * i);
}

// K-major 16-bit operands whose rows run fastest in the panel: the common case of A.
void gather_transposed16(SmemView smem, const ChunkAddress& address, const OperandShape& shape,
                         std::uint32_t run, const PanelOut& out) {
  const MmaKernels& kernels = mma_kernels();
  const auto transpose =
      shape.type == ElementType::kF16 ? kernels.transpose_f16_runs : kernels.transpose_bf16_runs;
  const auto chunks = static_cast<std::uint32_t>((shape.k + 7) / 8);
  constexpr int kMost = 32;
  std::uint32_t addresses[kMost];
  for (int row = 0; row < shape.rows; row += kMost) {
    const int count = std::min(kMost, shape.rows - row);
    for (std::uint32_t chunk = 0; chunk < chunks; chunk += run) {
      for (int i = 0; i < count; ++i) {
        addresses[i] = address(static_cast<std::uint32_t>(row + i), chunk);
        check_run(smem, addresses[i], run);
      }
      transpose(smem.data(), addresses, count, run, out.data + row + 8 * chunk * out.k_stride, out.k_stride);
    }
  }
}

// Lines of 16-bit elements that run fastest in the panel, too: many runs of chunks at a time.
void widen_lines(SmemView smem, const ChunkAddress& address, ElementType type, int lines,
                 std::uint32_t chunks, std::uint32_t run, float* out, std::int64_t stride) {
  const MmaKernels& kernels = mma_kernels();
  const auto widen = type == ElementType::kF16 ? kernels.widen_f16_runs : kernels.widen_bf16_runs;
  constexpr int kMost = 32;
  std::uint32_t addresses[kMost];
  for (std::uint32_t chunk = 0; chunk < chunks; chunk += run) {
    for (int line = 0; line < lines; line += kMost) {
      const int count = std::min(kMost, lines - line);
      for (int i = 0; i < count; ++i) {
        addresses[i] = address(static_cast<std::uint32_t>(line + i), chunk);
        check_run(smem, addresses[i], run);
      }
      widen(smem.data(), addresses, count, run, out + line * stride + 8 * chunk, stride);
    }
  }
}

// As gather_transposed16 for 8-bit operands, sixteen rows at a time.
void gather_transposed8(SmemView smem, const ChunkAddress& address, const OperandShape& shape,
                        const PanelOut& out) {
  const auto transpose = mma_kernels().transpose_bytes;
  const ChunkDecoder decode = chunk_decoder(shape.type, false);
  std::uint8_t columns[16 * 16];
  for (int row = 0; row < shape.rows; row += 16) {
    for (int chunk = 0; chunk * 16 < shape.k; ++chunk) {
      const std::uint8_t* rows[16];
      for (int i = 0; i < 16; ++i) rows[i] = chunk_at(smem, address(row + i, chunk));
      transpose(rows, columns);
      for (int k = 0; k < 16 && chunk * 16 + k < shape.k; ++k) {
        decode(columns + 16 * k, out.data + row + (chunk * 16 + k) * out.k_stride);
      }
    }
  }
}

void decode_bits(const std::uint8_t* chunk, float* out) {
  for (int i = 0; i < 128; ++i) out[i] = static_cast<float>(chunk[i / 8] >> i % 8 & 1);
}

}  // namespace

ChunkDecoder chunk_decoder(ElementType type, bool packed_fp4) {
  using enum ElementType;
  switch (type) {
    case kF16:
      return mma_kernels().widen_f16_chunk;
    case kBf16:
      return mma_kernels().widen_bf16_chunk;
    case kTf32:
      return decode_tf32;
    case kE4m3:
      return mma_kernels().widen_e4m3;
    case kE5m2:
      return mma_kernels().widen_e5m2;
    case kE2m1:
      return packed_fp4 ? decode_nibbles<kE2m1, 32> : decode_nibbles<kE2m1, 16>;
    case kE3m2:
      return decode_six_bits<kE3m2>;
    case kE2m3:
      return decode_six_bits<kE2m3>;
    case kS8:
      return decode_bytes<kS8>;
    case kU8:
      return decode_bytes<kU8>;
    case kS4:
      return decode_nibbles<kS4, 32>;
    case kU4:
      return decode_nibbles<kU4, 32>;
    case kB1:
      return decode_bits;
    default:
      throw std::invalid_argument("no matrix operand has elements of type " +
                                  std::string(element_name(type)));
  }
}

int elements_per_chunk(ElementType type, bool packed_fp4) {
  const int bits = element_bits(type);
  if (bits >= 8 || bits == 1) return 128 / bits;
  return packed_fp4 ? 32 : 16;
}

void gather_operand(SmemView smem, const SmemDescriptor& descriptor, const OperandShape& shape,
                    const PanelOut& out) {
  const ChunkAddress address(descriptor, shape.major);
  const bool k_major = shape.major == Major::kK;
  const int per_chunk = elements_per_chunk(shape.type, shape.packed_fp4);
  const int lines = k_major ? shape.rows : shape.k;
  const int length = k_major ? shape.k : shape.rows;
  const auto chunks = static_cast<std::uint32_t>((length + per_chunk - 1) / per_chunk);
  const std::uint32_t run = chunks_of_a_run(descriptor, shape.major, chunks);
  if (k_major && is_sixteen_bit(shape.type) && out.row_stride == 1) {
    return gather_transposed16(smem, address, shape, run, out);
  }
  if (k_major && is_eight_bit(shape.type) && out.row_stride == 1 && shape.rows % 16 == 0) {
    return gather_transposed8(smem, address, shape, out);
  }
  const ChunkDecoder decode = chunk_decoder(shape.type, shape.packed_fp4);
  const std::int64_t line_stride = k_major ? out.row_stride : out.k_stride;
  const std::int64_t step = k_major ? out.k_stride : out.row_stride;
  const bool whole = step == 1 && length % per_chunk == 0;
  if (whole && is_sixteen_bit(shape.type)) {
    return widen_lines(smem, address, shape.type, lines, chunks, run, out.data, line_stride);
  }
  for (int line = 0; line < lines; ++line) {
    float* target = out.data + line * line_stride;
    for (std::uint32_t chunk = 0; chunk < chunks; chunk += run) {
      const std::uint32_t first = address(static_cast<std::uint32_t>(line), chunk);
      for (std::uint32_t i = 0; i < run; ++i, target += per_chunk * step) {
        const std::uint8_t* bytes = chunk_at(smem, first ^ 16 * i);
        if (whole) {
          decode(bytes, target);
          continue;
        }
        float values[128];
        decode(bytes, values);
        const int left = length - static_cast<int>(chunk + i) * per_chunk;
        for (int k = 0; k < per_chunk && k < left; ++k) target[k * step] = values[k];
      }
    }
  }
}

bool continues_row(const SmemDescriptor& first, const SmemDescriptor& next, const OperandShape& shape,
                   int number) {
  const int per_chunk = elements_per_chunk(shape.type, shape.packed_fp4);
  if (shape.major != Major::kK || first.swizzle == Swizzle::kNone || shape.k % per_chunk != 0) return false;
  const auto bytes = static_cast<std::uint32_t>(shape.k / per_chunk * 16 * number);
  SmemDescriptor wanted = first;
  wanted.start += bytes;
  return next == wanted &&
         bytes + static_cast<std::uint32_t>(shape.k / per_chunk * 16) <= swizzle_span(first.swizzle);
}

std::uint32_t chunks_of_a_run(const SmemDescriptor& descriptor, Major major, std::uint32_t chunks) {
  // Whatever a line starts with must be a multiple of the block, too. K-major rows of an atom have no leading
  // offset.
  std::uint32_t starts = descriptor.start | descriptor.stride_offset | (descriptor.base_offset & 7u) << 7;
  if (major == Major::kMn) starts |= descriptor.leading_offset;
  std::uint32_t step = swizzle_span(descriptor.swizzle) / 16;
  while (chunks % step != 0 || starts % (16 * step) != 0) step /= 2;
  return step;
}

}  // namespace sglab::emu
