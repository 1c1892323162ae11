#include "observe/sanitize/meaning.hpp"

#include <optional>
#include <utility>

#include "machine/program/builder.hpp"
#include "machine/tensor/matrix_move.hpp"
#include "observe/record/accesses.hpp"

namespace sglab::emu {
namespace {

using Kind = Meaning::Kind;

// Whether a mnemonic has a part, such as ".read".
bool has(std::string_view opcode, std::string_view part) {
  for (std::size_t at = opcode.find(part); at != std::string_view::npos; at = opcode.find(part, at + 1)) {
    const std::size_t end = at + part.size();
    if (at > 0 && opcode[at - 1] == '.' && (end == opcode.size() || opcode[end] == '.')) return true;
  }
  return false;
}

Meaning access_meaning(const AccessForm& form, std::string_view opcode) {
  Meaning m;
  m.kind = Kind::kAccess;
  m.space = form.space;
  m.bytes = form.bytes;
  m.reads = form.reads;
  m.writes = form.writes;
  m.atomic = form.reads && form.writes;
  // Parameters of calls, which lie in local memory and are copied by the call itself, are nobody's business.
  if (has(opcode, "param") || has(opcode, "param::func")) m.kind = Kind::kPlain;
  const Order plain = has(opcode, "volatile") ? Order::kVolatile : Order::kWeak;
  m.order = order_of(opcode, m.atomic ? Order::kRelaxed : plain);
  m.scope = scope_of(opcode, Scope::kGpu);
  return m;
}

// What the mnemonic leaves open: a variable named in the address tells the space of a generic one.
void complete(Meaning& m, const Inst& inst) {
  if (m.kind == Kind::kMatrixRows) {
    const std::int64_t* v = inst.extra->values.data();
    m.rows = static_cast<std::uint8_t>(matrix_rows(
        {static_cast<MatrixShape>(v[0]), static_cast<int>(v[1]), v[2] != 0, static_cast<CopyFormat>(v[3])}));
  }
  if (m.kind != Kind::kAccess) return;
  if (!m.atomic) m.space = static_cast<Space>(inst.target & 0xf);
  if (m.atomic && m.space == Space::kGeneric && inst.mode == static_cast<std::uint8_t>(AddressMode::kOwnCta))
    m.space = Space::kShared;
  if (m.space == Space::kParam || m.space == Space::kConst) m.kind = Kind::kPlain;
}

Meaning fence_meaning(std::string_view opcode) {
  Meaning m;
  m.kind = Kind::kFence;
  m.order = order_of(opcode, Order::kAcqRel);
  m.scope = scope_of(opcode, Scope::kGpu);
  m.space = Space::kGeneric;
  if (opcode.starts_with("membar")) {
    m.order = Order::kSc;
    m.scope = has(opcode, "cta") ? Scope::kCta : has(opcode, "gl") ? Scope::kGpu : Scope::kSys;
  } else if (opcode.starts_with("fence.proxy.async")) {
    m.fence = Fence::Kind::kProxyAsync;
    if (has(opcode, "global")) m.space = Space::kGlobal;
    if (opcode.find("shared::") != std::string_view::npos) m.space = Space::kShared;
  } else if (opcode.starts_with("fence.proxy.tensormap")) {
    m.fence = Fence::Kind::kProxyTensormap;
    m.reads = m.order == Order::kAcquire;
  } else if (opcode.starts_with("fence.proxy.alias")) {
    m.fence = Fence::Kind::kProxyAlias;
  } else if (opcode.starts_with("fence.mbarrier_init")) {
    m.fence = Fence::Kind::kMbarrierInit;
    m.order = Order::kRelease;
  }
  return m;
}

Meaning group_meaning(Kind kind, GroupKind group, bool read_only = false) {
  Meaning m;
  m.kind = kind;
  m.group = group;
  m.waits = read_only;
  return m;
}

Meaning simple(Fence::Kind fence) {
  Meaning m;
  m.kind = Kind::kFence;
  m.fence = fence;
  return m;
}

Meaning of_kind(Kind kind, bool waits = false) {
  Meaning m;
  m.kind = kind;
  m.waits = waits;
  return m;
}

Meaning tcgen05_meaning(std::string_view rest) {
  if (rest.starts_with("alloc")) return of_kind(Kind::kAlloc);
  if (rest.starts_with("dealloc")) return of_kind(Kind::kDealloc);
  if (rest.starts_with("relinquish")) return of_kind(Kind::kRelinquish);
  if (rest.starts_with("ld.")) return of_kind(Kind::kTmemLoad);
  if (rest.starts_with("st.")) return of_kind(Kind::kTmemStore);
  if (rest.starts_with("wait::ld")) return simple(Fence::Kind::kTcgenWaitLoad);
  if (rest.starts_with("wait::st")) return simple(Fence::Kind::kTcgenWaitStore);
  if (rest.starts_with("fence::before")) return simple(Fence::Kind::kTcgenBefore);
  if (rest.starts_with("fence::after")) return simple(Fence::Kind::kTcgenAfter);
  return {};
}

Meaning barrier_meaning(std::string_view opcode) {
  Meaning m;
  if (opcode.starts_with("bar.warp")) return of_kind(Kind::kWarpSync, true);
  if (opcode.starts_with("barrier.cluster.arrive")) {
    m.kind = Kind::kClusterArrive;
    m.order = has(opcode, "relaxed") ? Order::kRelaxed : Order::kRelease;
    return m;
  }
  if (opcode.starts_with("barrier.cluster.wait")) return of_kind(Kind::kClusterWait);
  return of_kind(Kind::kNamedBarrier, !has(opcode, "arrive"));
}

Meaning matrix_meaning(bool loads) {
  Meaning m = of_kind(Kind::kMatrixRows);
  m.bytes = 16;
  m.space = Space::kShared;
  m.reads = loads;
  m.writes = !loads;
  return m;
}

Meaning cp_async_meaning(std::string_view opcode) {
  if (opcode == "cp.async.commit_group") return group_meaning(Kind::kCommitGroup, GroupKind::kCpAsync);
  if (opcode.starts_with("cp.async.wait")) return group_meaning(Kind::kWaitGroup, GroupKind::kCpAsync);
  if (opcode == "cp.async.bulk.commit_group") return group_meaning(Kind::kCommitGroup, GroupKind::kBulk);
  if (opcode.starts_with("cp.async.bulk.wait_group"))
    return group_meaning(Kind::kWaitGroup, GroupKind::kBulk, has(opcode, "read"));
  return {};
}

Meaning meaning_of(const AccessForm& form, std::string_view opcode) {
  if (form.space != Space::kReg || form.reads || form.writes) return access_meaning(form, opcode);
  const auto starts = [&](std::string_view prefix) { return opcode.starts_with(prefix); };
  if (starts("tcgen05.")) return tcgen05_meaning(opcode.substr(8));
  if (starts("mbarrier.test_wait") || starts("mbarrier.try_wait")) {
    Meaning m = of_kind(Kind::kMbarrierWait);
    m.order = order_of(opcode, Order::kAcquire);
    m.scope = scope_of(opcode, Scope::kCta);
    return m;
  }
  if ((starts("cp.async.bulk.") || starts("cp.reduce.async.bulk.")) && has(opcode, "tensor"))
    return of_kind(Kind::kUseMap);
  if (starts("cp.async.")) return cp_async_meaning(opcode);
  if (starts("bar.") || starts("barrier.")) return barrier_meaning(opcode);
  if (starts("fence.") || starts("membar.")) return fence_meaning(opcode);
  if (starts("griddepcontrol.wait")) return simple(Fence::Kind::kGridDependency);
  if (starts("wgmma.fence")) return simple(Fence::Kind::kWgmma);
  if (starts("wgmma.commit")) return group_meaning(Kind::kCommitGroup, GroupKind::kWgmma);
  if (starts("wgmma.wait")) return group_meaning(Kind::kWaitGroup, GroupKind::kWgmma);
  if (starts("ldmatrix") || starts("stmatrix")) return matrix_meaning(starts("ldmatrix"));
  if (starts("tensormap.replace")) return of_kind(Kind::kReplaceMap);
  if (starts("tensormap.cp_fenceproxy")) return of_kind(Kind::kCopyMap);
  if (starts("shfl.sync") || starts("vote.sync") || starts("match.") || starts("redux.") ||
      starts("elect.sync"))
    return of_kind(Kind::kWarpSync);
  if (opcode == "exit" || opcode == "ret") return of_kind(Kind::kExit);
  return {};
}

}  // namespace

Order order_of(std::string_view opcode, Order otherwise) {
  constexpr std::pair<std::string_view, Order> kNames[] = {
      {"relaxed", Order::kRelaxed}, {"acquire", Order::kAcquire}, {"release", Order::kRelease},
      {"acq_rel", Order::kAcqRel},  {"sc", Order::kSc},
  };
  for (const auto& [name, order] : kNames) {
    if (has(opcode, name)) return order;
  }
  return otherwise;
}

Scope scope_of(std::string_view opcode, Scope otherwise) {
  constexpr std::pair<std::string_view, Scope> kNames[] = {
      {"cta", Scope::kCta}, {"cluster", Scope::kCluster}, {"gpu", Scope::kGpu}, {"sys", Scope::kSys}};
  for (const auto& [name, scope] : kNames) {
    if (has(opcode, name)) return scope;
  }
  return otherwise;
}

std::vector<Meaning> meanings(const Program& program) {
  const auto& opcodes = program.image->module().opcodes;
  std::vector<std::optional<Meaning>> known(opcodes.size());
  std::vector<Meaning> all(program.code.size());
  for (std::uint32_t pc = 0; pc < all.size(); ++pc) {
    const std::uint32_t opcode = program.places[pc].opcode;
    if (opcode != kNoIndex) {
      if (!known[opcode]) known[opcode] = meaning_of(access_form(program, pc), opcodes[opcode]);
      all[pc] = *known[opcode];
      complete(all[pc], program.code[pc]);
    }
    all[pc].counts = program.places[pc].line != 0;
  }
  return all;
}

}  // namespace sglab::emu
