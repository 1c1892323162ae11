#include "observe/sanitize/races/stored.hpp"

#include <cstring>

#include "machine/ops/operands.hpp"
#include "machine/tensor/matrix_move.hpp"

namespace sglab::emu::races {
namespace {

std::uint32_t register_bytes(char letter) {
  return letter == 'b' ? 1 : letter == 'h' ? 2 : letter == 'w' ? 4 : letter == 'l' ? 8 : 16;
}

// Element `column` of the row of an 8x8 matrix of halves that a lane gives the address of.
std::uint32_t row_element(const Warp& w, const Inst* inst, bool transposed, std::uint32_t lane,
                          std::uint32_t column) {
  const std::uint32_t row = lane % 8;
  const std::uint32_t* const values = lanes32(w, inst->extra->refs[lane / 8]);
  const std::uint32_t holder = transposed ? 4 * column + row / 2 : 4 * row + column / 2;
  return values[holder] >> (16 * ((transposed ? row : column) % 2)) & 0xffffu;
}

bool rows_alike(const Warp& w, const Inst* inst, std::uint32_t lane, std::uint32_t other) {
  const auto& move = payload<MatrixMove>(inst);
  if (move.shape != MatrixShape::k8x8B16) return false;
  for (std::uint32_t column = 0; column < 8; ++column) {
    if (row_element(w, inst, move.transposed, lane, column) !=
        row_element(w, inst, move.transposed, other, column))
      return false;
  }
  return true;
}

}  // namespace

bool stores_alike(const Warp& w, const Inst* inst, std::uint32_t lane, std::uint32_t other) {
  const Effects& effects = w.program->effects[static_cast<std::size_t>(inst - w.code)];
  if (effects.reads || !effects.writes) return false;
  if (effects.act == Act::kMatrixRows) return rows_alike(w, inst, lane, other);
  if (effects.act != Act::kAccess) return false;
  // Inst::target as ops/memory.cpp packs it.
  const std::uint32_t bytes = 1u << (inst->target >> 4 & 0xf), count = inst->target >> 12 & 0xf;
  const std::uint32_t pitch = register_bytes(static_cast<char>(inst->target >> 16));
  for (std::uint32_t element = 0; element < count; ++element) {
    const Ref ref = count == 1 ? inst->d : inst->extra->refs[element];
    const std::uint8_t* const values = w.bank[ref >> 31] + (ref & ~kConstantRef);
    if (std::memcmp(values + lane * pitch, values + other * pitch, bytes) != 0) return false;
  }
  return true;
}

}  // namespace sglab::emu::races
