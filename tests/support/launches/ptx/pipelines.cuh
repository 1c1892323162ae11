// What pipelines_sm90.cu and pipelines_sm100.cu share: mbarriers and TMA are the kernels' own.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "../../../../csrc/kernels/ptx/address.cuh"
#include "../../../../csrc/kernels/ptx/barrier.cuh"
#include "../../../../csrc/kernels/ptx/elect.cuh"
#include "../../../../csrc/kernels/ptx/fence.cuh"
#include "../../../../csrc/kernels/ptx/tma.cuh"

constexpr int kStages = 2;
