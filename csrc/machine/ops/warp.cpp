#include <algorithm>
#include <bit>

#include "machine/engine/cluster.hpp"
#include "machine/engine/fault.hpp"
#include "machine/engine/registers.hpp"
#include "machine/ops/members.hpp"
#include "machine/ops/register.hpp"
#include "machine/ops/shuffle.hpp"
#include "machine/program/builder.hpp"

// Exchanges among the lanes of a warp. The .sync forms wait until all lanes of their member mask have come.
namespace sglab::emu {
namespace {

template <class F>
void for_lanes(std::uint32_t lanes, F f) {
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) f(std::countr_zero(m));
}

void merge_predicate(Warp& w, Ref ref, std::uint32_t value, std::uint32_t lanes) {
  w.predicates[ref] = (w.predicates[ref] & ~lanes) | (value & lanes);
}

// What each lane gives of a register.
template <class T>
struct Values {
  T of[32];
  void take(const Warp& w, Ref ref, std::uint32_t lanes) {
    const T* const a = read_register<T>(w, ref);
    if (lanes == 0xffffffffu) {
      std::copy_n(a, 32, of);
    } else {
      for_lanes(lanes, [&](int l) { of[l] = a[l]; });
    }
  }
};

// shfl.sync.mode.b32 d|p, a, b, c, members
struct ShuffleOp {
  using Given = Values<std::uint32_t>;
  static void take(const Warp& w, const Inst* i, std::uint32_t lanes, Given& given) {
    given.take(w, i->a, lanes);
  }
  static void give(Warp& w, const Inst* i, std::uint32_t lanes, std::uint32_t, const Given& given) {
    const auto *const b = read_register<std::uint32_t>(w, i->b), *const c =
                                                                     read_register<std::uint32_t>(w, i->c);
    auto* const d = write_register<std::uint32_t>(w, i->d);
    const auto mode = static_cast<Shuffle>(i->imm);
    std::uint32_t inside = 0;
    for_lanes(lanes, [&](int l) {
      const ShuffleSource source = shuffle_source(mode, l, b[l], c[l]);
      d[l] = given.of[source.lane];
      inside |= static_cast<std::uint32_t>(source.inside) << l;
    });
    if (i->target != 2) merge_predicate(w, i->target, inside, lanes);
  }
};

const Inst* shfl(Warp& w, const Inst* i) {
  return exchange<ShuffleOp>(w, i, i->extra->refs[0]);
}

void build_shfl(Builder& b) {
  b.expect_count(5, 5);
  b.use(Field::kA, b.operand(1), 'w');
  b.use(Field::kB, b.operand(2), 'w');
  b.use(Field::kC, b.operand(3), 'w');
  b.use_extra(b.operand(4), 'w');
  b.inst.target = 2;
  const Operand& to = b.operand(0);
  if (to.kind == OperandKind::kPair) {
    b.def(Field::kD, b.children(to)[0], 'w');
    b.def(Field::kTarget, b.children(to)[1], 'p');
  } else {
    b.def(Field::kD, to, 'w');
  }
  const Shuffle mode = b.has("up")     ? Shuffle::kUp
                       : b.has("down") ? Shuffle::kDown
                       : b.has("bfly") ? Shuffle::kBfly
                                       : Shuffle::kIdx;
  b.inst.imm = static_cast<std::int64_t>(mode);
  b.inst.body = shfl;
}

enum Vote { kAll, kAny, kUni, kBallot };

// vote.sync.mode d, {!}p, members
struct VoteOp {
  using Given = std::uint32_t;  // those for which it holds
  static void take(const Warp& w, const Inst* i, std::uint32_t lanes, Given& given) {
    const std::uint32_t votes = predicate_lanes(w, i->a);
    given = lanes == 0xffffffffu ? votes : (given & ~lanes) | (votes & lanes);
  }
  static void give(Warp& w, const Inst* i, std::uint32_t lanes, std::uint32_t all, const Given& given) {
    const std::uint32_t votes = given & all;
    if (i->imm == kBallot) {
      auto* const d = write_register<std::uint32_t>(w, i->d);
      for_lanes(lanes, [&](int l) { d[l] = votes; });
      return;
    }
    const bool result = i->imm == kAll   ? votes == all
                        : i->imm == kAny ? votes != 0
                                         : votes == all || votes == 0;
    merge_predicate(w, i->d, result ? lanes : 0, lanes);
  }
};

const Inst* vote(Warp& w, const Inst* i) {
  return exchange<VoteOp>(w, i, i->b);
}

void build_vote(Builder& b) {
  b.expect_count(3, 3);
  b.use(Field::kA, b.operand(1), 'p');
  b.use(Field::kB, b.operand(2), 'w');
  b.inst.imm = b.has("all") ? kAll : b.has("any") ? kAny : b.has("uni") ? kUni : kBallot;
  b.def(Field::kD, b.operand(0), b.inst.imm == kBallot ? 'w' : 'p');
  b.inst.body = vote;
}

// match.any d, a, members; match.all d|p, a, members
template <class T, bool All>
struct MatchOp {
  using Given = Values<T>;
  static void take(const Warp& w, const Inst* i, std::uint32_t lanes, Given& given) {
    given.take(w, i->a, lanes);
  }
  static std::uint32_t equal_to(T value, std::uint32_t all, const Given& given) {
    std::uint32_t same = 0;
    for_lanes(all, [&](int l) { same |= (given.of[l] == value ? 1u : 0u) << l; });
    return same;
  }
  static void give(Warp& w, const Inst* i, std::uint32_t lanes, std::uint32_t all, const Given& given) {
    auto* const d = write_register<std::uint32_t>(w, i->d);
    if (!All) {
      for_lanes(lanes, [&](int l) { d[l] = equal_to(given.of[l], all, given); });
      return;
    }
    const bool alike = equal_to(given.of[std::countr_zero(all)], all, given) == all;
    for_lanes(lanes, [&](int l) { d[l] = alike ? all : 0; });
    if (i->target != 2) merge_predicate(w, i->target, alike ? lanes : 0, lanes);
  }
};

template <class T, bool All>
const Inst* match(Warp& w, const Inst* i) {
  return exchange<MatchOp<T, All>>(w, i, i->b);
}

void build_match(Builder& b) {
  b.expect_count(3, 3);
  b.use(Field::kA, b.operand(1), letter_of(b.type()));
  b.use(Field::kB, b.operand(2), 'w');
  b.inst.target = 2;
  const Operand& to = b.operand(0);
  if (to.kind == OperandKind::kPair) {
    b.def(Field::kD, b.children(to)[0], 'w');
    b.def(Field::kTarget, b.children(to)[1], 'p');
  } else {
    b.def(Field::kD, to, 'w');
  }
  b.inst.body = b.form.row->handler;
}

enum Reduction { kAddOp, kMinU, kMaxU, kMinS, kMaxS, kAnd, kOr, kXor, kMinF, kMaxF };

std::uint32_t reduce(Reduction op, std::uint32_t x, std::uint32_t y) {
  const auto sx = static_cast<std::int32_t>(x), sy = static_cast<std::int32_t>(y);
  switch (op) {
    case kAddOp:
      return x + y;
    case kMinU:
      return x < y ? x : y;
    case kMaxU:
      return x > y ? x : y;
    case kMinS:
      return sx < sy ? x : y;
    case kMaxS:
      return sx > sy ? x : y;
    case kAnd:
      return x & y;
    case kOr:
      return x | y;
    default:
      return x ^ y;
  }
}

struct ReduceOp {
  using Given = Values<std::uint32_t>;
  static void take(const Warp& w, const Inst* i, std::uint32_t lanes, Given& given) {
    given.take(w, i->a, lanes);
  }
  static void give(Warp& w, const Inst* i, std::uint32_t lanes, std::uint32_t all, const Given& given) {
    std::uint32_t result = given.of[std::countr_zero(all)];
    for_lanes(all & (all - 1),
              [&](int l) { result = reduce(static_cast<Reduction>(i->imm), result, given.of[l]); });
    auto* const d = write_register<std::uint32_t>(w, i->d);
    for_lanes(lanes, [&](int l) { d[l] = result; });
  }
};

const Inst* redux(Warp& w, const Inst* i) {
  return exchange<ReduceOp>(w, i, i->b);
}

enum FloatReduction { kMax = 1, kAbs = 2, kNan = 4 };

struct ReduceFloatOp {
  using Given = Values<std::uint32_t>;
  static void take(const Warp& w, const Inst* i, std::uint32_t lanes, Given& given) {
    given.take(w, i->a, lanes);
  }
  static void give(Warp& w, const Inst* i, std::uint32_t lanes, std::uint32_t all, const Given& given) {
    constexpr std::uint32_t kCanonical = 0x7fffffff;
    std::uint32_t best = kCanonical;
    bool any_nan = false, found = false;
    // Ordered as integers, with negative numbers reversed below zero.
    const auto key = [](std::uint32_t v) {
      return v >> 31 ? static_cast<std::int32_t>(0x80000000u - v - 1) : static_cast<std::int32_t>(v);
    };
    for_lanes(all, [&](int l) {
      const std::uint32_t v = i->imm & kAbs ? given.of[l] & 0x7fffffffu : given.of[l];
      if ((v & 0x7fffffffu) > 0x7f800000u) {
        any_nan = true;
      } else if (!found || (i->imm & kMax ? key(v) > key(best) : key(v) < key(best))) {
        best = v;
        found = true;
      }
    });
    if ((i->imm & kNan) && any_nan) best = kCanonical;
    auto* const d = write_register<std::uint32_t>(w, i->d);
    for_lanes(lanes, [&](int l) { d[l] = best; });
  }
};

const Inst* redux_float(Warp& w, const Inst* i) {
  return exchange<ReduceFloatOp>(w, i, i->b);
}

void build_redux(Builder& b) {
  b.expect_count(3, 3);
  b.use(Field::kA, b.operand(1), 'w');
  b.use(Field::kB, b.operand(2), 'w');
  b.def(Field::kD, b.operand(0), 'w');
  if (b.type() == Type::kF32) {
    b.inst.imm = (b.has("max") ? kMax : 0) | (b.has("abs") ? kAbs : 0) | (b.has("NaN") ? kNan : 0);
    b.inst.body = redux_float;
    return;
  }
  const bool is_signed = b.has("s32");
  b.inst.imm = b.has("add")   ? kAddOp
               : b.has("min") ? (is_signed ? kMinS : kMinU)
               : b.has("max") ? (is_signed ? kMaxS : kMaxU)
               : b.has("and") ? kAnd
               : b.has("or")  ? kOr
                              : kXor;
  b.inst.body = redux;
}

struct Nothing {};

// elect.sync d|p, members: the lowest member leads.
struct ElectOp {
  using Given = Nothing;
  static void take(const Warp&, const Inst*, std::uint32_t, Given&) {}
  static void give(Warp& w, const Inst* i, std::uint32_t lanes, std::uint32_t all, const Given&) {
    const auto leader = static_cast<std::uint32_t>(std::countr_zero(all));
    auto* const d = write_register<std::uint32_t>(w, i->d);
    for_lanes(lanes, [&](int l) { d[l] = leader; });
    merge_predicate(w, i->target, 1u << leader, lanes);
  }
};

const Inst* elect(Warp& w, const Inst* i) {
  return exchange<ElectOp>(w, i, i->a);
}

void build_elect(Builder& b) {
  b.expect_count(2, 2);
  if (b.operand(0).kind != OperandKind::kPair) b.refuse("expected d|p");
  b.use(Field::kA, b.operand(1), 'w');
  b.def(Field::kD, b.children(b.operand(0))[0], 'w');
  b.def(Field::kTarget, b.children(b.operand(0))[1], 'p');
  b.inst.body = elect;
}

const Inst* activemask(Warp& w, const Inst* i) {
  auto* const d = write_register<std::uint32_t>(w, i->d);
  const std::uint32_t active = w.mask;
  for_lanes(active, [&](int l) { d[l] = active; });
  return i + 1;
}

void build_activemask(Builder& b) {
  b.expect_count(1, 1);
  b.def(Field::kD, b.operand(0), 'w');
  b.inst.body = activemask;
}

struct SyncOp {
  using Given = Nothing;
  static void take(const Warp&, const Inst*, std::uint32_t, Given&) {}
  static void give(Warp&, const Inst*, std::uint32_t, std::uint32_t, const Given&) {}
};

const Inst* warp_sync(Warp& w, const Inst* i) {
  return exchange<SyncOp>(w, i, i->a);
}

void build_warp_sync(Builder& b) {
  b.expect_count(1, 1);
  b.use(Field::kA, b.operand(0), 'w');
  b.inst.body = warp_sync;
}

}  // namespace

void register_warp(Table& t) {
  t.family("Warp-wide exchange", InstClass::kWarp);
  t.row("shfl.sync.{up|down|bfly|idx}.b32", does::exchanges(Cost::kShuffle, TaintRule::kShuffle), build_shfl);
  t.row("vote.sync.{all|any|uni}.pred", does::exchanges(Cost::kVote, TaintRule::kWarpWide), build_vote);
  t.row("vote.sync.ballot.b32", does::exchanges(Cost::kVote, TaintRule::kWarpWide), build_vote);
  t.row("match.any.sync.b32", does::exchanges(Cost::kMatchAny, TaintRule::kWarpWide), build_match,
        match<std::uint32_t, false>);
  t.row("match.any.sync.b64", does::exchanges(Cost::kMatchAny, TaintRule::kWarpWide), build_match,
        match<std::uint64_t, false>);
  t.row("match.all.sync.b32", does::exchanges(Cost::kMatchAll, TaintRule::kWarpWide), build_match,
        match<std::uint32_t, true>);
  t.row("match.all.sync.b64", does::exchanges(Cost::kMatchAll, TaintRule::kWarpWide), build_match,
        match<std::uint64_t, true>);
  t.row("redux.sync.{add|min|max}.{u32|s32}", does::exchanges(Cost::kReduce, TaintRule::kWarpWide),
        build_redux);
  t.row("redux.sync.{and|or|xor}.b32", does::exchanges(Cost::kReduce, TaintRule::kWarpWide), build_redux);
  t.row("redux.sync.{min|max}[.abs][.NaN].f32", does::exchanges(Cost::kReduce, TaintRule::kWarpWide),
        build_redux);
  t.row("elect.sync", does::exchanges(Cost::kVote, TaintRule::kControl), build_elect);
  t.row("activemask.b32", does::computes(Cost::kVote).moving(Motion::kFixed), build_activemask);
  t.row("bar.warp.sync", does::syncs_warp(), build_warp_sync);
}

}  // namespace sglab::emu
