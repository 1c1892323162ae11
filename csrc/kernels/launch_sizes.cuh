// What a kernel is to be launched with, written as a comment into its PTX: build_ptx.py reads it from there,
// so that the host's code has the numbers from the source that decides them. No instruction comes of it.
#pragma once

#define SGLAB_LAUNCH_SIZES(THREADS, SHARED_BYTES)                                             \
  asm volatile("// launch with %0 threads, %1 bytes of dynamic shared memory" ::"n"(THREADS), \
               "n"(SHARED_BYTES))
