// CUDA graphs: built by hand and captured, launched, changed; and what a capture forbids. A line for each.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

__device__ int scale_by = 3;

__global__ void add(int* out, const int* in, int value) {
  out[threadIdx.x] = in[threadIdx.x] + value;
}
__global__ void scale(int* out) {
  out[threadIdx.x] *= scale_by;
}
void count(void* calls) {
  ++*static_cast<int*>(calls);
}

#define CHECK(call)                                               \
  if (const cudaError_t status = (call); status != cudaSuccess) { \
    std::printf("%s: %s\n", #call, cudaGetErrorString(status));   \
    return 1;                                                     \
  }

constexpr int kCount = 32;
int host[kCount];

int by_hand() {
  int *in, *out, calls = 0;
  CHECK(cudaMalloc(&in, sizeof(host)));
  CHECK(cudaMalloc(&out, sizeof(host)));
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t fill, first, second, copy, called;
  cudaMemsetParams zero{in, 0, 0x01010101, 4, kCount, 1};
  CHECK(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &zero));
  int value = 5;
  void* arguments[] = {&out, &in, &value};
  cudaKernelNodeParams kernel{reinterpret_cast<void*>(add), dim3(1), dim3(kCount), 0, arguments, nullptr};
  CHECK(cudaGraphAddKernelNode(&first, graph, &fill, 1, &kernel));
  void* scaled[] = {&out};
  cudaKernelNodeParams more{reinterpret_cast<void*>(scale), dim3(1), dim3(kCount), 0, scaled, nullptr};
  CHECK(cudaGraphAddKernelNode(&second, graph, &first, 1, &more));
  CHECK(cudaGraphAddMemcpyNode1D(&copy, graph, &second, 1, host, out, sizeof(host), cudaMemcpyDeviceToHost));
  cudaHostNodeParams call{count, &calls};
  CHECK(cudaGraphAddHostNode(&called, graph, &copy, 1, &call));
  std::size_t nodes = 0, edges = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));

  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, nullptr));
  const int once = host[7];
  value = 100;  // the graph keeps what it was given
  CHECK(cudaGraphLaunch(executable, nullptr));
  const int twice = host[7];
  CHECK(cudaGraphExecKernelNodeSetParams(executable, first, &kernel));
  CHECK(cudaGraphLaunch(executable, nullptr));
  std::printf("by hand: %zu nodes, %zu edges, %d %d %d, %d calls\n", nodes, edges, once - 3 * 0x01010101,
              twice - 3 * 0x01010101, host[7] - 3 * 0x01010101, calls);
  CHECK(cudaGraphNodeSetEnabled(executable, second, 0));
  CHECK(cudaGraphLaunch(executable, nullptr));
  std::printf("without a node: %d\n", host[7] - 0x01010101);
  cudaGraphNode_t circle[] = {second, first};
  CHECK(cudaGraphAddDependencies(graph, &circle[0], &circle[1], nullptr, 1));
  cudaGraphExec_t none;
  std::printf("a circle: %s\n", cudaGetErrorName(cudaGraphInstantiate(&none, graph, 0)));
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
  std::printf("destroyed: %s\n", cudaGetErrorName(cudaGraphLaunch(executable, nullptr)));
  return 0;
}

int captured() {
  int *a, *b, *c;
  CHECK(cudaMalloc(&a, sizeof(host)));
  CHECK(cudaMalloc(&b, sizeof(host)));
  CHECK(cudaMalloc(&c, sizeof(host)));
  cudaStream_t stream, side;
  cudaEvent_t fork, join;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamCreate(&side));
  CHECK(cudaEventCreate(&fork));
  CHECK(cudaEventCreate(&join));
  for (int i = 0; i < kCount; ++i) host[i] = i;
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaMemcpyAsync(a, host, sizeof(host), cudaMemcpyHostToDevice, stream));
  CHECK(cudaEventRecord(fork, stream));
  CHECK(cudaStreamWaitEvent(side, fork, 0));
  add<<<1, kCount, 0, stream>>>(c, a, 1);
  add<<<1, kCount, 0, side>>>(b, a, 1000);
  CHECK(cudaEventRecord(join, side));
  CHECK(cudaStreamWaitEvent(stream, join, 0));
  int* lent;
  CHECK(cudaMallocAsync(&lent, sizeof(host), stream));
  add<<<1, kCount, 0, stream>>>(lent, b, 7);
  CHECK(cudaMemcpyAsync(host, lent, sizeof(host), cudaMemcpyDeviceToHost, stream));
  CHECK(cudaFreeAsync(lent, stream));
  cudaStreamCaptureStatus capturing;
  CHECK(cudaStreamIsCapturing(side, &capturing));
  CHECK(cudaStreamEndCapture(stream, &graph));
  std::size_t nodes = 0, roots = 0, edges = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  CHECK(cudaGraphGetRootNodes(graph, nullptr, &roots));
  CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
  std::printf("captured: side %d, %zu nodes, %zu root, %zu edges, nothing ran: %d\n", capturing, nodes, roots,
              edges, host[3]);
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, stream));
  CHECK(cudaStreamSynchronize(stream));
  const int once = host[3];
  CHECK(cudaGraphLaunch(executable, stream));
  std::printf("launched: %d %d\n", once, host[3]);

  cudaGraph_t other;  // the same shape, another constant
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  CHECK(cudaGraphLaunch(executable, stream));
  add<<<1, kCount, 0, stream>>>(a, a, 50);
  CHECK(cudaStreamEndCapture(stream, &other));
  cudaGraphExecUpdateResultInfo info;
  const cudaError_t updated = cudaGraphExecUpdate(executable, other, &info);
  std::printf("update: %s %d\n", cudaGetErrorName(updated), info.result);
  return 0;
}

int forbidden() {
  cudaStream_t stream, other;
  cudaEvent_t event;
  cudaGraph_t graph;
  int* memory;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamCreate(&other));
  CHECK(cudaEventCreate(&event));
  const auto begin = [&] { cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal); };
  const auto say = [&](const char* what, cudaError_t status) {
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    std::printf("%s: %s, %s\n", what, cudaGetErrorName(status), cudaGetErrorName(ended));
  };
  begin();
  say("synchronize", cudaStreamSynchronize(stream));
  begin();
  say("malloc", cudaMalloc(&memory, 4));
  begin();
  say("legacy", cudaMemset(&host, 0, 4));
  begin();
  CHECK(cudaEventRecord(event, other));
  say("outside", cudaStreamWaitEvent(stream, event, 0));
  begin();
  CHECK(cudaEventRecord(event, stream));
  CHECK(cudaStreamWaitEvent(other, event, 0));
  CHECK(cudaLaunchHostFunc(other, count, host));
  say("unjoined", cudaSuccess);
  std::printf("end: %s\n", cudaGetErrorName(cudaStreamEndCapture(other, &graph)));
  for (const bool joins : {true, false}) {
    cudaStream_t gone;
    CHECK(cudaStreamCreate(&gone));
    begin();
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamWaitEvent(gone, event, 0));
    CHECK(cudaLaunchHostFunc(gone, count, host));
    CHECK(cudaEventRecord(event, gone));
    if (joins) CHECK(cudaStreamWaitEvent(stream, event, 0));
    say(joins ? "joined, destroyed" : "only destroyed", cudaStreamDestroy(gone));
  }
  std::printf("null stream: %s\n",
              cudaGetErrorName(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal)));
  begin();
  cudaGetLastError();
  add<<<1, 32, 0, stream>>>(host, host, 0);
  say("fine", cudaGetLastError());
  return 0;
}

int main() {
  return by_hand() + captured() + forbidden();
}
