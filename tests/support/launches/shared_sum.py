"""A small kernel of one's own with one thing wrong: it reads shared memory that it never wrote."""

SHARED_SUM = r"""
.version 8.5
.target sm_90
.address_size 64
.visible .entry shared_sum(.param .u64 out)
{
  .reg .b64 %d<4>;
  .reg .b32 %r<8>;
  .reg .f32 %f<4>;
  .reg .pred %p<2>;
  .shared .align 4 .b8 part[512];
  ld.param.u64 %d1, [out];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, part;
  add.u32 %r3, %r3, %r2;
  mov.f32 %f1, 0f3F800000;
  st.shared.f32 [%r3], %f1;
  bar.sync 0;
  ld.shared.f32 %f2, [%r3+256];
  cvt.u64.u32 %d2, %r2;
  add.u64 %d3, %d1, %d2;
  st.global.f32 [%d3], %f2;
  ret;
}
"""
"""One block of 64 threads; `out` takes 64 floats. The second half of `part` is read uninitialised."""
