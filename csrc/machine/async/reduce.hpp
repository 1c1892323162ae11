#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sglab::emu {

// cp.reduce.async.bulk's operations and element types.
enum class ReduceOp : std::uint8_t { kAdd, kMin, kMax, kInc, kDec, kAnd, kOr, kXor };
enum class ReduceType : std::uint8_t { kU32, kS32, kU64, kS64, kF16, kBf16, kF32, kF64, kB32, kB64 };

std::optional<ReduceOp> parse_reduce_op(std::string_view name);
std::optional<ReduceType> parse_reduce_type(std::string_view name);
int reduce_type_bytes(ReduceType type);
// Whether the PTX ISA has this pair.
bool reduce_is_defined(ReduceOp op, ReduceType type);

// target[i] = op(target[i], source[i]). f16 and bf16 sums round to nearest even; float min and max prefer
// numbers to NaN. With ftz, f32 sums flush subnormal inputs and results.
void reduce_elements(ReduceOp op, ReduceType type, std::uint8_t* target, const std::uint8_t* source,
                     std::size_t count, bool ftz = false);

}  // namespace sglab::emu
