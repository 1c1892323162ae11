// Lab 11a: out[column] += sum over rows of x[row][column], as given.cu does, with copies in flight while a tile is summed.
// x (tiles * 16, 64) float32, a tile is 16 rows (4096 bytes); one CTA of 128 threads.
#include "address.cuh"   // ptx::smem_address
#include "cp_async.cuh"  // ptx::cp_async_16, cp_async_commit_group, cp_async_wait_group<N>

extern "C" __global__ void sum_columns(const float* x, float* out, int tiles) {
}
