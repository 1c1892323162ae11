#!/bin/sh
# Compiles the kernels of this folder to the PTX beside them (nvcc 13.0).
set -e
cd "$(dirname "$0")"
compile() {
  nvcc -std=c++20 -lineinfo -arch="$2" -ptx "$1.cu" -o "$1.ptx"
  sed -i -E 's,"/.*/([^/"]+)","\1",' "$1.ptx"
}
compile session sm_90
compile pipelines_sm90 sm_90a
compile pipelines_sm100 sm_100a
