// What the runtime knows: the device it plays, registered modules and kernels, memory, the last error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime/abi.hpp"
#include "runtime/fatbin.hpp"
#include "runtime/launcher.hpp"

namespace sglab::runtime {

constexpr int kSmemWithoutOptIn = 48 * 1024;

struct Module {
  Fatbin fatbin;
};

struct Function {
  Module* module;
  std::string name;
  int max_dynamic_smem = kSmemWithoutOptIn;
  bool non_portable_cluster = false;
};

struct Variable {
  Module* module;
  std::string name;
  std::size_t bytes;
};

// One per process. The device is a B200, or what SGLAB_DEVICE says ("10.0 148 232448 233472 16 2048 32 1 a
// name": capability, SMs, shared memory per CTA and per SM, largest cluster, threads, name). Every member is
// guarded by `mutex`. Launches run one at a time, like a single stream.
class State {
 public:
  static State& get();
  State();

  std::recursive_mutex mutex;
  std::string device_name = "sglab's emulated GPU";
  SglabDevice device{nullptr, 10, 0, 148, 232448, 233472, 16, 2048, 32};
  int threads = 1;
  SglabLauncher launcher;
  void* launcher_data;
  SglabFinder finder;                                  // null: variables cannot be reached
  std::deque<Module> modules;                          // of host programs, registered at their start
  std::deque<Module> loaded;                           // by the driver's calls
  std::map<const void*, Function> functions;           // by the address of the host stub
  std::map<const void*, Variable> variables;           // by the address of the host's copy
  std::map<std::uint64_t, std::uint64_t> allocations;  // address to bytes
  bool keeps_freed = false;                            // cudaFree leaves the memory where it is,
  std::vector<void*> kept;                             // here
  std::set<std::uint64_t> graph_memory;                // of graphs: cudaFree only takes it away from kernels
  Status fault = kSuccess;                             // of a kernel of a program of its own: every later
  std::string fault_text;                              // call that works or waits gives it again

  int capability() const { return device.major * 10 + device.minor; }
  // The PTX of `module` for the device; null, with an error recorded, if there is none.
  const FatbinPtx* ptx_for(const Module& module);
};

// Records an error of this thread, with an explanation for people, and returns it.
Status fail(Status status, std::string explanation);
Status last_status(bool clear);
// The fault that an earlier kernel ended in, recorded once more; kSuccess if there was none.
Status earlier_fault();
// The explanation if `status` is this thread's last error, else null.
const char* explanation_of(Status status);

}  // namespace sglab::runtime
