// One mma.sync of a warp, on registers that the caller has filled: whatever lies in them is what is
// multiplied.
//
//   D (16 × 8, float32) = A (16 × 16, float16) · B (16 × 8, float16)
#include <cstdint>

// a (32 lanes, 4 registers), b (32, 2): two halves to a register; d (32, 4).
extern "C" __global__ void __launch_bounds__(32)
    mma_m16n8k16(const uint32_t* a, const uint32_t* b, float* d) {
  const int lane = threadIdx.x;
  const uint32_t *mine_a = a + 4 * lane, *mine_b = b + 2 * lane;
  float sum[4] = {};
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(mine_a[0]), "r"(mine_a[1]), "r"(mine_a[2]), "r"(mine_a[3]), "r"(mine_b[0]), "r"(mine_b[1]));
  for (int i = 0; i < 4; ++i) d[4 * lane + i] = sum[i];
}
