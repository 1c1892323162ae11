// CUB's device-wide algorithms. Each is called twice: for the size of its storage, then to run.
#include <cub/cub.cuh>

template <typename Call>
long in_storage(Call call) {
  void* storage = nullptr;
  std::size_t bytes = 0;
  if (cudaError_t e = call(storage, bytes)) return e;
  if (cudaError_t e = cudaMalloc(&storage, bytes)) return e;
  if (cudaError_t e = call(storage, bytes)) return e;
  if (cudaError_t e = cudaDeviceSynchronize()) return e;
  return cudaFree(storage);
}

#define CALL(...) in_storage([&](void* s, std::size_t& b) { return __VA_ARGS__; })

struct IsEven {
  __host__ __device__ bool operator()(int x) const { return x % 2 == 0; }
};

extern "C" {
long reduce_sum_int(int* in, long* out, long n) { return CALL(cub::DeviceReduce::Sum(s, b, in, out, n)); }
long reduce_sum_double(double* in, double* out, long n) { return CALL(cub::DeviceReduce::Sum(s, b, in, out, n)); }
long reduce_min(float* in, float* out, long n) { return CALL(cub::DeviceReduce::Min(s, b, in, out, n)); }
long reduce_arg_max(float* in, float* out, long* at, long n) {
  return CALL(cub::DeviceReduce::ArgMax(s, b, in, out, at, n));
}
long reduce_by_key(int* keys, int* unique, int* in, int* sums, int* runs, long n) {
  return CALL(cub::DeviceReduce::ReduceByKey(s, b, keys, unique, in, sums, runs, cuda::std::plus<>{}, int(n)));
}
long segmented_reduce(float* in, float* out, int* offsets, long segments) {
  return CALL(cub::DeviceSegmentedReduce::Sum(s, b, in, out, int(segments), offsets, offsets + 1));
}
long scan_exclusive(int* in, int* out, long n) { return CALL(cub::DeviceScan::ExclusiveSum(s, b, in, out, int(n))); }
long scan_inclusive(double* in, double* out, long n) {
  return CALL(cub::DeviceScan::InclusiveSum(s, b, in, out, int(n)));
}
long scan_by_key(int* keys, int* in, int* out, long n) {
  return CALL(cub::DeviceScan::InclusiveSumByKey(s, b, keys, in, out, int(n)));
}
long radix_sort_int(int* in, int* out, long n) { return CALL(cub::DeviceRadixSort::SortKeys(s, b, in, out, int(n))); }
long radix_sort_pairs(float* in, float* out, int* v, int* order, long n) {
  return CALL(cub::DeviceRadixSort::SortPairsDescending(s, b, in, out, v, order, int(n)));
}
long merge_sort(float* keys, long n) {
  return CALL(cub::DeviceMergeSort::SortKeys(s, b, keys, int(n), cuda::std::less<>{}));
}
long segmented_sort(float* in, float* out, int* offsets, long n, long segments) {
  return CALL(cub::DeviceSegmentedSort::SortKeys(s, b, in, out, int(n), int(segments), offsets, offsets + 1));
}
long select_if(int* in, int* out, int* count, long n) {
  return CALL(cub::DeviceSelect::If(s, b, in, out, count, int(n), IsEven{}));
}
long select_flagged(int* in, int* flags, int* out, int* count, long n) {
  return CALL(cub::DeviceSelect::Flagged(s, b, in, flags, out, count, int(n)));
}
long select_unique(int* in, int* out, int* count, long n) {
  return CALL(cub::DeviceSelect::Unique(s, b, in, out, count, int(n)));
}
long partition_if(int* in, int* out, int* count, long n) {
  return CALL(cub::DevicePartition::If(s, b, in, out, count, int(n), IsEven{}));
}
long run_length_encode(int* in, int* unique, int* lengths, int* count, long n) {
  return CALL(cub::DeviceRunLengthEncode::Encode(s, b, in, unique, lengths, count, int(n)));
}
long histogram(float* in, int* out, long n) {
  return CALL(cub::DeviceHistogram::HistogramEven(s, b, in, out, 33, -4.0f, 4.0f, int(n)));
}
long adjacent_difference(int* in, int* out, long n) {
  return CALL(cub::DeviceAdjacentDifference::SubtractLeftCopy(s, b, in, out, int(n), cuda::std::minus<>{}));
}
long merge(int* a, int* c, int* out, long n, long m) {
  return CALL(cub::DeviceMerge::MergeKeys(s, b, a, int(n), c, int(m), out, cuda::std::less<>{}));
}
}
