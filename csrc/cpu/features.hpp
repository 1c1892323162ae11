#pragma once

namespace sglab::cpu {

// Instruction sets the hot loops are compiled for; picked once, at run time.
enum class Isa { kBaseline, kAvx2, kAvx512 };

// The best set this machine supports (operating-system support included).
Isa best_isa();

// The set in use: best_isa(), or a lower one named by SGLAB_ISA (baseline, avx2, avx512).
Isa active_isa();

const char* isa_name(Isa isa);

}  // namespace sglab::cpu
