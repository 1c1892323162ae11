// Driver functions that host programs ask the runtime for by name: tensor maps.
#include <algorithm>
#include <cstring>

#include "machine/async/tensor_map.hpp"
#include "runtime/state.hpp"

using namespace sglab::runtime;

namespace {

constexpr int kDriverInvalidValue = 1;  // CUDA_ERROR_INVALID_VALUE
constexpr int kEntryPointFound = 0, kEntryPointMissing = 1;

// cuTensorMapEncodeTiled
int encode_tiled(void* target, int type, std::uint32_t rank, void* address, const std::uint64_t* sizes,
                 const std::uint64_t* strides, const std::uint32_t* box, const std::uint32_t* element_strides,
                 int interleave, int swizzle, int l2_promotion, int oob_fill) {
  using namespace sglab::emu;
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
    map.box_dim[i] = static_cast<std::uint16_t>(std::min(box[i], 0xffffu));
    map.element_stride[i] = static_cast<std::uint8_t>(std::min(element_strides[i], 0xffu));
  }
  try {
    const TensorMapBytes bytes = encode_tensor_map(map);
    std::memcpy(target, &bytes, sizeof(bytes));
  } catch (const TensorMapError& error) {
    fail(kInvalidValue, error.what());
    return kDriverInvalidValue;
  }
  return 0;
}

Status entry_point(const char* symbol, void** function, int* result) {
  const bool found = std::strcmp(symbol, "cuTensorMapEncodeTiled") == 0;
  *function = found ? reinterpret_cast<void*>(&encode_tiled) : nullptr;
  if (result != nullptr) *result = found ? kEntryPointFound : kEntryPointMissing;
  return found ? kSuccess
               : fail(kSymbolNotFound, std::string("the driver function ") + symbol + " is not provided");
}

}  // namespace

SGLAB_CUDA_API Status cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long,
                                              int* result) {
  return entry_point(symbol, function, result);
}

SGLAB_CUDA_API Status cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                                       unsigned long long, int* result) {
  return entry_point(symbol, function, result);
}
