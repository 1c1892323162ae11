// Kernels of one CTA around CUB's warp and block primitives: in, out, and what they are called with.
#include <cub/block/block_shuffle.cuh>
#include <cub/cub.cuh>

constexpr int kThreads = 128, kItems = 4, kTile = kThreads * kItems;

#define LAUNCH(name, parameters, arguments, ...) \
  extern "C" long name parameters {              \
    __VA_ARGS__<<<1, kThreads>>> arguments;      \
    return cudaGetLastError();                   \
  }

template <typename T, int kWidth>
__global__ void warp_reduce(const T* in, T* sums, T* maxima) {
  using Reduce = cub::WarpReduce<T, kWidth>;
  __shared__ typename Reduce::TempStorage storage[kThreads / kWidth];
  const int group = threadIdx.x / kWidth;
  const T sum = Reduce(storage[group]).Sum(in[threadIdx.x]);
  __syncwarp();
  const T most = Reduce(storage[group]).Reduce(in[threadIdx.x], [](T a, T b) { return a < b ? b : a; });
  if (threadIdx.x % kWidth == 0) {
    sums[group] = sum;
    maxima[group] = most;
  }
}

template <typename T, int kWidth>
__global__ void warp_scan(const T* in, T* inclusive, T* exclusive) {
  using Scan = cub::WarpScan<T, kWidth>;
  __shared__ typename Scan::TempStorage storage[kThreads / kWidth];
  T own, before;
  Scan(storage[threadIdx.x / kWidth]).InclusiveSum(in[threadIdx.x], own);
  __syncwarp();
  Scan(storage[threadIdx.x / kWidth]).ExclusiveSum(in[threadIdx.x], before);
  inclusive[threadIdx.x] = own;
  exclusive[threadIdx.x] = before;
}

template <typename T>
__global__ void warp_merge_sort(const T* in, T* out) {
  using Sort = cub::WarpMergeSort<T, kItems, 32>;
  __shared__ typename Sort::TempStorage storage[kThreads / 32];
  T keys[kItems];
  for (int i = 0; i < kItems; ++i) keys[i] = in[threadIdx.x * kItems + i];
  Sort(storage[threadIdx.x / 32]).Sort(keys, [](T a, T b) { return a < b; });
  for (int i = 0; i < kItems; ++i) out[threadIdx.x * kItems + i] = keys[i];
}

template <typename T, int kWidth, cub::WarpExchangeAlgorithm kAlgorithm>
__global__ void warp_exchange(const T* in, T* out) {
  using Exchange = cub::WarpExchange<T, kItems, kWidth, kAlgorithm>;
  __shared__ typename Exchange::TempStorage storage[kThreads / kWidth];
  T items[kItems];
  for (int i = 0; i < kItems; ++i) items[i] = in[threadIdx.x * kItems + i];
  Exchange(storage[threadIdx.x / kWidth]).BlockedToStriped(items, items);
  for (int i = 0; i < kItems; ++i) out[threadIdx.x * kItems + i] = items[i];
}

template <typename T, cub::WarpLoadAlgorithm kLoad, cub::WarpStoreAlgorithm kStore>
__global__ void warp_copy(const T* in, T* out) {
  using Load = cub::WarpLoad<T, kItems, kLoad>;
  using Store = cub::WarpStore<T, kItems, kStore>;
  __shared__ union Both {
    typename Load::TempStorage load;
    typename Store::TempStorage store;
  } storage[kThreads / 32];
  const int warp = threadIdx.x / 32, first = warp * 32 * kItems;
  T items[kItems];
  Load(storage[warp].load).Load(in + first, items);
  for (int i = 0; i < kItems; ++i) items[i] = items[i] * T(2) + T(threadIdx.x);
  __syncwarp();
  Store(storage[warp].store).Store(out + first, items);
}

template <typename T, cub::BlockReduceAlgorithm kAlgorithm>
__global__ void block_reduce(const T* in, T* out) {
  using Reduce = cub::BlockReduce<T, kThreads, kAlgorithm>;
  __shared__ typename Reduce::TempStorage storage;
  T items[kItems];
  cub::LoadDirectBlocked(threadIdx.x, in, items);
  const T sum = Reduce(storage).Sum(items);
  if (threadIdx.x == 0) *out = sum;
}

template <typename T, cub::BlockScanAlgorithm kAlgorithm>
__global__ void block_scan(const T* in, T* inclusive, T* exclusive) {
  using Scan = cub::BlockScan<T, kThreads, kAlgorithm>;
  __shared__ typename Scan::TempStorage storage;
  T items[kItems], sums[kItems];
  cub::LoadDirectBlocked(threadIdx.x, in, items);
  Scan(storage).InclusiveSum(items, sums);
  cub::StoreDirectBlocked(threadIdx.x, inclusive, sums);
  __syncthreads();
  Scan(storage).ExclusiveSum(items, sums);
  cub::StoreDirectBlocked(threadIdx.x, exclusive, sums);
}

template <typename T, bool kDescending>
__global__ void block_radix_sort(const T* keys, const int* values, T* sorted, int* order) {
  using Sort = cub::BlockRadixSort<T, kThreads, kItems, int>;
  __shared__ typename Sort::TempStorage storage;
  T k[kItems];
  int v[kItems];
  cub::LoadDirectBlocked(threadIdx.x, keys, k);
  cub::LoadDirectBlocked(threadIdx.x, values, v);
  if constexpr (kDescending) Sort(storage).SortDescending(k, v);
  else Sort(storage).Sort(k, v);
  cub::StoreDirectBlocked(threadIdx.x, sorted, k);
  cub::StoreDirectBlocked(threadIdx.x, order, v);
}

template <typename T>
__global__ void block_merge_sort(const T* keys, T* sorted) {
  using Sort = cub::BlockMergeSort<T, kThreads, kItems>;
  __shared__ typename Sort::TempStorage storage;
  T k[kItems];
  cub::LoadDirectBlocked(threadIdx.x, keys, k);
  Sort(storage).Sort(k, [](T a, T b) { return a < b; });
  cub::StoreDirectBlocked(threadIdx.x, sorted, k);
}

enum Movement { kToStriped, kToBlocked, kToWarpStriped, kScatter };
template <typename T, Movement kMovement>
__global__ void block_exchange(const T* in, const int* ranks, T* out) {
  using Exchange = cub::BlockExchange<T, kThreads, kItems>;
  __shared__ typename Exchange::TempStorage storage;
  T items[kItems];
  int places[kItems];
  cub::LoadDirectBlocked(threadIdx.x, in, items);
  cub::LoadDirectBlocked(threadIdx.x, ranks, places);
  if constexpr (kMovement == kToStriped) Exchange(storage).BlockedToStriped(items, items);
  if constexpr (kMovement == kToBlocked) Exchange(storage).StripedToBlocked(items, items);
  if constexpr (kMovement == kToWarpStriped) Exchange(storage).BlockedToWarpStriped(items, items);
  if constexpr (kMovement == kScatter) Exchange(storage).ScatterToBlocked(items, items, places);
  cub::StoreDirectBlocked(threadIdx.x, out, items);
}

template <cub::BlockHistogramAlgorithm kAlgorithm>
__global__ void block_histogram(const int* in, int* out) {
  using Histogram = cub::BlockHistogram<unsigned char, kThreads, kItems, 64, kAlgorithm>;
  __shared__ typename Histogram::TempStorage storage;
  __shared__ int counts[64];
  unsigned char items[kItems];
  for (int i = 0; i < kItems; ++i) items[i] = in[threadIdx.x * kItems + i];
  Histogram(storage).Histogram(items, counts);
  __syncthreads();
  if (threadIdx.x < 64) out[threadIdx.x] = counts[threadIdx.x];
}

template <typename T, cub::BlockLoadAlgorithm kLoad, cub::BlockStoreAlgorithm kStore>
__global__ void block_copy(const T* in, T* out, int valid) {
  using Load = cub::BlockLoad<T, kThreads, kItems, kLoad>;
  using Store = cub::BlockStore<T, kThreads, kItems, kStore>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Store::TempStorage store;
  } storage;
  T items[kItems];
  Load(storage.load).Load(in, items, valid, T(0));
  for (T& item : items) item = item * T(3) + T(1);
  __syncthreads();
  Store(storage.store).Store(out, items, valid);
}

__global__ void block_shuffle(const int* in, int* up, int* offset) {
  using Shuffle = cub::BlockShuffle<int, kThreads>;
  __shared__ typename Shuffle::TempStorage storage;
  int moved = in[threadIdx.x];
  Shuffle(storage).Offset(in[threadIdx.x], moved, 5);
  offset[threadIdx.x] = moved;
  __syncthreads();
  int items[kItems], previous[kItems];
  cub::LoadDirectBlocked(threadIdx.x, in, items);
  previous[0] = -1;
  Shuffle(storage).Up(items, previous);
  cub::StoreDirectBlocked(threadIdx.x, up, previous);
}

__global__ void block_discontinuity(const int* in, int* heads, int* tails) {
  using Discontinuity = cub::BlockDiscontinuity<int, kThreads>;
  __shared__ typename Discontinuity::TempStorage storage;
  int items[kItems], first[kItems], last[kItems];
  cub::LoadDirectBlocked(threadIdx.x, in, items);
  Discontinuity(storage).FlagHeadsAndTails(first, last, items, cuda::std::not_equal_to<>{});
  cub::StoreDirectBlocked(threadIdx.x, heads, first);
  cub::StoreDirectBlocked(threadIdx.x, tails, last);
}

__global__ void block_adjacent_difference(const int* in, int* left, int* right) {
  using Difference = cub::BlockAdjacentDifference<int, kThreads>;
  __shared__ typename Difference::TempStorage storage;
  int items[kItems], out[kItems];
  cub::LoadDirectBlocked(threadIdx.x, in, items);
  Difference(storage).SubtractLeft(items, out, cuda::std::minus<>{});
  cub::StoreDirectBlocked(threadIdx.x, left, out);
  __syncthreads();
  Difference(storage).SubtractRight(items, out, cuda::std::minus<>{});
  cub::StoreDirectBlocked(threadIdx.x, right, out);
}

__global__ void block_run_length_decode(const int* values, const int* lengths, int* out, int* total) {
  constexpr int kDecoded = 8;
  using Decode = cub::BlockRunLengthDecode<int, kThreads, 1, kDecoded>;
  __shared__ typename Decode::TempStorage storage;
  int value[1] = {values[threadIdx.x]}, length[1] = {lengths[threadIdx.x]}, size = 0;
  Decode decode(storage, value, length, size);
  for (int at = 0; at < size; at += kThreads * kDecoded) {
    int items[kDecoded];
    decode.RunLengthDecode(items, at);
    cub::StoreDirectBlocked(threadIdx.x, out + at, items, size - at);
  }
  if (threadIdx.x == 0) *total = size;
}

#define REDUCE_OF(T)                                                                                                  \
  LAUNCH(warp_reduce_32_##T, (T * in, T* sums, T* maxima), (in, sums, maxima), warp_reduce<T, 32>)                    \
  LAUNCH(warp_reduce_16_##T, (T * in, T* sums, T* maxima), (in, sums, maxima), warp_reduce<T, 16>)                    \
  LAUNCH(warp_reduce_8_##T, (T * in, T* sums, T* maxima), (in, sums, maxima), warp_reduce<T, 8>)                      \
  LAUNCH(warp_scan_32_##T, (T * in, T* a, T* b), (in, a, b), warp_scan<T, 32>)                                        \
  LAUNCH(warp_scan_16_##T, (T * in, T* a, T* b), (in, a, b), warp_scan<T, 16>)                                        \
  LAUNCH(warp_merge_sort_##T, (T * in, T* out), (in, out), warp_merge_sort<T>)                                        \
  LAUNCH(block_reduce_raking_##T, (T * in, T* out), (in, out), block_reduce<T, cub::BLOCK_REDUCE_RAKING>)             \
  LAUNCH(block_reduce_commutative_##T, (T * in, T* out), (in, out),                                                   \
         block_reduce<T, cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>)                                                  \
  LAUNCH(block_reduce_warps_##T, (T * in, T* out), (in, out), block_reduce<T, cub::BLOCK_REDUCE_WARP_REDUCTIONS>)     \
  LAUNCH(block_scan_raking_##T, (T * in, T* a, T* b), (in, a, b), block_scan<T, cub::BLOCK_SCAN_RAKING>)              \
  LAUNCH(block_scan_memoize_##T, (T * in, T* a, T* b), (in, a, b), block_scan<T, cub::BLOCK_SCAN_RAKING_MEMOIZE>)     \
  LAUNCH(block_scan_warps_##T, (T * in, T* a, T* b), (in, a, b), block_scan<T, cub::BLOCK_SCAN_WARP_SCANS>)           \
  LAUNCH(block_radix_sort_##T, (T * in, int* v, T* out, int* order), (in, v, out, order), block_radix_sort<T, false>) \
  LAUNCH(block_radix_sort_down_##T, (T * in, int* v, T* out, int* order), (in, v, out, order),                        \
         block_radix_sort<T, true>)                                                                                   \
  LAUNCH(block_merge_sort_##T, (T * in, T* out), (in, out), block_merge_sort<T>)
REDUCE_OF(int)
REDUCE_OF(float)
REDUCE_OF(double)

LAUNCH(warp_exchange_shared, (int* in, int* out), (in, out), warp_exchange<int, 32, cub::WARP_EXCHANGE_SMEM>)
LAUNCH(warp_exchange_shuffled, (int* in, int* out), (in, out), warp_exchange<int, kItems, cub::WARP_EXCHANGE_SHUFFLE>)
LAUNCH(warp_copy_direct, (float* in, float* out), (in, out),
       warp_copy<float, cub::WARP_LOAD_DIRECT, cub::WARP_STORE_DIRECT>)
LAUNCH(warp_copy_striped, (float* in, float* out), (in, out),
       warp_copy<float, cub::WARP_LOAD_STRIPED, cub::WARP_STORE_STRIPED>)
LAUNCH(warp_copy_vectorized, (float* in, float* out), (in, out),
       warp_copy<float, cub::WARP_LOAD_VECTORIZE, cub::WARP_STORE_VECTORIZE>)
LAUNCH(warp_copy_transposed, (float* in, float* out), (in, out),
       warp_copy<float, cub::WARP_LOAD_TRANSPOSE, cub::WARP_STORE_TRANSPOSE>)
#define COPY(name, load, store)                                                   \
  LAUNCH(block_copy_##name, (float* in, float* out, long n), (in, out, int(n)),   \
         block_copy<float, cub::BLOCK_LOAD_##load, cub::BLOCK_STORE_##store>)
COPY(direct, DIRECT, DIRECT)
COPY(striped, STRIPED, STRIPED)
COPY(vectorized, VECTORIZE, VECTORIZE)
COPY(transposed, TRANSPOSE, TRANSPOSE)
COPY(warp_transposed, WARP_TRANSPOSE, WARP_TRANSPOSE)
COPY(warp_transposed_in_turns, WARP_TRANSPOSE_TIMESLICED, WARP_TRANSPOSE_TIMESLICED)
#define EXCHANGE(name, movement)                                                      \
  LAUNCH(block_exchange_##name, (int* in, int* ranks, int* out), (in, ranks, out),    \
         block_exchange<int, movement>)
EXCHANGE(to_striped, kToStriped)
EXCHANGE(to_blocked, kToBlocked)
EXCHANGE(to_warp_striped, kToWarpStriped)
EXCHANGE(scatter, kScatter)
LAUNCH(block_histogram_sort, (int* in, int* out), (in, out), block_histogram<cub::BLOCK_HISTO_SORT>)
LAUNCH(block_histogram_atomic, (int* in, int* out), (in, out), block_histogram<cub::BLOCK_HISTO_ATOMIC>)
LAUNCH(shuffle, (int* in, int* up, int* offset), (in, up, offset), block_shuffle)
LAUNCH(discontinuity, (int* in, int* heads, int* tails), (in, heads, tails), block_discontinuity)
LAUNCH(adjacent_difference, (int* in, int* left, int* right), (in, left, right), block_adjacent_difference)
LAUNCH(run_length_decode, (int* values, int* lengths, int* out, int* total), (values, lengths, out, total),
       block_run_length_decode)
