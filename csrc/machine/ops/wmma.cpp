// wmma.load, wmma.store, wmma.mma: fragments whose layout PTX leaves open. Here lane l has the elements l E
// to l E + E - 1 of the matrix in row-major order, E of them; registers beyond those hold them once more.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "machine/memory/access.hpp"
#include "machine/ops/operands.hpp"
#include "machine/ops/tensor_families.hpp"
#include "machine/ops/wmma_operands.hpp"
#include "machine/tensor/element.hpp"
#include "machine/tensor/mma_kernel.hpp"

namespace sglab::emu {
namespace {

struct Shape {
  int m, n, k;
};

struct MultiplyOperands {
  Shape shape;
  Fragment a, b, c, d;
  bool saturate = false;
};

// Where element `index` of the registers [first, first + registers) lies; 32- or 64-bit registers.
std::uint8_t* place(const Warp& w, const Inst* i, const Fragment& f, int lane, unsigned at) {
  const unsigned width = f.bytes == 8 ? 8 : 4;
  const Ref ref = i->extra->refs[f.first + at / width];
  return w.bank[ref >> 31] + (ref & ~kConstantRef) + static_cast<unsigned>(lane) * width + at % width;
}

void copy(std::uint8_t* to, const std::uint8_t* from, int bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

void repeat(const Warp& w, const Inst* i, const Fragment& f) {
  const auto own = static_cast<unsigned>(f.per_lane() * f.bytes);
  const unsigned all = f.registers * (f.bytes == 8 ? 8 : 4);
  for (int lane = 0; lane < 32; ++lane) {
    for (unsigned at = own; at < all; ++at) *place(w, i, f, lane, at) = *place(w, i, f, lane, at - own);
  }
}

void find(Warp& w, const Inst* i, const MoveOperands& move, int slot, Places& places) {
  const Fragment& f = move.fragment;
  std::uint64_t base[32], addresses[32];
  lane_addresses(w, i, base);
  tile_addresses(move, base[0], tile_stride(w, i, move), slot, addresses);
  const auto bytes = static_cast<unsigned>(f.bytes);
  const auto places_of = move.space == Space::kGlobal   ? global_places
                         : move.space == Space::kShared ? shared_places
                                                        : generic_places;
  places_of(w, i, addresses, w.mask, bytes, bytes, places);
}

template <bool Store>
const Inst* move(Warp& w, const Inst* i) {
  if (!gather_warp(w, i)) return block_for_lanes(w, i, 0xffffffffu);
  const auto& operands = payload<MoveOperands>(i);
  const Fragment& f = operands.fragment;
  for (int slot = 0; slot < f.per_lane(); ++slot) {
    Places places;
    find(w, i, operands, slot, places);
    for (int lane = 0; lane < 32; ++lane) {
      if ((w.mask >> lane & 1u) == 0) continue;  // lanes that do not exist have no checked place
      std::uint8_t* const own = place(w, i, f, lane, static_cast<unsigned>(slot * f.bytes));
      if (Store) {
        copy(places.at[lane], own, f.bytes);
      } else {
        copy(own, places.at[lane], f.bytes);
      }
    }
  }
  if (!Store) repeat(w, i, f);
  return i + 1;
}

// The matrix, row-major, as f(raw bits) makes its elements.
template <class T, class F>
std::vector<T> dense(const Warp& w, const Inst* i, const Fragment& f, F decode) {
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(f.rows * f.columns));
  for (int lane = 0; lane < 32; ++lane) {
    for (int slot = 0; slot < f.per_lane(); ++slot) {
      std::uint64_t raw = 0;
      std::memcpy(&raw, place(w, i, f, lane, static_cast<unsigned>(slot * f.bytes)),
                  static_cast<std::size_t>(f.bytes));
      values.push_back(decode(raw));
    }
  }
  return values;
}

template <class T, class F>
void spread(const Warp& w, const Inst* i, const Fragment& f, const std::vector<T>& values, F encode) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int slot = 0; slot < f.per_lane(); ++slot) {
      const std::uint64_t raw = encode(values[static_cast<std::size_t>(lane * f.per_lane() + slot)]);
      std::memcpy(place(w, i, f, lane, static_cast<unsigned>(slot * f.bytes)), &raw,
                  static_cast<std::size_t>(f.bytes));
    }
  }
  repeat(w, i, f);
}

std::vector<float> transposed(const std::vector<float>& matrix, int rows, int columns) {
  std::vector<float> other(matrix.size());
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c)
      other[static_cast<std::size_t>(c * rows + r)] = matrix[static_cast<std::size_t>(r * columns + c)];
  }
  return other;
}

void multiply_floats(Warp& w, const Inst* i, const MultiplyOperands& op) {
  const auto decoder = [](ElementType type) {
    return [type](std::uint64_t raw) { return decode_element(type, static_cast<std::uint32_t>(raw)); };
  };
  const auto [m, n, k] = op.shape;
  std::vector<float> a = dense<float>(w, i, op.a, decoder(op.a.type));
  std::vector<float> b = dense<float>(w, i, op.b, decoder(op.b.type));
  std::vector<float> d = dense<float>(w, i, op.c, decoder(op.c.type));
  // A panel has sixteen rows or more: of eight-row shapes the transposed product is computed.
  if (m >= 16) {
    a = transposed(a, m, k);
    b = transposed(b, k, n);
    d = transposed(d, m, n);
    mma_kernels().multiply({a.data(), m, b.data(), k, 1, d.data(), m, m, n, k, true});
    d = transposed(d, n, m);
  } else {
    mma_kernels().multiply({b.data(), n, a.data(), k, 1, d.data(), n, n, m, k, true});
  }
  spread(w, i, op.d, d, [&](float v) { return encode_element(op.d.type, v, op.saturate); });
}

void multiply_doubles(Warp& w, const Inst* i, const MultiplyOperands& op) {
  const auto as_double = [](std::uint64_t raw) {
    double value;
    std::memcpy(&value, &raw, sizeof value);
    return value;
  };
  const auto a = dense<double>(w, i, op.a, as_double), b = dense<double>(w, i, op.b, as_double);
  auto d = dense<double>(w, i, op.c, as_double);
  const auto [m, n, k] = op.shape;
  for (int r = 0; r < m; ++r) {
    for (int c = 0; c < n; ++c) {
      double& sum = d[static_cast<std::size_t>(r * n + c)];
      for (int at = 0; at < k; ++at) {
        sum = mma_kernels().fused_f64(a[static_cast<std::size_t>(r * k + at)],
                                      b[static_cast<std::size_t>(at * n + c)], sum);
      }
    }
  }
  spread(w, i, op.d, d, [](double v) {
    std::uint64_t raw;
    std::memcpy(&raw, &v, sizeof raw);
    return raw;
  });
}

void multiply_integers(Warp& w, const Inst* i, const MultiplyOperands& op) {
  const auto decoder = [](ElementType type) {
    return [type](std::uint64_t raw) {
      if (type == ElementType::kS8) return std::int64_t{static_cast<std::int8_t>(raw)};
      if (type == ElementType::kU8) return std::int64_t{static_cast<std::uint8_t>(raw)};
      return std::int64_t{static_cast<std::int32_t>(raw)};
    };
  };
  const auto a = dense<std::int64_t>(w, i, op.a, decoder(op.a.type));
  const auto b = dense<std::int64_t>(w, i, op.b, decoder(op.b.type));
  auto d = dense<std::int64_t>(w, i, op.c, decoder(ElementType::kS32));
  const auto [m, n, k] = op.shape;
  for (int r = 0; r < m; ++r) {
    for (int c = 0; c < n; ++c) {
      std::int64_t& sum = d[static_cast<std::size_t>(r * n + c)];
      for (int at = 0; at < k; ++at)
        sum += a[static_cast<std::size_t>(r * k + at)] * b[static_cast<std::size_t>(at * n + c)];
    }
  }
  spread(w, i, op.d, d, [&](std::int64_t v) {
    if (op.saturate) v = std::clamp<std::int64_t>(v, INT32_MIN, INT32_MAX);
    return static_cast<std::uint64_t>(v);
  });
}

const Inst* multiply(Warp& w, const Inst* i) {
  if (!gather_warp(w, i)) return block_for_lanes(w, i, 0xffffffffu);
  const auto& op = payload<MultiplyOperands>(i);
  switch (op.d.type) {
    case ElementType::kF64:
      multiply_doubles(w, i, op);
      break;
    case ElementType::kS32:
      multiply_integers(w, i, op);
      break;
    default:
      multiply_floats(w, i, op);
  }
  return i + 1;
}

Shape shape_of(const Builder& b) {
  for (const std::string_view part : b.form.parts) {
    const std::size_t n = part.find('n'), k = part.find('k');
    if (part[0] != 'm' || n == std::string_view::npos || k == std::string_view::npos || k < n) continue;
    const auto number = [&](std::size_t from, std::size_t to) {
      return std::stoi(std::string(part.substr(from, to - from)));
    };
    return {number(1, n), number(n + 1, k), number(k + 1, part.size())};
  }
  b.refuse("expected a shape");
}

Fragment fragment(const Builder& b, char which, const Shape& shape, std::string_view type) {
  Fragment f;
  f.rows = which == 'b' ? shape.k : shape.m;
  f.columns = which == 'a' ? shape.k : shape.n;
  for (int t = 0;; ++t) {
    if (t > static_cast<int>(ElementType::kS32)) b.refuse("unknown element type " + std::string(type));
    f.type = static_cast<ElementType>(t);
    if (element_name(f.type) == type) break;
  }
  f.bytes = f.type == ElementType::kF64 ? 8 : 4;
  if (f.type == ElementType::kF16 || f.type == ElementType::kBf16) f.bytes = 2;
  if (f.type == ElementType::kS8 || f.type == ElementType::kU8) f.bytes = 1;
  return f;
}

char letter(const Fragment& f) {
  return f.bytes == 8 ? 'l' : 'w';
}

void check_registers(const Builder& b, const Fragment& f) {
  const int least = std::max(1, f.per_lane() * f.bytes / (f.bytes == 8 ? 8 : 4));
  if (static_cast<int>(f.registers) < least)
    b.refuse("expected at least " + std::to_string(least) + " registers");
}

template <bool Store>
void build_move(Builder& b) {
  b.expect_count(2, 3);
  MoveOperands operands;
  const char which = Store ? 'c' : b.has("a") ? 'a' : b.has("b") ? 'b' : 'c';
  Fragment& f = operands.fragment;
  f = fragment(b, which, shape_of(b), b.form.parts.back());
  f.first = static_cast<unsigned>(b.extra().refs.size());
  const Operand& vector = b.operand(Store ? 1 : 0);
  f.registers = Store ? b.use_vector(vector, letter(f)) : b.def_vector(vector, letter(f));
  check_registers(b, f);
  const Space named = b.address(b.operand(Store ? 0 : 1));
  operands.space = b.has("global")                           ? Space::kGlobal
                   : b.has("shared") || b.has("shared::cta") ? Space::kShared
                                                             : named;
  operands.by_rows = b.has("row");
  operands.strided = b.count() == 3;
  operands.stride = static_cast<std::uint32_t>(b.extra().refs.size());
  if (operands.strided) b.use_extra(b.operand(2), 'w');
  b.extra().payload = operands;
}

void build_multiply(Builder& b) {
  b.expect_count(4, 4);
  MultiplyOperands op;
  op.shape = shape_of(b);
  op.saturate = b.has("satfinite");
  std::vector<std::string_view> types;
  for (const std::string_view part : b.form.parts) {
    for (int t = 0; t <= static_cast<int>(ElementType::kS32); ++t) {
      if (element_name(static_cast<ElementType>(t)) == part) types.push_back(part);
    }
  }
  // .dtype.ctype of f16 operands, .dtype.atype.btype.ctype of others
  const bool halves = types.size() == 2;
  op.d = fragment(b, 'd', op.shape, types.front());
  op.c = fragment(b, 'c', op.shape, types.back());
  op.a = fragment(b, 'a', op.shape, halves ? "f16" : types[1]);
  op.b = fragment(b, 'b', op.shape, halves ? "f16" : types[2]);
  unsigned operand = 0;
  for (Fragment* const f : {&op.d, &op.a, &op.b, &op.c}) {
    f->first = static_cast<unsigned>(b.extra().refs.size());
    const Operand& vector = b.operand(operand);
    f->registers = operand++ == 0 ? b.def_vector(vector, letter(*f)) : b.use_vector(vector, letter(*f));
    check_registers(b, *f);
  }
  b.extra().payload = op;
}

}  // namespace

void register_wmma(Table& t) {
  t.family("Warp matrices: wmma", InstClass::kMatrix);
  constexpr Effects kLoads = does::moves_tile(true), kStores = does::moves_tile(false);
  constexpr Effects kMultiplies = does::computes(Cost::kHalf, TaintRule::kControl);
#define SGLAB_HALVES "{m16n16k16|m32n8k16|m8n32k16}"
#define SGLAB_SPACE "[.global|.shared|.shared::cta]"
  t.row("wmma.load.{a|b}.sync.aligned.{row|col}." SGLAB_HALVES SGLAB_SPACE ".{f16|bf16|s8|u8}", kLoads,
        build_move<false>, move<false>);
  t.row("wmma.load.{a|b}.sync.aligned.{row|col}.m16n16k8" SGLAB_SPACE ".tf32", kLoads, build_move<false>,
        move<false>);
  t.row("wmma.load.{a|b|c}.sync.aligned.{row|col}.m8n8k4" SGLAB_SPACE ".f64", kLoads, build_move<false>,
        move<false>);
  t.row("wmma.load.c.sync.aligned.{row|col}.{m16n16k16|m32n8k16|m8n32k16|m16n16k8}" SGLAB_SPACE
        ".{f16|f32|s32}",
        kLoads, build_move<false>, move<false>);
  t.row("wmma.store.d.sync.aligned.{row|col}.{m16n16k16|m32n8k16|m8n32k16|m16n16k8}" SGLAB_SPACE
        ".{f16|f32|s32}",
        kStores, build_move<true>, move<true>);
  t.row("wmma.store.d.sync.aligned.{row|col}.m8n8k4" SGLAB_SPACE ".f64", kStores, build_move<true>,
        move<true>);
  t.row("wmma.mma.sync.aligned.{row|col}.{row|col}." SGLAB_HALVES ".{f16|f32}.{f16|f32}[.satfinite]",
        kMultiplies, build_multiply, multiply);
  t.row("wmma.mma.sync.aligned.{row|col}.{row|col}." SGLAB_HALVES ".f32.bf16.bf16.f32", kMultiplies,
        build_multiply, multiply);
  t.row("wmma.mma.sync.aligned.{row|col}.{row|col}.m16n16k8.f32.tf32.tf32.f32", kMultiplies, build_multiply,
        multiply);
  t.row("wmma.mma.sync.aligned.{row|col}.{row|col}." SGLAB_HALVES ".s32.{s8|u8}.{s8|u8}.s32[.satfinite]",
        kMultiplies, build_multiply, multiply);
  t.row("wmma.mma.sync.aligned.{row|col}.{row|col}.m8n8k4[.rn].f64.f64.f64.f64[.rn]", kMultiplies,
        build_multiply, multiply);
#undef SGLAB_HALVES
#undef SGLAB_SPACE
}

}  // namespace sglab::emu
