#pragma once

#include "machine/ops/lanes.hpp"
#include "machine/program/builder.hpp"

// What a cvt converts, and its integers: read from registers as 64 bits, and stored.
namespace sglab::emu::SGLAB_ISA {
namespace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

// What a cvt converts: packed into Inst::imm, since sources and destinations may be wider than their types.
struct Kind {
  Type to, from;
  char to_letter, from_letter;
  bool saturate, integral, relu, finite;

  s64 pack() const {
    return static_cast<s64>(to) | static_cast<s64>(from) << 8 | static_cast<s64>(to_letter) << 16 |
           static_cast<s64>(from_letter) << 24 | static_cast<s64>(saturate) << 32 |
           static_cast<s64>(integral) << 33 | static_cast<s64>(relu) << 34 | static_cast<s64>(finite) << 35;
  }
  static Kind unpack(s64 v) {
    return {static_cast<Type>(v & 0xff),
            static_cast<Type>(v >> 8 & 0xff),
            static_cast<char>(v >> 16 & 0xff),
            static_cast<char>(v >> 24 & 0xff),
            (v >> 32 & 1) != 0,
            (v >> 33 & 1) != 0,
            (v >> 34 & 1) != 0,
            (v >> 35 & 1) != 0};
  }
};

template <class R>
void load_typed(const R* a, Type type, s64* v) {
  switch (type) {
    case Type::kU8:
    case Type::kB8:
      return each(v, [=](int l) { return static_cast<s64>(static_cast<u8>(a[l])); });
    case Type::kS8:
      return each(v, [=](int l) { return static_cast<s64>(static_cast<s8>(a[l])); });
    case Type::kU16:
      return each(v, [=](int l) { return static_cast<s64>(static_cast<u16>(a[l])); });
    case Type::kS16:
      return each(v, [=](int l) { return static_cast<s64>(static_cast<s16>(a[l])); });
    case Type::kU32:
      return each(v, [=](int l) { return static_cast<s64>(static_cast<u32>(a[l])); });
    case Type::kS32:
      return each(v, [=](int l) { return static_cast<s64>(static_cast<s32>(a[l])); });
    default:
      return each(v, [=](int l) { return static_cast<s64>(a[l]); });
  }
}

// Integers as 64 bits; u64 keeps its bit pattern.
void load_integers(const Warp& w, const Inst* i, const Kind& k, s64* v) {
  switch (k.from_letter) {
    case 'b':
      return load_typed(in<u8>(w, i->a), k.from, v);
    case 'h':
      return load_typed(in<u16>(w, i->a), k.from, v);
    case 'w':
      return load_typed(in<u32>(w, i->a), k.from, v);
    default:
      return load_typed(in<u64>(w, i->a), k.from, v);
  }
}

// The value is cut to the type, then extended to the register.
template <class T>
void store_typed(Warp& w, const Inst* i, char letter, const s64* v) {
  switch (letter) {
    case 'b':
      return each(out<u8>(w, i->d), [=](int l) { return static_cast<u8>(static_cast<T>(v[l])); });
    case 'h':
      return each(out<u16>(w, i->d), [=](int l) { return static_cast<u16>(static_cast<T>(v[l])); });
    case 'w':
      return each(out<u32>(w, i->d), [=](int l) { return static_cast<u32>(static_cast<T>(v[l])); });
    default:
      return each(out<u64>(w, i->d), [=](int l) { return static_cast<u64>(static_cast<T>(v[l])); });
  }
}

void store_integers(Warp& w, const Inst* i, const Kind& k, const s64* v) {
  switch (k.to) {
    case Type::kU8:
    case Type::kB8:
      return store_typed<u8>(w, i, k.to_letter, v);
    case Type::kS8:
      return store_typed<s8>(w, i, k.to_letter, v);
    case Type::kU16:
    case Type::kB16:
      return store_typed<u16>(w, i, k.to_letter, v);
    case Type::kS16:
      return store_typed<s16>(w, i, k.to_letter, v);
    case Type::kU32:
    case Type::kB32:
      return store_typed<u32>(w, i, k.to_letter, v);
    case Type::kS32:
      return store_typed<s32>(w, i, k.to_letter, v);
    default:
      return store_typed<s64>(w, i, k.to_letter, v);
  }
}

struct Range {
  s64 low;
  u64 high;
};

Range range_of(Type type) {
  const unsigned bits = 8 * type_bytes(type);
  if (is_signed(type)) return {static_cast<s64>(~u64{0} << (bits - 1)), (u64{1} << (bits - 1)) - 1};
  return {0, bits == 64 ? ~u64{0} : (u64{1} << bits) - 1};
}

// Whether the destination has every value of the source, so that .sat could never do anything.
bool contains(Type to, Type from) {
  const Range wide = range_of(to), narrow = range_of(from);
  return wide.low <= narrow.low && wide.high >= narrow.high;
}

}  // namespace
}  // namespace sglab::emu::SGLAB_ISA
