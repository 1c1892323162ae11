#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "isa/aperture.hpp"
#include "isa/effects.hpp"
#include "isa/extra.hpp"
#include "isa/inst.hpp"
#include "machine/program/early_uses.hpp"
#include "machine/program/image.hpp"

namespace sglab::emu {

// Bytes of local memory that a thread may have, all calls together; as on a GPU.
constexpr std::uint64_t kMostLocal = 512 << 10;

// Where an instruction comes from.
struct Place {
  std::uint32_t line;               // in the PTX text; 0 for instructions the decoder added
  std::uint32_t location;           // Module::locations, or kNoIndex
  std::uint32_t function;           // Program::functions
  std::uint32_t opcode = kNoIndex;  // Module::opcodes; kNoIndex for instructions the decoder added
};

// What observers of launches work out about a program, at the first that needs it.
class WorkedOut {
 public:
  template <class T, class F>
  const T& get(F make) {
    std::call_once(once_, [&] { value_ = std::make_shared<const T>(make()); });
    return *static_cast<const T*>(value_.get());
  }

 private:
  std::once_flag once_;
  std::shared_ptr<const void> value_;
};

// When a register's place is its own, in half steps: instruction i reads at 2i and writes at 2i+1.
struct Lifetime {
  std::uint32_t start = 0xffffffffu, end = 0;
};

// A register that an instruction reads or writes.
struct Mention {
  std::uint32_t inst;
  Ref place;            // as in Program::registers
  std::uint16_t field;  // of Inst; see Field
  bool definition;
  bool predicate;
};

// Lane-local bytes that hold a .func's parameter, or a copy made by a call.
struct ParameterSlot {
  std::uint32_t offset;
  std::uint32_t bytes;
};

// A register's storage: 32 lanes of `lane_bytes` each.
struct RegisterSlot {
  Ref place;
  std::uint32_t lane_bytes;
};

struct ProgramFunction {
  std::uint32_t source;              // Module::functions
  std::uint32_t begin = 0, end = 0;  // its code
  std::uint32_t first_register = 0;  // its registers among Program::registers
  std::vector<ParameterSlot> parameters, returns;
  bool recursive = false;           // may be called again before it returns
  std::vector<RegisterSlot> slots;  // everything it keeps: registers,
  std::uint32_t first_predicate = 0, end_predicate = 0;
  std::vector<ParameterSlot> locals;  // and its part of local memory
};

// Cache-line aligned bytes, zero at first.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(std::size_t bytes);
  std::uint8_t* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  std::unique_ptr<std::uint8_t, Freed> memory_;
  std::uint8_t* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// One kernel and the functions it calls, ready to run.
struct Program {
  std::shared_ptr<const Image> image;
  std::uint32_t source = 0;  // Module::functions
  std::string name;
  std::vector<Inst> code;
  std::vector<Place> places;         // by instruction
  std::vector<Effects> effects;      // by instruction
  std::vector<std::uint32_t> order;  // by instruction: the lower, the sooner diverged lanes should run it
  std::deque<Extra> extras;
  AlignedBytes constants;
  std::vector<ProgramFunction> functions;
  std::vector<Ref> registers;         // by virtual register; kConstantRef: never used
  std::vector<Lifetime> lifetimes;    // by virtual register
  std::vector<Mention> mentions;      // in the order of the code
  std::vector<EarlyUse> early_uses;   // of registers that an asynchronous instruction has yet to fill
  std::vector<Mention> unset;         // registers that the kernel may read before it writes them
  std::uint32_t register_bytes = 0;   // per warp
  std::uint32_t predicates = 3;       // per warp
  std::uint32_t shared_bytes = 0;     // static, after the reserved kilobyte
  std::uint32_t dynamic_shared = 0;   // offset where dynamic shared memory starts
  std::uint32_t local_bytes = 0;      // per lane
  bool uses_reserved_shared = false;  // by %reserved_smem_offset_1
  bool uses_grid_workspace = false;   // by %envreg1 and 2, where cooperative groups find a grid's barrier
  bool uses_clock = false;            // what it does may depend on how much has run
  bool uses_device_heap = false;      // by malloc and free
  std::uint64_t likely_length = 0;    // instructions of a warp, if loops are run 32 times
  bool clusters_meet = false;         // what one does may be seen by another, or in the order of their output
  std::vector<ParameterSlot> parameters;
  std::uint32_t parameter_bytes = 0;
  // Offset of the first byte of shared memory that the kernel may touch.
  std::uint32_t first_shared() const { return uses_reserved_shared ? kSharedForGroups : kSharedReserved; }
  std::vector<std::string> unsupported;  // why it cannot be launched, one line per distinct cause
  std::unique_ptr<WorkedOut> wgmma_uses = std::make_unique<WorkedOut>();
  std::unique_ptr<WorkedOut> joins = std::make_unique<WorkedOut>();
};

// Never throws for unknown instructions: they are listed in Program::unsupported. Throws PtxError;
// Interrupted if `interrupted`, asked every 30 ms, says so.
std::unique_ptr<Program> decode_kernel(std::shared_ptr<const Image> image, std::uint32_t function,
                                       const std::function<bool()>& interrupted = {});

// The mnemonic with its modifiers; empty for instructions the decoder added.
std::string_view opcode_of(const Program& program, std::uint32_t pc);

// "file.cu:12" or empty.
std::string source_of(const Module& module, std::uint32_t location);

}  // namespace sglab::emu
