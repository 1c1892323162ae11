#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "machine/tensor/element.hpp"

namespace sglab::emu {

struct Cluster;

// What a register's bits are read as. kMoved: what the memory held that they came from.
// kE4m3, kE5m2: bytes, as many as it has.
enum class FloatKind : std::uint8_t { kNone, kF16, kBf16, kF32, kF64, kF16x2, kBf16x2, kE4m3, kE5m2, kMoved };

// The kind of that name, as Python writes it; kNone: there is none.
FloatKind float_kind(std::string_view name);

// Whether a value is NaN, or infinite where that counts, too; of packed ones any.
bool is_nan(FloatKind, std::uint64_t bits, bool infinite);
bool is_nan(ElementType, const std::uint8_t* at, bool infinite);

// What a register of so many bytes holds of such elements, and the other way round.
FloatKind in_register(FloatKind element, std::uint32_t bytes);
FloatKind element_of(FloatKind kind);

// What memory holds: a tensor says so itself, shared memory what was put there last.
class FloatTypes {
 public:
  struct Tensor {
    std::uint64_t begin, bytes;
    FloatKind element;  // kNone: no floats
  };
  explicit FloatTypes(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {}

  const Tensor* tensor_at(std::uint64_t address) const;
  FloatKind global(std::uint64_t address) const;
  // Shared addresses carry the CTA's rank.
  FloatKind shared(const Cluster&, std::uint64_t address) const;
  void put(const Cluster&, std::uint64_t address, std::uint32_t bytes, FloatKind element);
  void forget() { shared_.clear(); }

 private:
  std::vector<Tensor> tensors_;
  std::unordered_map<std::uint64_t, std::vector<FloatKind>> shared_;  // by cluster and rank, of each 2 bytes
};

}  // namespace sglab::emu
