#include "machine/ops/lanes.hpp"
#include "machine/ops/register.hpp"

namespace sglab::emu::SGLAB_ISA {
namespace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
__extension__ using u128 = unsigned __int128;
__extension__ using s128 = __int128;

template <class T>
struct Wider;
template <>
struct Wider<u16> {
  using type = u32;
};
template <>
struct Wider<s16> {
  using type = s32;
};
template <>
struct Wider<u32> {
  using type = u64;
};
template <>
struct Wider<s32> {
  using type = s64;
};
template <>
struct Wider<u64> {
  using type = u128;
};
template <>
struct Wider<s64> {
  using type = s128;
};
template <class T>
using wider = typename Wider<T>::type;

template <class T>
struct Unsigned {
  using type = T;
};
template <>
struct Unsigned<s16> {
  using type = u16;
};
template <>
struct Unsigned<s32> {
  using type = u32;
};
template <>
struct Unsigned<s64> {
  using type = u64;
};
template <class T>
using unsigned_of = typename Unsigned<T>::type;

// Arithmetic wraps: it is done in the unsigned type (16-bit in 32 bits, to avoid promotion to signed int).
template <class T>
constexpr T wrap_add(T a, T b) {
  return static_cast<T>(static_cast<unsigned_of<T>>(a) + static_cast<unsigned_of<T>>(b));
}
template <class T>
constexpr T wrap_sub(T a, T b) {
  return static_cast<T>(static_cast<unsigned_of<T>>(a) - static_cast<unsigned_of<T>>(b));
}
template <class T>
constexpr T low(T a, T b) {
  if constexpr (sizeof(T) == 2)
    return static_cast<T>(static_cast<u32>(a) * static_cast<u32>(b));
  else
    return static_cast<T>(static_cast<unsigned_of<T>>(a) * static_cast<unsigned_of<T>>(b));
}
template <class T>
constexpr T high(T a, T b) {
  return static_cast<T>((static_cast<wider<T>>(a) * static_cast<wider<T>>(b)) >> (8 * sizeof(T)));
}
template <class T>
constexpr wider<T> wide(T a, T b) {
  return static_cast<wider<T>>(a) * static_cast<wider<T>>(b);
}

constexpr s32 saturate(s64 v) {
  return v > 2147483647 ? 2147483647 : v < -2147483648ll ? -2147483648ll : static_cast<s32>(v);
}

// Division by zero gives all ones, and so does its remainder, as the hardware's code does; INT_MIN / -1
// wraps.
template <class T>
constexpr T divide(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if (static_cast<T>(-1) < 0 && b == static_cast<T>(-1)) return wrap_sub<T>(0, a);
  return static_cast<T>(a / b);
}
template <class T>
constexpr T remainder(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if (static_cast<T>(-1) < 0 && b == static_cast<T>(-1)) return 0;
  return static_cast<T>(a % b);
}

// The product of the low 24 bits: its upper or lower 32 of 48 bits.
template <bool Signed, bool High>
constexpr u32 product24(u32 a, u32 b) {
  const s64 x = Signed ? static_cast<s32>(a << 8) >> 8 : static_cast<s64>(a & 0xffffff);
  const s64 y = Signed ? static_cast<s32>(b << 8) >> 8 : static_cast<s64>(b & 0xffffff);
  return static_cast<u32>(High ? x * y >> 16 : x * y);
}

constexpr Effects kAdd = does::computes(Cost::kIntegerAdd);
constexpr Effects kCarried = does::computes(Cost::kIntegerAdd, TaintRule::kCarries);
constexpr Effects kSum = kCarried.yielding(Value::kSum), kDifference = kCarried.yielding(Value::kDifference);
constexpr Effects kMultiply = does::computes(Cost::kMultiply);
constexpr Effects kProductSum = kCarried.costing(Cost::kMultiply).yielding(Value::kProductSum);
constexpr Effects kDivide = does::computes(Cost::kDivide);
constexpr Effects kLogic = does::computes(Cost::kLogic);

template <bool Signed>
void rows24(Table& t) {
  t.alu("mul24.lo.$", "nnn", kMultiply,
        binary<[](u32 a, u32 b) { return product24<Signed, false>(a, b); }, u32, u32>);
  t.alu("mul24.hi.$", "nnn", kMultiply,
        binary<[](u32 a, u32 b) { return product24<Signed, true>(a, b); }, u32, u32>);
  t.alu("mad24.lo.$", "nnnn", kMultiply,
        ternary<[](u32 a, u32 b, u32 c) { return product24<Signed, false>(a, b) + c; }, u32, u32>);
  t.alu("mad24.hi.$", "nnnn", kMultiply,
        ternary<[](u32 a, u32 b, u32 c) { return product24<Signed, true>(a, b) + c; }, u32, u32>);
}

template <class T>
void rows(Table& t) {
  t.alu("add.$", "nnn", kSum, binary<[](T a, T b) { return wrap_add<T>(a, b); }, T, T>);
  t.alu("sub.$", "nnn", kDifference, binary<[](T a, T b) { return wrap_sub<T>(a, b); }, T, T>);
  t.alu("mul.lo.$", "nnn", kCarried.costing(Cost::kMultiply),
        binary<[](T a, T b) { return low<T>(a, b); }, T, T>);
  t.alu("mul.hi.$", "nnn", kMultiply, binary<[](T a, T b) { return high<T>(a, b); }, T, T>);
  t.alu("mad.lo.$", "nnnn", kProductSum,
        ternary<[](T a, T b, T c) { return wrap_add<T>(low<T>(a, b), c); }, T, T>);
  t.alu("mad.hi.$", "nnnn", kMultiply,
        ternary<[](T a, T b, T c) { return wrap_add<T>(high<T>(a, b), c); }, T, T>);
  t.alu("div.$", "nnn", kDivide, binary<[](T a, T b) { return divide<T>(a, b); }, T, T>);
  t.alu("rem.$", "nnn", kDivide, binary<[](T a, T b) { return remainder<T>(a, b); }, T, T>);
  t.alu("min.$", "nnn", kLogic, binary<[](T a, T b) { return a < b ? a : b; }, T, T>);
  t.alu("max.$", "nnn", kLogic, binary<[](T a, T b) { return a < b ? b : a; }, T, T>);
  if constexpr (sizeof(T) < 8) {
    using W = wider<T>;
    t.alu("mul.wide.$", "Nnn", kMultiply, binary<[](T a, T b) { return wide<T>(a, b); }, W, T>);
    t.alu("mad.wide.$", "NnnN", kMultiply,
          ternary<[](T a, T b, W c) { return wrap_add<W>(wide<T>(a, b), c); }, W, T, T, W>);
  }
  if constexpr (static_cast<T>(-1) < 0) {
    t.alu("neg.$", "nn", kCarried.costing(Cost::kAlu).yielding(Value::kNegation),
          unary<[](T a) { return wrap_sub<T>(0, a); }, T, T>);
    t.alu("abs.$", "nn", unary<[](T a) { return a < 0 ? wrap_sub<T>(0, a) : a; }, T, T>);
  }
}

template <bool Max, class T>
constexpr u32 packed_extreme(u32 a, u32 b) {
  const T a0 = static_cast<T>(a), a1 = static_cast<T>(a >> 16), b0 = static_cast<T>(b),
          b1 = static_cast<T>(b >> 16);
  const T low_half = (a0 < b0) == Max ? b0 : a0, high_half = (a1 < b1) == Max ? b1 : a1;
  return static_cast<u16>(low_half) | static_cast<u32>(static_cast<u16>(high_half)) << 16;
}

template <class A, class B>
constexpr u32 dot4(u32 a, u32 b, u32 c) {
  for (int i = 0; i < 32; i += 8)
    c +=
        static_cast<u32>(static_cast<s32>(static_cast<A>(a >> i)) * static_cast<s32>(static_cast<B>(b >> i)));
  return c;
}

template <class A, class B, bool High>
constexpr u32 dot2(u32 a, u32 b, u32 c) {
  const u32 bytes = High ? b >> 16 : b;
  c += static_cast<u32>(static_cast<s32>(static_cast<A>(a)) * static_cast<s32>(static_cast<B>(bytes)));
  return c + static_cast<u32>(static_cast<s32>(static_cast<A>(a >> 16)) *
                              static_cast<s32>(static_cast<B>(bytes >> 8)));
}

template <class A, class A16, class B>
void dot_rows(Table& t) {
  t.alu("dp4a.$", "wwww", kMultiply,
        ternary<[](u32 a, u32 b, u32 c) { return dot4<A, B>(a, b, c); }, u32, u32>);
  t.alu("dp2a.lo.$", "wwww", kMultiply,
        ternary<[](u32 a, u32 b, u32 c) { return dot2<A16, B, false>(a, b, c); }, u32, u32>);
  t.alu("dp2a.hi.$", "wwww", kMultiply,
        ternary<[](u32 a, u32 b, u32 c) { return dot2<A16, B, true>(a, b, c); }, u32, u32>);
}

// add.cc and friends: the carry flag is one bit per lane, in Warp::carry.
template <class T, bool Subtract, bool In, bool Out>
const Inst* carry_add(Warp& w, const Inst* i) {
  T* const d = out<T>(w, i->d);
  const T *const a = in<T>(w, i->a), *const b = in<T>(w, i->b);
  const u32 carry = In ? w.carry : Subtract ? 0xffffffffu : 0;
  u32 next = 0;
  for (int l = 0; l < kLanes; ++l) {
    const T y = Subtract ? static_cast<T>(~b[l]) : b[l];
    const T sum = a[l] + y, total = sum + bit(carry, l);
    next |= static_cast<u32>(sum < y || total < sum) << l;
    d[l] = total;
  }
  if (Out) w.carry = (w.carry & ~w.mask) | (next & w.mask);
  return i + 1;
}

// A product's upper half depends on the signs of its factors, F; the sum and its carry do not.
template <class T, class F, bool High, bool In, bool Out>
const Inst* carry_mad(Warp& w, const Inst* i) {
  T* const d = out<T>(w, i->d);
  const T *const a = in<T>(w, i->a), *const b = in<T>(w, i->b), *const c = in<T>(w, i->c);
  u32 next = 0;
  for (int l = 0; l < kLanes; ++l) {
    const T product =
        High ? static_cast<T>(high<F>(static_cast<F>(a[l]), static_cast<F>(b[l]))) : low<T>(a[l], b[l]);
    const T sum = product + c[l], total = sum + (In ? bit(w.carry, l) : 0);
    next |= static_cast<u32>(sum < product || total < sum) << l;
    d[l] = total;
  }
  if (Out) w.carry = (w.carry & ~w.mask) | (next & w.mask);
  return i + 1;
}

template <class T>
void carry_rows(Table& t) {
  t.alu("add.cc.$", "nnn", kAdd, carry_add<T, false, false, true>);
  t.alu("addc.$", "nnn", kAdd, carry_add<T, false, true, false>);
  t.alu("addc.cc.$", "nnn", kAdd, carry_add<T, false, true, true>);
  t.alu("sub.cc.$", "nnn", kAdd, carry_add<T, true, false, true>);
  t.alu("subc.$", "nnn", kAdd, carry_add<T, true, true, false>);
  t.alu("subc.cc.$", "nnn", kAdd, carry_add<T, true, true, true>);
  t.alu("mad.lo.cc.$", "nnnn", kMultiply, carry_mad<T, T, false, false, true>);
  t.alu("madc.lo.$", "nnnn", kMultiply, carry_mad<T, T, false, true, false>);
  t.alu("madc.lo.cc.$", "nnnn", kMultiply, carry_mad<T, T, false, true, true>);
}

template <class T, class F>
void carry_high_rows(Table& t) {
  t.alu("mad.hi.cc.$", "nnnn", kMultiply, carry_mad<T, F, true, false, true>);
  t.alu("madc.hi.$", "nnnn", kMultiply, carry_mad<T, F, true, true, false>);
  t.alu("madc.hi.cc.$", "nnnn", kMultiply, carry_mad<T, F, true, true, true>);
}

}  // namespace

void register_integer(Table& t) {
  t.family("Integer arithmetic", InstClass::kInteger);
  t.effects(does::computes(Cost::kAlu));
  t.type("u16", 'h', 'w');
  rows<u16>(t);
  t.type("s16", 'h', 'w');
  rows<s16>(t);
  t.type("u32", 'w', 'l');
  rows<u32>(t);
  t.type("s32", 'w', 'l');
  rows<s32>(t);
  t.type("u64", 'l');
  rows<u64>(t);
  t.type("s64", 'l');
  rows<s64>(t);
  t.alu("add.sat.s32", "www", kAdd, binary<[](s32 a, s32 b) { return saturate(s64{a} + b); }, s32, s32>);
  t.alu("sub.sat.s32", "www", kAdd, binary<[](s32 a, s32 b) { return saturate(s64{a} - b); }, s32, s32>);
  t.alu("mad.hi.sat.s32", "wwww", kMultiply,
        ternary<[](s32 a, s32 b, s32 c) { return saturate(s64{high<s32>(a, b)} + c); }, s32, s32>);
  t.alu("min.relu.s32", "www",
        binary<[](s32 a, s32 b) {
          const s32 m = a < b ? a : b;
          return m < 0 ? 0 : m;
        },
               s32, s32>);
  t.alu("max.relu.s32", "www",
        binary<[](s32 a, s32 b) {
          const s32 m = a < b ? b : a;
          return m < 0 ? 0 : m;
        },
               s32, s32>);
  t.alu("add.{u16x2|s16x2}", "www", kAdd,
        binary<[](u32 a, u32 b) { return ((a + b) & 0xffff) | ((a & 0xffff0000) + (b & 0xffff0000)); }, u32,
               u32>);
  t.alu("min.u16x2", "www", binary<[](u32 a, u32 b) { return packed_extreme<false, u16>(a, b); }, u32, u32>);
  t.alu("min.s16x2", "www", binary<[](u32 a, u32 b) { return packed_extreme<false, s16>(a, b); }, u32, u32>);
  t.alu("max.u16x2", "www", binary<[](u32 a, u32 b) { return packed_extreme<true, u16>(a, b); }, u32, u32>);
  t.alu("max.s16x2", "www", binary<[](u32 a, u32 b) { return packed_extreme<true, s16>(a, b); }, u32, u32>);
  t.alu("min.relu.s16x2", "www",
        binary<[](u32 a, u32 b) { return packed_extreme<true, s16>(packed_extreme<false, s16>(a, b), 0); },
               u32, u32>);
  t.alu("max.relu.s16x2", "www",
        binary<[](u32 a, u32 b) { return packed_extreme<true, s16>(packed_extreme<true, s16>(a, b), 0); },
               u32, u32>);
  t.alu("mad24.hi.sat.s32", "wwww", kMultiply,
        ternary<[](u32 a, u32 b, s32 c) {
          return saturate(s64{static_cast<s32>(product24<true, true>(a, b))} + c);
        },
                s32, u32, u32, s32>);
  t.alu("sad.u32", "wwww",
        ternary<[](u32 a, u32 b, u32 c) { return c + (a < b ? b - a : a - b); }, u32, u32>);
  t.alu("sad.s32", "wwww",
        ternary<[](s32 a, s32 b, u32 c) {
          return c + static_cast<u32>(a < b ? wrap_sub(b, a) : wrap_sub(a, b));
        },
                u32, s32, s32, u32>);
  t.type("u32", 'w');
  rows24<false>(t);
  t.type("s32", 'w');
  rows24<true>(t);
  t.type("u32.u32", 'w');
  dot_rows<u8, u16, u8>(t);
  t.type("u32.s32", 'w');
  dot_rows<u8, u16, signed char>(t);
  t.type("s32.u32", 'w');
  dot_rows<signed char, s16, u8>(t);
  t.type("s32.s32", 'w');
  dot_rows<signed char, s16, signed char>(t);
  t.type("{u32|s32}", 'w');
  carry_rows<u32>(t);
  t.type("{u64|s64}", 'l');
  carry_rows<u64>(t);
  t.type("u32", 'w');
  carry_high_rows<u32, u32>(t);
  t.type("s32", 'w');
  carry_high_rows<u32, s32>(t);
  t.type("u64", 'l');
  carry_high_rows<u64, u64>(t);
  t.type("s64", 'l');
  carry_high_rows<u64, s64>(t);
}

}  // namespace sglab::emu::SGLAB_ISA
