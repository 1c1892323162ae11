#include "isa/extra.hpp"
#include "machine/engine/launch.hpp"
#include "machine/memory/access.hpp"
#include "machine/ops/lanes.hpp"
#include "machine/ops/register.hpp"
#include "machine/program/builder.hpp"

// ld and st. An instruction first finds each lane's bytes, then moves elements between them and registers.
namespace sglab::emu::SGLAB_ISA {
namespace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
struct alignas(16) u128 {
  u64 low, high;
};

// Inst::target of a load or store.
struct Kind {
  u32 bits;
  static Kind pack(Space space, unsigned log_bytes, bool is_signed, char letter, unsigned count) {
    return {static_cast<u32>(space) | log_bytes << 4 | (is_signed ? 1u : 0u) << 8 | count << 12 |
            static_cast<u32>(letter) << 16};
  }
  Space space() const { return static_cast<Space>(bits & 0xf); }
  unsigned bytes() const { return 1u << (bits >> 4 & 0xf); }
  bool is_signed() const { return bits >> 8 & 1; }
  unsigned count() const { return bits >> 12 & 0xf; }
  char letter() const { return static_cast<char>(bits >> 16); }
};

// How the lanes' bytes lie; other than scattered where all lanes are active.
enum class Shape : u8 {
  kScattered,
  kPacked,  // one right after the other
  kSame,    // the same bytes for all
};

// What the lanes' addresses have in common, seen together.
struct Spread {
  u64 low, high;  // of the active lanes
  u64 any;        // or of all active addresses: misalignment shows in it
  Shape shape;
};

Spread spread_of(const u64* addresses, u32 lanes, unsigned bytes) {
  alignas(64) u64 a[kLanes];
  const u64 fill = addresses[__builtin_ctz(lanes)];
  each(a, [=](int l) { return bit(lanes, l) ? addresses[l] : fill; });
  Spread s{fill, fill, 0, Shape::kScattered};
  u64 off = 0;
  for (int l = 0; l < kLanes; ++l) {
    s.low = a[l] < s.low ? a[l] : s.low;
    s.high = a[l] < s.high ? s.high : a[l];
    s.any |= a[l];
    off |= a[l] ^ (fill + static_cast<u64>(l) * bytes);
  }
  if (lanes == 0xffffffffu) {
    if (off == 0)
      s.shape = Shape::kPacked;
    else if (s.low == s.high)
      s.shape = Shape::kSame;
  }
  return s;
}

void addresses_of(const Warp& w, const Inst* i, u64* addresses) {
  const u64 offset = static_cast<u64>(i->imm);
  switch (static_cast<AddressMode>(i->mode)) {
    case AddressMode::kReg64: {
      const u64* const a = in<u64>(w, i->a);
      return each(addresses, [=](int l) { return a[l] + offset; });
    }
    case AddressMode::kReg32: {
      const u32 *const a = in<u32>(w, i->a), low = static_cast<u32>(offset);
      return each(addresses, [=](int l) { return static_cast<u64>(a[l] + low); });
    }
    default:
      return lane_addresses(w, i, addresses);
  }
}

// Fills `places`.
Shape find_places(Warp& w, const Inst* i, const Kind& k, Places& places) {
  alignas(64) u64 addresses[kLanes];
  addresses_of(w, i, addresses);
  const unsigned bytes = k.bytes() * k.count();
  const Spread s = spread_of(addresses, w.mask, bytes);
  const bool aligned = (s.any & (bytes - 1)) == 0;
  const auto host = [&](u64 base) {
    each(reinterpret_cast<u64*>(places.at), [=](int l) { return addresses[l] + base; });
    return s.shape;
  };
  const Space space = k.space();
  if (aligned && (space == Space::kGlobal || space == Space::kGeneric || space == Space::kConst)) {
    const bool inside = s.high < w.allocation_end && s.high + bytes <= w.allocation_end;
    if (inside && s.low >= w.allocation_begin) return host(0);
  }
  if (aligned && space == Space::kShared && s.low >= w.shared_begin && s.high < w.shared_end &&
      s.high + bytes <= w.shared_end) {
    return host(w.shared_base);
  }
  switch (space) {
    case Space::kGlobal:
    case Space::kConst:
      global_places(w, i, addresses, w.mask, bytes, bytes, places);
      break;
    case Space::kShared:
      shared_places(w, i, addresses, w.mask, bytes, bytes, places);
      break;
    case Space::kLocal:
      local_places(w, i, addresses, w.mask, bytes, bytes, places);
      return Shape::kScattered;
    case Space::kParam:
      param_places(w, i, addresses, w.mask, bytes, bytes, places);
      return Shape::kScattered;
    default:
      generic_places(w, i, addresses, w.mask, bytes, bytes, places);
      return Shape::kScattered;
  }
  return s.shape;
}

// The two shapes that most accesses of whole warps have, told by fewer steps: sets the first lane's place
// alone. Anything else, misaligned and out of bounds too, is kScattered.
template <bool Store, class A>
Shape whole_warp(const Warp& w, const A* a, const Inst* i, const Kind& k, Places& places) {
  const A first = a[0], bytes = static_cast<A>(k.bytes());
  A same = 0, packed = 0;
  for (int l = 0; l < kLanes; ++l) {
    same |= a[l] ^ first;
    packed |= a[l] ^ static_cast<A>(first + static_cast<A>(l) * bytes);
  }
  const Shape shape = packed == 0 ? Shape::kPacked : !Store && same == 0 ? Shape::kSame : Shape::kScattered;
  const u64 address = static_cast<A>(first + static_cast<A>(i->imm));
  if (shape == Shape::kScattered || (address & (bytes - 1u)) != 0) return Shape::kScattered;
  const u64 end = address + (shape == Shape::kPacked ? kLanes * u64{bytes} : u64{bytes});
  if (k.space() == Space::kShared) {
    if (address < w.shared_begin || end > w.shared_end) return Shape::kScattered;
    places.at[0] = reinterpret_cast<u8*>(address + w.shared_base);
    return shape;
  }
  if (k.space() != Space::kGlobal && k.space() != Space::kGeneric) return Shape::kScattered;
  if (address < w.allocation_begin || end > w.allocation_end || end < address) return Shape::kScattered;
  places.at[0] = reinterpret_cast<u8*>(address);
  return shape;
}

template <bool Store>
Shape quick_places(const Warp& w, const Inst* i, const Kind& k, Places& places) {
  if (w.mask != 0xffffffffu) return Shape::kScattered;
  switch (static_cast<AddressMode>(i->mode)) {
    case AddressMode::kReg64:
      return whole_warp<Store>(w, in<u64>(w, i->a), i, k, places);
    case AddressMode::kReg32:
      return whole_warp<Store>(w, in<u32>(w, i->a), i, k, places);
    default:
      return Shape::kScattered;
  }
}

// One address for all lanes, known when the program was decoded: kernel parameters, mostly.
template <class M, class R>
const Inst* broadcast_parameter(Warp& w, const Inst* i) {
  M value;
  std::memcpy(&value, w.parameters + i->imm, sizeof value);
  each(out<R>(w, i->d), [=](int) { return static_cast<R>(value); });
  return i + 1;
}

template <class M, class R>
void load_element(Warp& w, Ref ref, const Places& p, unsigned offset, u32 lanes, Shape shape) {
  R* const d = out<R>(w, ref);
  if (shape == Shape::kSame) {
    M value;
    std::memcpy(&value, p.at[0] + offset, sizeof value);
    R copy;
    if constexpr (sizeof(M) == sizeof(R))
      std::memcpy(&copy, &value, sizeof copy);
    else
      copy = static_cast<R>(value);
    return each(d, [=](int) { return copy; });
  }
  if (shape == Shape::kPacked) {
    const u8* const base = p.at[0];
    if constexpr (sizeof(M) == sizeof(R)) {
      std::memcpy(d, base, sizeof(R) * kLanes);
    } else {
      M values[kLanes];
      std::memcpy(values, base, sizeof values);
      each(d, [&](int l) { return static_cast<R>(values[l]); });
    }
    return;
  }
  for (u32 m = lanes; m != 0; m &= m - 1) {
    const int l = __builtin_ctz(m);
    M value;
    std::memcpy(&value, p.at[l] + offset, sizeof value);
    if constexpr (sizeof(M) == sizeof(R))
      std::memcpy(&d[l], &value, sizeof value);
    else
      d[l] = static_cast<R>(value);
  }
}

template <class M, class R>
void store_element(Warp& w, Ref ref, const Places& p, unsigned offset, u32 lanes, Shape shape) {
  const R* const a = in<R>(w, ref);
  if (shape == Shape::kPacked) {
    if constexpr (sizeof(M) == sizeof(R)) {
      std::memcpy(p.at[0], a, sizeof(R) * kLanes);
    } else {
      M values[kLanes];
      each(values, [&](int l) { return static_cast<M>(a[l]); });
      std::memcpy(p.at[0], values, sizeof values);
    }
    return;
  }
  for (u32 m = lanes; m != 0; m &= m - 1) {
    const int l = __builtin_ctz(m);
    M value;
    if constexpr (sizeof(M) == sizeof(R))
      std::memcpy(&value, &a[l], sizeof value);
    else
      value = static_cast<M>(a[l]);
    std::memcpy(p.at[l] + offset, &value, sizeof value);
  }
}

using Mover = void (*)(Warp&, Ref, const Places&, unsigned, u32, Shape);

// By log2 of the element's bytes and register width (h, w, l).
constexpr Mover kUnsignedLoads[4][3] = {
    {load_element<u8, u16>, load_element<u8, u32>, load_element<u8, u64>},
    {load_element<u16, u16>, load_element<u16, u32>, load_element<u16, u64>},
    {nullptr, load_element<u32, u32>, load_element<u32, u64>},
    {nullptr, nullptr, load_element<u64, u64>},
};
constexpr Mover kSignedLoads[3][3] = {
    {load_element<s8, u16>, load_element<s8, u32>, load_element<s8, u64>},
    {load_element<s16, u16>, load_element<s16, u32>, load_element<s16, u64>},
    {nullptr, load_element<s32, u32>, load_element<s32, u64>},
};
constexpr Mover kStores[4][3] = {
    {store_element<u8, u16>, store_element<u8, u32>, store_element<u8, u64>},
    {store_element<u16, u16>, store_element<u16, u32>, store_element<u16, u64>},
    {nullptr, store_element<u32, u32>, store_element<u32, u64>},
    {nullptr, nullptr, store_element<u64, u64>},
};

int column(char letter) {
  return letter == 'h' ? 0 : letter == 'w' ? 1 : 2;
}

Mover mover(const Kind& k, bool store) {
  const unsigned row = k.bits >> 4 & 0xf;
  if (k.letter() == 'x') return store ? store_element<u128, u128> : load_element<u128, u128>;
  if (k.letter() == 'b') return store ? store_element<u8, u8> : load_element<u8, u8>;
  if (store) return kStores[row][column(k.letter())];
  return k.is_signed() && row < 3 ? kSignedLoads[row][column(k.letter())]
                                  : kUnsignedLoads[row][column(k.letter())];
}

// Those that the PTX memory model calls strong, in a launch on several host threads: each element at once, in
// one order for all. Of 128 bits a host has no such access; a lock would not help against atoms elsewhere.
template <class M, class R>
void load_strong(Warp& w, Ref ref, const Places& p, unsigned offset, u32 lanes, Shape) {
  R* const d = out<R>(w, ref);
  for (u32 m = lanes; m != 0; m &= m - 1) {
    const int l = __builtin_ctz(m);
    d[l] = static_cast<R>(__atomic_load_n(reinterpret_cast<const M*>(p.at[l] + offset), __ATOMIC_SEQ_CST));
  }
}

template <class M, class R>
void store_strong(Warp& w, Ref ref, const Places& p, unsigned offset, u32 lanes, Shape) {
  const R* const a = in<R>(w, ref);
  for (u32 m = lanes; m != 0; m &= m - 1) {
    const int l = __builtin_ctz(m);
    __atomic_store_n(reinterpret_cast<M*>(p.at[l] + offset), static_cast<M>(a[l]), __ATOMIC_SEQ_CST);
  }
}

template <bool Store, class M>
Mover strong_of(char letter) {
  if constexpr (Store) {
    return letter == 'h' ? store_strong<M, u16> : letter == 'w' ? store_strong<M, u32> : store_strong<M, u64>;
  } else {
    return letter == 'h' ? load_strong<M, u16> : letter == 'w' ? load_strong<M, u32> : load_strong<M, u64>;
  }
}

template <bool Store>
Mover strong_mover(const Kind& k) {
  if (k.letter() == 'x') return mover(k, Store);
  if (k.letter() == 'b') return Store ? store_strong<u8, u8> : load_strong<u8, u8>;
  const bool extends = !Store && k.is_signed();
  switch (k.bytes()) {
    case 1:
      return extends ? strong_of<Store, s8>(k.letter()) : strong_of<Store, u8>(k.letter());
    case 2:
      return extends ? strong_of<Store, s16>(k.letter()) : strong_of<Store, u16>(k.letter());
    case 4:
      return extends ? strong_of<Store, s32>(k.letter()) : strong_of<Store, u32>(k.letter());
    default:
      return strong_of<Store, u64>(k.letter());
  }
}

template <bool Store>
const Inst* strong(Warp& w, const Inst* i) {
  const Kind k{i->target};
  Places places;
  const Shape shape = find_places(w, i, k, places);
  const Mover move = w.launch->concurrent ? strong_mover<Store>(k) : mover(k, Store);
  if (k.count() == 1) {
    move(w, i->d, places, 0, w.mask, shape);
    return i + 1;
  }
  const Ref* const refs = i->extra->refs.data();
  for (unsigned e = 0; e < k.count(); ++e) move(w, refs[e], places, e * k.bytes(), w.mask, Shape::kScattered);
  return i + 1;
}

template <bool Store>
const Inst* one(Warp& w, const Inst* i) {
  const Kind k{i->target};
  Places places;
  Shape shape = quick_places<Store>(w, i, k, places);
  if (shape == Shape::kScattered) shape = find_places(w, i, k, places);
  mover(k, Store)(w, i->d, places, 0, w.mask, shape);
  return i + 1;
}

template <bool Store>
const Inst* vector(Warp& w, const Inst* i) {
  const Kind k{i->target};
  Places places;
  const Shape shape = find_places(w, i, k, places) == Shape::kSame ? Shape::kSame : Shape::kScattered;
  const Mover move = mover(k, Store);
  const Ref* const refs = i->extra->refs.data();
  for (unsigned e = 0; e < k.count(); ++e) move(w, refs[e], places, e * k.bytes(), w.mask, shape);
  return i + 1;
}

Space space_of(const Builder& b) {
  if (b.has("global")) return Space::kGlobal;
  if (b.has("shared") || b.has("shared::cta") || b.has("shared::cluster")) return Space::kShared;
  if (b.has("local")) return Space::kLocal;
  if (b.has("const")) return Space::kConst;
  if (b.has("param") || b.has("param::entry") || b.has("param::func")) return Space::kParam;
  return Space::kGeneric;
}

InstClass class_of(Space space) {
  switch (space) {
    case Space::kShared:
      return InstClass::kShared;
    case Space::kLocal:
      return InstClass::kLocal;
    case Space::kParam:
    case Space::kConst:
      return InstClass::kParam;
    default:
      return InstClass::kGlobal;
  }
}

unsigned log2_of(unsigned bytes) {
  return static_cast<unsigned>(__builtin_ctz(bytes));
}

// What moves for each element; of 8-bit floats, which no other access has, the bits.
Type element_type(const Builder& b) {
  const std::string_view name = b.form.parts.back();
  if (!name.starts_with("e4m3") && !name.starts_with("e5m2")) return b.type();
  return name.ends_with("x4") ? Type::kB32 : name.ends_with("x2") ? Type::kB16 : Type::kB8;
}

template <bool Store>
void build(Builder& b) {
  const Operand& address = b.operand(Store ? 0 : 1);
  const Operand& value = b.operand(Store ? 1 : 0);
  const unsigned hints = b.has("L2::cache_hint") ? 1 : 0;
  b.expect_count(2 + hints, 2 + hints);
  const Type type = element_type(b);
  const Space named = b.address(address);
  Space space = space_of(b);
  // A .param variable that is not the kernel's own parameter lives in local memory.
  if (space == Space::kParam && (named == Space::kParam ? b.local_parameter(address) : !b.entry()))
    space = Space::kLocal;
  if (space == Space::kGeneric && named != Space::kGeneric)
    space = named == Space::kParam && b.local_parameter(address) ? Space::kLocal : named;
  const unsigned count = b.has("v2") ? 2 : b.has("v4") ? 4 : b.has("v8") ? 8 : 1;
  const unsigned given = value.kind == OperandKind::kVector ? value.count : 1;
  if (given != count) b.refuse("the vector has the wrong number of elements");
  char letter = 0;
  const auto element = [&](const Operand& operand) {
    const bool constant = operand.kind != OperandKind::kRegister;
    const char wanted = constant ? (type == Type::kF32      ? 'f'
                                    : type == Type::kF64    ? 'd'
                                    : type_bytes(type) == 1 ? 'h'
                                                            : letter_of(type))
                                 : '*';
    const char found = b.element(operand, wanted, Store, count > 1);
    if (letter != 0 && found != letter) b.refuse("the vector's registers differ in size");
    letter = found;
  };
  if (count == 1) {
    element(value.kind == OperandKind::kVector ? b.children(value)[0] : value);
  } else {
    for (const Operand& child : b.children(value)) element(child);
  }
  if (letter_bytes(letter) < type_bytes(type)) b.refuse("a register is narrower than the type");
  if (hints != 0) b.use_extra(b.operand(2), 'l');
  b.inst.target = Kind::pack(space, log2_of(type_bytes(type)), is_signed(type), letter, count).bits;
  b.inst.kind = class_of(space);
  if (b.effects.act == Act::kAccess) {
    b.effects.space = space;
    if (space == Space::kParam || space == Space::kConst) b.effects.act = Act::kParameter;
  }
  b.inst.body = count > 1 ? vector<Store> : one<Store>;
  if (b.has("relaxed") || b.has("acquire") || b.has("release") || b.has("volatile"))
    b.inst.body = strong<Store>;
  const bool fixed = b.inst.mode == static_cast<std::uint8_t>(AddressMode::kAbsolute);
  if (!Store && space == Space::kParam && count == 1 && fixed && b.in_parameters(type_bytes(type))) {
    const unsigned bytes = type_bytes(type);
    if (bytes == 4 && letter == 'w') b.lanewise('w', broadcast_parameter<u32, u32>);
    if (bytes == 8 && letter == 'l') b.lanewise('l', broadcast_parameter<u64, u64>);
  }
}

#define SGLAB_TYPES "{b8|b16|b32|b64|b128|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64}"
#define SGLAB_EVICTION \
  "[.L1::evict_normal|.L1::evict_unchanged|.L1::evict_first|.L1::evict_last|.L1::no_allocate]"
#define SGLAB_L2 \
  "[.L2::evict_normal|.L2::evict_first|.L2::evict_last][.L2::cache_hint][.L2::64B|.L2::128B|.L2::256B]"

// multimem: the address is that of a multicast object with one device, so what is loaded is one replica, and
// what is stored or reduced changes one.
void register_multimem(Table& t) {
  static constexpr const char* kLoads[] = {
      "add.{u32|s32|u64|f32|f64}",
      "{min|max}.{u32|s32|u64|s64}",
      "{and|or|xor}.{b32|b64}",
      "add.{v2|v4}.f32",
      "add[.acc::f32].{f16x2|bf16x2}",
      "add[.acc::f32].{v2|v4}.{f16|bf16|f16x2|bf16x2}",
      "add[.acc::f32].v8.{f16|bf16}",
      "add[.acc::f16].{e4m3x4|e5m2x4}",
      "add[.acc::f16].{v2|v4}.{e4m3x2|e5m2x2|e4m3x4|e5m2x4}",
      "add[.acc::f16].v8.{e4m3|e5m2|e4m3x2|e5m2x2}",
      "add[.acc::f16].v4.{e4m3|e5m2}",
      "{min|max}.{f16x2|bf16x2|e4m3x4|e5m2x4}",
      "{min|max}.{v2|v4}.{f16|bf16|f16x2|bf16x2|e4m3x2|e5m2x2|e4m3x4|e5m2x4}",
      "{min|max}.v8.{f16|bf16|e4m3|e5m2|e4m3x2|e5m2x2}",
      "{min|max}.v4.{e4m3|e5m2}",
  };
  static constexpr const char* kStores[] = {
      "{u32|s32|u64|s64|b32|b64|f32|f64|f16x2|bf16x2|e4m3x4|e5m2x4}",
      "{v2|v4}.{f32|f16|bf16|f16x2|bf16x2|e4m3x2|e5m2x2|e4m3x4|e5m2x4}",
      "v8.{f16|bf16|e4m3|e5m2|e4m3x2|e5m2x2}",
      "v4.{e4m3|e5m2}",
  };
  char pattern[200];
  const auto rows = [&](const char* opcode, const char* order, const char* tail, Effects does, Build build) {
    __builtin_snprintf(pattern, sizeof pattern, "%s[.weak][.global].%s", opcode, tail);
    t.row(pattern, does, build);
    __builtin_snprintf(pattern, sizeof pattern, "%s.{relaxed|%s}.{cta|cluster|gpu|sys}[.global].%s", opcode,
                       order, tail);
    t.row(pattern, does, build);
  };
  for (const char* tail : kLoads) rows("multimem.ld_reduce", "acquire", tail, does::loads(), build<false>);
  for (const char* tail : kStores) rows("multimem.st", "release", tail, does::stores(), build<true>);
}

}  // namespace

void register_memory(Table& t) {
  t.family("Loads and stores", InstClass::kGlobal);
  t.row(
      "ld[.weak|.volatile][.global|.shared|.shared::cta|.shared::cluster|.local|.param|.param::entry|.param::"
      "func|.const]"
      "[.ca|.cg|.cs|.lu|.cv]" SGLAB_EVICTION SGLAB_L2 "[.v2|.v4|.v8]." SGLAB_TYPES,
      does::loads(), build<false>);
  t.row(
      "ld.{relaxed|acquire}.{cta|cluster|gpu|sys}[.global|.shared|.shared::cta|.shared::"
      "cluster]" SGLAB_EVICTION SGLAB_L2 "[.v2|.v4|.v8]." SGLAB_TYPES,
      does::loads(), build<false>);
  t.row("ld.global[.ca|.cg|.cs].nc" SGLAB_EVICTION SGLAB_L2 "[.v2|.v4|.v8]." SGLAB_TYPES, does::loads(),
        build<false>);
  t.row("ldu[.global][.v2|.v4]." SGLAB_TYPES, does::loads(), build<false>);
  t.row(
      "st[.weak|.volatile][.global|.shared|.shared::cta|.shared::cluster|.local|.param|.param::func]"
      "[.wb|.cg|.cs|.wt]" SGLAB_EVICTION SGLAB_L2 "[.v2|.v4|.v8]." SGLAB_TYPES,
      does::stores(), build<true>);
  t.row(
      "st.{relaxed|release}.{cta|cluster|gpu|sys}[.global|.shared|.shared::cta|.shared::"
      "cluster]" SGLAB_EVICTION SGLAB_L2 "[.v2|.v4|.v8]." SGLAB_TYPES,
      does::stores(), build<true>);
  t.row("ld.mmio.relaxed.sys[.global]." SGLAB_TYPES, does::loads(), build<false>);
  t.row("st.mmio.relaxed.sys[.global]." SGLAB_TYPES, does::stores(), build<true>);
  t.row("st.async[.mmio].release.{gpu|sys}[.global].{b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64}",
        does::stores(), build<true>);
  t.family("Loads and stores: multimem", InstClass::kGlobal);
  register_multimem(t);
}

}  // namespace sglab::emu::SGLAB_ISA
