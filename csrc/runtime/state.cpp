#include "runtime/state.hpp"

#include <cstdio>
#include <cstdlib>

#include "runtime/emulator_launcher.hpp"

namespace sglab::runtime {
namespace {

struct LastError {
  Status pending = kSuccess;  // until cudaGetLastError
  Status explained = kSuccess;
  std::string explanation;
};
thread_local LastError last_error;

// sm_90a PTX runs on 9.0 only, sm_100f PTX on 10.x; a plain target on everything not older.
bool runs_on(const std::string& ptx, int target, int device) {
  const std::size_t at = ptx.find(".target");
  const std::size_t end = ptx.find_first_of(",\n", at);
  const std::string name = at == std::string::npos ? "" : ptx.substr(at, end - at);
  if (name.find('a', 7) != std::string::npos) return target == device;
  if (name.find('f', 7) != std::string::npos) return target <= device && target / 10 == device / 10;
  return target <= device;
}

}  // namespace

State& State::get() {
  static State* const state = new State;  // outlives every host program's destructors
  return *state;
}

State::State() : launcher(launch_on_emulator), launcher_data(&threads), finder(find_variable) {
  const char* const wish = std::getenv("SGLAB_DEVICE");
  if (wish == nullptr) return;
  SglabDevice d = device;
  int name_at = 0;
  const int found =
      std::sscanf(wish, "%d.%d %d %d %d %d %d %d %d %n", &d.major, &d.minor, &d.sms, &d.smem_per_block,
                  &d.smem_per_sm, &d.max_cluster, &d.threads_per_sm, &d.ctas_per_sm, &threads, &name_at);
  if (found != 9) {
    std::fprintf(stderr, "sglab: SGLAB_DEVICE='%s' is not understood; the device is a B200\n", wish);
    threads = 1;
    return;
  }
  device = d;
  device_name = wish + name_at;
}

const FatbinPtx* State::ptx_for(const Module& module) {
  const FatbinPtx* best = nullptr;
  for (const FatbinPtx& ptx : module.fatbin.ptx) {
    if (!runs_on(ptx.text, ptx.capability, capability())) continue;
    if (best == nullptr || ptx.capability > best->capability) best = &ptx;
  }
  if (best != nullptr) return best;
  const std::string number = std::to_string(capability());
  std::string text = "the program holds no PTX that runs on sm_" + number;
  if (!module.fatbin.problem.empty()) text += ": " + module.fatbin.problem;
  if (module.fatbin.ptx.empty() && module.fatbin.machine_code_entries > 0) {
    text += ": only machine code; compile it with -gencode arch=compute_" + number + "a,code=compute_" +
            number + "a";
  } else if (module.fatbin.ptx.empty() && module.fatbin.problem.empty()) {
    text +=
        ": code that is linked for the device (-rdc=true), as launches from kernels need, does not run here";
  }
  fail(kNoKernelImageForDevice, text);
  return nullptr;
}

Status fail(Status status, std::string explanation) {
  last_error = {status, status, std::move(explanation)};
  return status;
}

Status earlier_fault() {
  State& state = State::get();
  const std::lock_guard lock(state.mutex);
  return state.fault == kSuccess ? kSuccess : fail(state.fault, state.fault_text);
}
Status last_status(bool clear) {
  const Status status = last_error.pending;
  if (clear) last_error.pending = kSuccess;
  return status;
}

const char* explanation_of(Status status) {
  const bool known = last_error.explained == status && !last_error.explanation.empty();
  return known ? last_error.explanation.c_str() : nullptr;
}

}  // namespace sglab::runtime
