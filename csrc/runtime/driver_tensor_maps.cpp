// Tensor maps, as the driver encodes them; and how the runtime hands out the driver's functions.
#include <algorithm>
#include <cstring>

#include "machine/async/tensor_map.hpp"
#include "runtime/driver.hpp"

using namespace sglab::runtime;

namespace {

using namespace sglab::emu;

constexpr int kEntryPointFound = 0, kEntryPointMissing = 1;

// What tiled and im2col maps share.
TensorMap common(int type, std::uint32_t rank, void* address, const std::uint64_t* sizes,
                 const std::uint64_t* strides, const std::uint32_t* element_strides, int interleave,
                 int swizzle, int l2_promotion, int oob_fill) {
  TensorMap map;
  map.global_address = reinterpret_cast<std::uint64_t>(address);
  map.type = static_cast<TensorMapType>(type);
  map.rank = static_cast<std::uint8_t>(std::min(rank, 0xffu));
  map.interleave = static_cast<Interleave>(interleave);
  map.swizzle = static_cast<Swizzle>(swizzle);
  map.l2_promotion = static_cast<std::uint8_t>(l2_promotion);
  map.nan_fill = oob_fill == 1;
  for (std::uint32_t i = 0; i < rank && i < TensorMap::kMaxRank; ++i) {
    map.global_dim[i] = sizes[i];
    if (i > 0) map.global_stride[i] = strides[i - 1];
    map.element_stride[i] = static_cast<std::uint8_t>(std::min(element_strides[i], 0xffu));
  }
  return map;
}

Status encode(void* target, const TensorMap& map) {
  try {
    const TensorMapBytes bytes = encode_tensor_map(map);
    std::memcpy(target, &bytes, sizeof(bytes));
  } catch (const TensorMapError& error) {
    return fail(kInvalidValue, error.what());
  }
  return kSuccess;
}

Status entry_point(const char* symbol, void** function, int* result) {
  *function = driver_function(symbol);
  if (result != nullptr) *result = *function == nullptr ? kEntryPointMissing : kEntryPointFound;
  return *function != nullptr
             ? kSuccess
             : fail(kSymbolNotFound, std::string("the driver function ") + symbol + " is not provided");
}

}  // namespace

SGLAB_CUDA_API Status cuTensorMapEncodeTiled(void* target, int type, std::uint32_t rank, void* address,
                                             const std::uint64_t* sizes, const std::uint64_t* strides,
                                             const std::uint32_t* box, const std::uint32_t* element_strides,
                                             int interleave, int swizzle, int l2_promotion, int oob_fill) {
  TensorMap map = common(type, rank, address, sizes, strides, element_strides, interleave, swizzle,
                         l2_promotion, oob_fill);
  for (std::uint32_t i = 0; i < rank && i < TensorMap::kMaxRank; ++i)
    map.box_dim[i] = static_cast<std::uint16_t>(std::min(box[i], 0xffffu));
  return encode(target, map);
}

SGLAB_CUDA_API Status cuTensorMapEncodeIm2col(void* target, int type, std::uint32_t rank, void* address,
                                              const std::uint64_t* sizes, const std::uint64_t* strides,
                                              const int* lower, const int* upper, std::uint32_t channels,
                                              std::uint32_t pixels, const std::uint32_t* element_strides,
                                              int interleave, int swizzle, int l2_promotion, int oob_fill) {
  TensorMap map = common(type, rank, address, sizes, strides, element_strides, interleave, swizzle,
                         l2_promotion, oob_fill);
  map.im2col = true;
  for (std::uint32_t i = 0; i + 2 < rank && i + 2 < TensorMap::kMaxRank; ++i) {
    map.lower_corner[i] = static_cast<std::int16_t>(lower[i]);
    map.upper_corner[i] = static_cast<std::int16_t>(upper[i]);
  }
  map.channels_per_pixel = static_cast<std::uint16_t>(std::min(channels, 0xffffu));
  map.pixels_per_column = static_cast<std::uint16_t>(std::min(pixels, 0xffffu));
  return encode(target, map);
}

SGLAB_CUDA_API Status cuTensorMapEncodeIm2colWide(void* target, int type, std::uint32_t rank, void* address,
                                                  const std::uint64_t* sizes, const std::uint64_t* strides,
                                                  int lower, int upper, std::uint32_t channels,
                                                  std::uint32_t pixels, const std::uint32_t* element_strides,
                                                  int interleave, int mode, int swizzle, int l2_promotion,
                                                  int oob_fill) {
  TensorMap map = common(type, rank, address, sizes, strides, element_strides, interleave, swizzle,
                         l2_promotion, oob_fill);
  const auto corner = [](int value) { return value == static_cast<std::int16_t>(value); };
  if (mode < 0 || mode > 1) return fail(kInvalidValue, "tensor map: mode must be 0 or 1");
  if (!corner(lower) || !corner(upper))
    return fail(kInvalidValue, "tensor map: a corner of the pixels' box must be -32768 to 32767");
  map.im2col = true;
  map.wide = mode == 0 ? Im2colWide::kW : Im2colWide::kW128;
  map.lower_corner[0] = static_cast<std::int16_t>(lower);
  map.upper_corner[0] = static_cast<std::int16_t>(upper);
  map.channels_per_pixel = static_cast<std::uint16_t>(std::min(channels, 0xffffu));
  map.pixels_per_column = static_cast<std::uint16_t>(std::min(pixels, 0xffffu));
  return encode(target, map);
}

SGLAB_CUDA_API Status cuTensorMapReplaceAddress(void* target, void* address) {
  TensorMapBytes bytes;
  std::memcpy(&bytes, target, sizeof(bytes));
  try {
    TensorMap map = decode_tensor_map(bytes);
    map.global_address = reinterpret_cast<std::uint64_t>(address);
    return encode(target, map);
  } catch (const TensorMapError& error) {
    return fail(kInvalidValue, error.what());
  }
}

SGLAB_CUDA_API Status cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long,
                                              int* result) {
  return entry_point(symbol, function, result);
}

SGLAB_CUDA_API Status cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                                       unsigned long long, int* result) {
  return entry_point(symbol, function, result);
}
