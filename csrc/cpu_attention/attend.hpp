#pragma once

#include <string>
#include <vector>

#include "cpu_attention/call.hpp"

namespace sglab::cpu_attention {

// The instruction sets this machine can run, best first; "amx_model" is last: it runs everywhere and is asked
// for by name alone. SGLAB_ISA lowers the best.
std::vector<std::string> available_kernels();

// Attention on up to call.threads threads. The same bits come from any number of them. `isa` is one of
// available_kernels(), or empty for the best.
// Throws std::invalid_argument for another.
void attend(const Call& call, const std::string& isa);

}  // namespace sglab::cpu_attention
