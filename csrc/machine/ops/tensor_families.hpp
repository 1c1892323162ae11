#pragma once

#include "isa/table.hpp"

namespace sglab::emu {

// Instruction families of mbarriers, the async proxy and the tensor cores; all compiled once.
void register_mbarrier(Table& table);
void register_bulk_copy(Table& table);
void register_tensor_copy(Table& table);
void register_tensor_maps(Table& table);
void register_cp_async(Table& table);
void register_matrix(Table& table);
void register_wgmma(Table& table);
void register_tensor_memory(Table& table);
void register_tcgen05(Table& table);
void register_wmma(Table& table);
void register_cluster_launch(Table& table);

}  // namespace sglab::emu
