// Thrust's algorithms on device pointers.
#include <thrust/adjacent_difference.h>
#include <thrust/binary_search.h>
#include <thrust/count.h>
#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/extrema.h>
#include <thrust/gather.h>
#include <thrust/inner_product.h>
#include <thrust/merge.h>
#include <thrust/partition.h>
#include <thrust/reduce.h>
#include <thrust/remove.h>
#include <thrust/reverse.h>
#include <thrust/scan.h>
#include <thrust/scatter.h>
#include <thrust/set_operations.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/unique.h>

struct IsEven {
  __host__ __device__ bool operator()(int x) const { return x % 2 == 0; }
};
struct Square {
  __host__ __device__ float operator()(float x) const { return x * x; }
};

const auto kOn = thrust::device;

extern "C" {
long sort(int* x, long n) { thrust::sort(kOn, x, x + n); return 0; }
long stable_sort_by_key(float* keys, int* values, long n) { thrust::stable_sort_by_key(kOn, keys, keys + n, values); return 0; }
long reduce(double* x, double* out, long n) { *out = thrust::reduce(kOn, x, x + n, 0.0); return 0; }
long inner_product(double* x, double* y, double* out, long n) {
  *out = thrust::inner_product(kOn, x, x + n, y, 0.0);
  return 0;
}
long transform(float* x, float* out, long n) { thrust::transform(kOn, x, x + n, out, Square{}); return 0; }
long transform_reduce(double* x, double* out, long n) {
  *out = thrust::transform_reduce(kOn, x, x + n, cuda::std::negate<>{}, 0.0, cuda::std::plus<>{});
  return 0;
}
long inclusive_scan(int* x, int* out, long n) { thrust::inclusive_scan(kOn, x, x + n, out); return 0; }
long exclusive_scan(int* x, int* out, long n) { thrust::exclusive_scan(kOn, x, x + n, out, 7); return 0; }
long count_if(int* x, long* out, long n) { *out = thrust::count_if(kOn, x, x + n, IsEven{}); return 0; }
long copy_if(int* x, int* out, long* count, long n) {
  *count = thrust::copy_if(kOn, x, x + n, out, IsEven{}) - out;
  return 0;
}
long remove_if(int* x, long* count, long n) { *count = thrust::remove_if(kOn, x, x + n, IsEven{}) - x; return 0; }
long unique(int* x, long* count, long n) { *count = thrust::unique(kOn, x, x + n) - x; return 0; }
long partition(int* x, long* count, long n) { *count = thrust::stable_partition(kOn, x, x + n, IsEven{}) - x; return 0; }
long max_element(float* x, long* at, long n) { *at = thrust::max_element(kOn, x, x + n) - x; return 0; }
long lower_bound(int* x, int* wanted, int* out, long n, long m) {
  thrust::lower_bound(kOn, x, x + n, wanted, wanted + m, out);
  return 0;
}
long merge(int* a, int* b, int* out, long n, long m) { thrust::merge(kOn, a, a + n, b, b + m, out); return 0; }
long set_intersection(int* a, int* b, int* out, long* count, long n, long m) {
  *count = thrust::set_intersection(kOn, a, a + n, b, b + m, out) - out;
  return 0;
}
long reduce_by_key(int* keys, int* in, int* unique, int* sums, long* count, long n) {
  *count = thrust::reduce_by_key(kOn, keys, keys + n, in, unique, sums).first - unique;
  return 0;
}
long gather(int* map, float* x, float* out, long n) { thrust::gather(kOn, map, map + n, x, out); return 0; }
long scatter(float* x, int* map, float* out, long n) { thrust::scatter(kOn, x, x + n, map, out); return 0; }
long reverse(int* x, long n) { thrust::reverse(kOn, x, x + n); return 0; }
long adjacent_difference(int* x, int* out, long n) { thrust::adjacent_difference(kOn, x, x + n, out); return 0; }
}
