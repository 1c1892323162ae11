// The driver's interface: a program without nvcc's host code that loads PTX, as libraries and compilers' run
// times do. Argument: a PTX file. A line for each part.
#include <cuda.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#define CHECK(call)                                                 \
  if (const CUresult status = (call); status != CUDA_SUCCESS) {     \
    const char *name = "?", *text = "?";                            \
    cuGetErrorName(status, &name), cuGetErrorString(status, &text); \
    std::printf("%s: %s: %s\n", #call, name, text);                 \
    return 1;                                                       \
  }

const char* name_of(CUresult status) {
  const char* name = "?";
  cuGetErrorName(status, &name);
  return name;
}

int main(int, char** arguments) {
  std::ifstream file(arguments[1]);
  const std::string ptx{std::istreambuf_iterator<char>(file), {}};
  CUdevice device;
  std::printf("early: %s", name_of(cuDeviceGet(&device, 0)));
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  int major, sms;
  CHECK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  CHECK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
  CUdeviceptr x, y;
  std::printf(" %s, sm %d, %d SMs\n", name_of(cuMemAlloc(&x, 64)), major, sms);
  CUcontext context;
  CHECK(cuCtxCreate(&context, nullptr, 0, device));

  CUmodule module;
  CUfunction scale;
  std::printf("no PTX: %s", name_of(cuModuleLoadData(&module, "not a module")));
  CHECK(cuModuleLoadData(&module, ptx.c_str()));
  std::printf(", no kernel: %s\n", name_of(cuModuleGetFunction(&scale, module, "missing")));
  CHECK(cuModuleGetFunction(&scale, module, "scale"));
  size_t offset, bytes;
  CHECK(cuFuncGetParamInfo(scale, 2, &offset, &bytes));
  CUdeviceptr factor;
  size_t factor_bytes;
  CHECK(cuModuleGetGlobal(&factor, &factor_bytes, module, "factor"));
  const int four = 4;
  CHECK(cuMemcpyHtoD(factor, &four, sizeof(four)));

  constexpr int kCount = 64;
  int host[kCount];
  for (int i = 0; i < kCount; ++i) host[i] = i;
  CHECK(cuMemAlloc(&x, sizeof(host)));
  CHECK(cuMemAlloc(&y, sizeof(host)));
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemcpyHtoDAsync(x, host, sizeof(host), stream));
  CHECK(cuMemsetD32Async(y, 7, kCount, stream));
  int add = 1;
  void* list[] = {&y, &x, &add};
  CHECK(cuLaunchKernel(scale, 2, 1, 1, 32, 1, 1, 0, stream, list, nullptr));
  CHECK(cuMemcpyDtoH(host, y, sizeof(host)));
  std::printf("launched: %d %d, argument 2 at %zu of %zu, variable of %zu\n", host[1], host[63], offset,
              bytes, factor_bytes);

  struct {
    CUdeviceptr out, in;
    int add;
  } packed{y, x, 100};
  size_t size = sizeof(packed);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  CUlaunchAttribute cluster{};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim = {2, 1, 1};
  CUlaunchConfig config{2, 1, 1, 32, 1, 1, 0, stream, &cluster, 1};
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(cuLaunchKernelEx(&config, scale, nullptr, extra));
  CUgraph graph;
  CUgraphExec executable;
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&executable, graph, 0));
  CHECK(cuGraphLaunch(executable, stream));
  CHECK(cuMemcpyDtoH(host, y, sizeof(host)));
  std::printf("packed, in a graph: %d %d\n", host[1], host[63]);

  CUtensorMap map, moved;
  const cuuint64_t sizes[] = {16, 4, 4, 2}, strides[] = {64, 256, 1024};
  const cuuint32_t ones[] = {1, 1, 1, 1};
  const int lower[] = {-1, -1}, upper[] = {-1, -1};
  CUdeviceptr image;
  CHECK(cuMemAlloc(&image, 2048));
  CHECK(cuTensorMapEncodeIm2col(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, reinterpret_cast<void*>(image),
                                sizes, strides, lower, upper, 16, 8, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  moved = map;
  CHECK(cuTensorMapReplaceAddress(&moved, reinterpret_cast<void*>(image + 1024)));
  float filled[512];
  for (int i = 0; i < 512; ++i) filled[i] = i;
  CHECK(cuMemcpyHtoD(image, filled, sizeof(filled)));
  CUfunction columns;
  CHECK(cuModuleGetFunction(&columns, module, "columns"));
  float column[128];
  CUdeviceptr out;
  CHECK(cuMemAlloc(&out, sizeof(column)));
  void* tensors[] = {&map, &out};
  CHECK(cuLaunchKernel(columns, 1, 1, 1, 32, 1, 1, 0, stream, tensors, nullptr));
  CHECK(cuMemcpyDtoH(column, out, sizeof(column)));
  // The box begins at (-1, -1) and is four pixels wide; with the filter's tap (1, 1): pixels 0 to 3 of rows 0
  // and 1.
  std::printf("im2col:");
  for (int pixel = 0; pixel < 8; ++pixel) std::printf(" %g", column[16 * pixel]);
  std::printf(", moved %s\n", std::memcmp(&map, &moved, sizeof(map)) == 0 ? "no" : "yes");

  const auto wide = [&](CUtensorMapSwizzle swizzle) {
    return cuTensorMapEncodeIm2colWide(
        &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, reinterpret_cast<void*>(image), sizes, strides, -1, -1, 16,
        8, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W, swizzle,
        CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  const CUresult plain = wide(CU_TENSOR_MAP_SWIZZLE_NONE);
  CHECK(wide(CU_TENSOR_MAP_SWIZZLE_64B));
  CHECK(cuModuleGetFunction(&columns, module, "wide_columns"));
  float row[160];
  CHECK(cuMemAlloc(&out, sizeof(row)));
  CHECK(cuLaunchKernel(columns, 1, 1, 1, 32, 1, 1, 0, stream, tensors, nullptr));
  CHECK(cuMemcpyDtoH(row, out, sizeof(row)));
  // Row 1 of both images, W = 0 to 3, then two pixels of the image that is not there. The swizzle moves
  // chunks of 16 bytes.
  std::printf("im2col::w:");
  for (int pixel = 0; pixel < 10; ++pixel) std::printf(" %g", row[16 * pixel + 4 * (pixel / 2 % 4)]);
  std::printf(", without a swizzle: %s\n", name_of(plain));

  void* function = nullptr;
  CUdriverProcAddressQueryResult found;
  CHECK(cuGetProcAddress("cuMemAlloc", &function, 13000, 0, &found));
  CHECK(reinterpret_cast<CUresult (*)(CUdeviceptr*, size_t)>(function)(&out, 64));
  std::printf("found: %d", found);
  std::printf(", missing: %s\n", name_of(cuGetProcAddress("cuNothing", &function, 13000, 0, &found)));
  CUdeviceptr base;
  size_t range;
  CHECK(cuMemGetAddressRange(&base, &range, y + 40));
  std::printf("range: %d %zu, twice freed: ", base == y, range);
  CHECK(cuMemFree(y));
  std::printf("%s", name_of(cuMemFree(y)));
  CHECK(cuModuleUnload(module));
  std::printf(", unloaded: %s\n",
              name_of(cuLaunchKernel(scale, 1, 1, 1, 32, 1, 1, 0, stream, list, nullptr)));
  return 0;
}
