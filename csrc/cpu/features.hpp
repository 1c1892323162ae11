#pragma once

namespace sglab::cpu {

// Instruction sets the hot loops are compiled for; picked once, at run time.
enum class Isa { kBaseline, kAvx2, kAvx512 };

// The best set this machine supports (operating-system support included).
Isa best_isa();

// The set in use: best_isa(), or a lower one named by SGLAB_ISA (baseline, avx2, avx512).
Isa active_isa();

const char* isa_name(Isa isa);

// Products of bfloat16 beyond AVX-512, where the machine has them; none where SGLAB_ISA is set.
bool has_avx512_bf16();
// AMX's tiles. Linux gives a process their registers on request, which this makes once.
bool has_amx_bf16();

}  // namespace sglab::cpu
