#include "isa/extra.hpp"
#include "machine/ops/memory_builders.hpp"
#include "machine/ops/memory_movers.hpp"
#include "machine/ops/register.hpp"
#include "machine/program/builder.hpp"

// ld and st. An instruction first finds each lane's bytes, then moves elements between them and registers.
namespace sglab::emu::SGLAB_ISA {
namespace {

// One address for all lanes, known when the program was decoded: kernel parameters, mostly.
template <class M, class R>
const Inst* broadcast_parameter(Warp& w, const Inst* i) {
  M value;
  std::memcpy(&value, w.parameters + i->imm, sizeof value);
  each(out<R>(w, i->d), [=](int) { return static_cast<R>(value); });
  return i + 1;
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
#if defined(__SSE2__)
  const bool quads = k.count() == 4 && k.bytes() == 4 && k.letter() == 'w';
  if (quads && w.mask == 0xffffffffu && shape == Shape::kScattered) {
    move_quads<Store>(w, refs, places);
    return i + 1;
  }
#endif
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
}  // namespace

void build_load(Builder& b) {
  build<false>(b);
}

void build_store(Builder& b) {
  build<true>(b);
}

void register_memory(Table& t) {
  t.family("Loads and stores", InstClass::kGlobal);
  t.row(
      "ld[.weak|.volatile][.global|.shared|.shared::cta|.shared::cluster|.local|.param|.param::entry|.param::"
      "func|.const]"
      "[.ca|.cg|.cs|.lu|.cv]" SGLAB_EVICTION SGLAB_L2 "[.v2|.v4|.v8]." SGLAB_TYPES,
      does::loads(), build_load);
  t.row(
      "ld.{relaxed|acquire}.{cta|cluster|gpu|sys}[.global|.shared|.shared::cta|.shared::"
      "cluster]" SGLAB_EVICTION SGLAB_L2 "[.v2|.v4|.v8]." SGLAB_TYPES,
      does::loads(), build_load);
  t.row("ld.global[.ca|.cg|.cs].nc" SGLAB_EVICTION SGLAB_L2 "[.v2|.v4|.v8]." SGLAB_TYPES, does::loads(),
        build_load);
  t.row("ldu[.global][.v2|.v4]." SGLAB_TYPES, does::loads(), build_load);
  t.row(
      "st[.weak|.volatile][.global|.shared|.shared::cta|.shared::cluster|.local|.param|.param::func]"
      "[.wb|.cg|.cs|.wt]" SGLAB_EVICTION SGLAB_L2 "[.v2|.v4|.v8]." SGLAB_TYPES,
      does::stores(), build_store);
  t.row(
      "st.{relaxed|release}.{cta|cluster|gpu|sys}[.global|.shared|.shared::cta|.shared::"
      "cluster]" SGLAB_EVICTION SGLAB_L2 "[.v2|.v4|.v8]." SGLAB_TYPES,
      does::stores(), build_store);
  t.row("ld.mmio.relaxed.sys[.global]." SGLAB_TYPES, does::loads(), build_load);
  t.row("st.mmio.relaxed.sys[.global]." SGLAB_TYPES, does::stores(), build_store);
  t.row("st.async[.mmio].release.{gpu|sys}[.global].{b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64}",
        does::stores(), build_store);
  register_multimem(t);
}

}  // namespace sglab::emu::SGLAB_ISA
