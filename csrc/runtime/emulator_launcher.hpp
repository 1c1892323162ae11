#pragma once

#include <string>
#include <vector>

#include "runtime/launcher.hpp"
#include "runtime/state.hpp"

namespace sglab::runtime {

// Runs a launch on the emulator inside this library: for programs that nothing supervises.
// `user` points to the number of threads to use.
const char* launch_on_emulator(const SglabLaunch* request, void* user);

// A SglabFinder for modules that this library runs itself.
void* find_variable(const char* ptx, std::uint64_t ptx_bytes, const char* variable, std::uint64_t* bytes);

// Where a kernel's parameters lie in a packed block of them; an error is recorded if its PTX cannot be read.
struct ParameterPlace {
  std::uint32_t offset, bytes;
};
Status parameters_of(const FatbinPtx& ptx, const std::string& kernel, std::vector<ParameterPlace>& places);

// CTAs of `kernel` that an SM of `device` holds at once. As the emulator counts, static shared memory
// included.
Status resident_ctas(const FatbinPtx& ptx, const std::string& kernel, std::uint64_t threads,
                     std::uint64_t smem, const SglabDevice& device, int& ctas);

}  // namespace sglab::runtime
