#pragma once

#include "machine/program/builder.hpp"

// Builders of instructions that load or store registers, whatever their names.
namespace sglab::emu::SGLAB_ISA {

void build_load(Builder& b);
void build_store(Builder& b);

}  // namespace sglab::emu::SGLAB_ISA
