// Lab 10b: out[tile][chunk][row] = x[tile][row][chunk], where a chunk is 16 bytes (a float4), 32 rows of 8 chunks per tile;
// a CTA of 256 threads per tile: each moves one chunk in and one chunk out.
//
// Through 4096 bytes of shared memory, no padding, no bank conflict: this is how ldmatrix and wgmma find their operands.
extern "C" __global__ void chunks(const float4* x, float4* out) {
}
