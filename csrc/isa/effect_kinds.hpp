#pragma once

#include <cstdint>

#include "isa/types.hpp"

// The words in which an instruction's effects are said; see effects.hpp. Python knows them by their names.
namespace sglab::emu {

enum class Order : std::uint8_t { kWeak, kVolatile, kRelaxed, kAcquire, kRelease, kAcqRel, kSc };
enum class Scope : std::uint8_t { kCta, kCluster, kGpu, kSys };
enum class GroupKind : std::uint8_t { kBulk, kCpAsync, kWgmma };
constexpr std::uint32_t kWaitAll = 0xffffffffu;  // of a wait for groups: even an open one

enum class FenceKind : std::uint8_t {
  kThread,          // fence.{sc,acq_rel,acquire,release}.scope, membar
  kProxyAsync,      // fence.proxy.async; its space: kGlobal, kShared, or kGeneric for all
  kProxyTensormap,  // fence.proxy.tensormap, tensormap.cp_fenceproxy
  kProxyAlias,
  kMbarrierInit,  // fence.mbarrier_init.release.cluster
  kTcgenBefore,   // tcgen05.fence::before_thread_sync
  kTcgenAfter,
  kTcgenWaitLoad,  // tcgen05.wait::ld
  kTcgenWaitStore,
  kWgmma,           // wgmma.fence
  kGridDependency,  // griddepcontrol.wait
};

// What happens besides that the destination registers are filled.
enum class Act : std::uint8_t {
  kNothing,
  kBranch,       // to Inst::target
  kBranchTable,  // brx
  kCall,
  kExit,  // exit, ret
  kTrap,
  kAccess,      // ld, st, atom, red
  kParameter,   // the same of parameters and constants, which no other thread writes
  kMatrixRows,  // ldmatrix, stmatrix: rows of shared memory, addressed by the first `rows` lanes
  kFence,
  kNamedArrive,
  kNamedWait,  // arrives, too
  kClusterArrive,
  kClusterWait,
  kMbarrier,  // initialises, arrives, expects; the machine says what came of it
  kMbarrierWait,
  kWarpSync,      // bar.warp.sync: lanes meet, and their memory accesses are ordered
  kWarpExchange,  // shfl and similar: lanes meet
  kIssue,         // an asynchronous operation; the machine says when it takes effect
  kIssueByMap,    // the same, of a copy that a tensor map describes
  kCommitGroup,
  kWaitGroup,  // all but the `count` latest
  kTmemAlloc,
  kTmemDealloc,
  kTmemRelinquish,
  kTmemLoad,
  kTmemStore,
  kReplaceMap,  // tensormap.replace
  kCopyMap,     // tensormap.cp_fenceproxy
  kMatrixTile,  // wmma.load, wmma.store: a matrix whose elements lie in rows or columns of memory
  kClear,       // st.bulk: as many bytes as an operand says become zero
  kCount,
};

// What it is to someone who follows a launch.
enum class Event : std::uint8_t {
  kNone,
  kCopy,
  kPrefetch,
  kMma,
  kTmem,
  kCommit,
  kWait,
  kArrive,
  kInit,
  kFence,
  kCount
};

// How uninitialised values go through it.
enum class TaintRule : std::uint8_t {
  kCompute,  // results are tainted where a source is
  kHalves,   // the same for each half of the registers: packed arithmetic
  kParts,    // the same for each quarter: bitwise logic
  kLogic,    // and, or (Value says which), a lop3's table, a comparison combined with a predicate: the same,
             // but for what known operands decide alone
  kCarries,  // integer sums and products: a part depends on itself and the bits below it
  kConvert,  // cvt of an integer: what its types cut off does not count
  kConvertPair,  // cvt of two values into the halves of one
  kShiftLeft,    // by a constant
  kShiftRight,
  kPermute,   // prmt with a constant selector
  kPack,      // mov between registers and vectors of narrower ones
  kDecide,    // a branch or exit
  kSelect,    // selp: only the chosen source counts
  kShuffle,   // shfl: the lane read counts
  kWarpWide,  // any lane's taint is all lanes'
  kWgmma,
  kAccess,
  kMatrixRows,
  kTmemLoad,
  kTmemStore,
  kControl,  // barriers and asynchronous operations: any source decides something
  kNothing,  // hints
};

// What it costs, as a class; the timing model has figures for each by its name (cost_name).
enum class Cost : std::uint8_t {
  kFree,   // register allocation removes it
  kIssue,  // an issue slot and no unit
  kAlu,
  kLogic,  // 64-bit: kLogicWide
  kLogicWide,
  kIntegerAdd,  // 64-bit: kIntegerAddWide
  kIntegerAddWide,
  kMultiply,  // 64-bit: kMultiplyWide
  kMultiplyWide,
  kDivide,  // .approx, .full, f64 and integers: the next ones
  kDivideApprox,
  kDivideFull,
  kDivideLong,
  kDivideWide,
  kFloat,  // f32; f32x2, halves and f64: the next ones
  kFloatPair,
  kHalf,
  kDouble,
  kReciprocal,  // exact; .approx: kSpecial or kSpecialFull
  kSquareRoot,
  kSpecial,
  kSpecialFull,  // with subnormals
  kSine,
  kCountBits,
  kConvert,  // by its types one of the next
  kConvertWide,
  kIntegerToFloat,
  kSpecialRegister,
  kVote,
  kShuffle,
  kReduce,
  kMatchAny,
  kMatchAll,
  kGlobal,  // loads, stores and atomics by their space: one of the next
  kSharedLoad,
  kSharedStore,
  kSharedAtomic,
  kMatrixLoad,
  kMatrixStore,
  kNamedArrive,
  kNamedWait,
  kClusterArrive,  // .relaxed: the next
  kClusterArriveRelaxed,
  kClusterWait,
  kMbarrier,
  kMbarrierArrive,
  kMbarrierWait,
  kCopiesArrive,  // cp.async.mbarrier.arrive
  kFence,         // .cta: kFenceLight
  kFenceLight,
  kFenceProxy,
  kWgmmaFence,
  kCpAsync,
  kCopy,
  kCommit,
  kWait,
  kWgmmaWait,
  kMma,
  kWgmma,
  kTcgen05,
  kTcgen05Commit,
  kTmemAlloc,
  kTmemLoad,
  kTmemStore,
  kTmemWaitLoad,
  kTmemWaitStore,
  kCount,
};

// What keeps a compiler from moving it within straight-line code.
enum class Motion : std::uint8_t {
  kFree,     // its registers and, of an access, its space
  kOrdered,  // no access goes past it
  kFixed,    // nothing does
  kBranch,   // it ends the straight line
};

// What its result is to someone who follows an address through the text.
enum class Value : std::uint8_t {
  kOther,
  kCopy,
  kSum,
  kDifference,
  kProductSum,
  kNegation,
  kComplement,
  kAnd,
  kOr
};

// What it does to a barrier, of warps, of a cluster or in memory.
enum class BarrierAct : std::uint8_t { kNone, kInit, kInval, kArrive, kExpect, kWait, kTest, kCount };

// What it may end for others. Several bits for none.
enum Releases : std::uint8_t {
  kReleasesNothing = 0,
  kArrivesAtMbarrier = 1,
  kArrivesAtBarrier = 2,
  kArrivesAtCluster = 4,
  kReleasesTmem = 8,
  kIssuesWgmma = 16,
};

// Where it names the mbarrier that it initialises, arrives at, signals or waits for.
enum class MbarrierAt : std::uint8_t { kNowhere, kAddress, kPayload };

const char* act_name(Act act);
const char* event_name(Event event);  // empty for kNone
const char* cost_name(Cost cost);
const char* taint_name(TaintRule rule);
const char* order_name(Order order);
const char* scope_name(Scope scope);
const char* space_name(Space space);
const char* barrier_act_name(BarrierAct act);  // empty for kNone

}  // namespace sglab::emu
