// Lab 10a: out[tile][column][row] = x[tile][row][column], tiles of 32 x 32 floats; a CTA of 256 threads per tile.
//
// Global memory is read and written 128 bytes at a time by a warp, so the tile goes through 4096 bytes of shared memory.
// No padding, no bank conflict.
extern "C" __global__ void transpose(const float* x, float* out) {
}
