// What the errors are called.
#include "runtime/errors.hpp"

#include <iterator>

namespace sglab::runtime {
namespace {

constexpr ErrorWords kWords[] = {
    {kSuccess, "cudaSuccess", "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "cudaErrorInvalidValue", "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kMemoryAllocation, "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "cudaErrorInitializationError", "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kInvalidConfiguration, "cudaErrorInvalidConfiguration", nullptr, "invalid configuration argument"},
    {kInvalidSymbol, "cudaErrorInvalidSymbol", nullptr, "invalid device symbol"},
    {kMissingConfiguration, "cudaErrorMissingConfiguration", nullptr, "missing launch configuration"},
    {kInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", nullptr, "invalid device function"},
    {kNoDevice, "cudaErrorNoDevice", "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kInvalidDevice, "cudaErrorInvalidDevice", "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidKernelImage, "cudaErrorInvalidKernelImage", "CUDA_ERROR_INVALID_IMAGE",
     "device kernel image is invalid"},
    {kInvalidContext, "cudaErrorDeviceUninitialized", "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice", "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for the device"},
    {kFileNotFound, "cudaErrorFileNotFound", "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {kInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "CUDA_ERROR_INVALID_HANDLE",
     "invalid resource handle"},
    {kIllegalState, "cudaErrorIllegalState", "CUDA_ERROR_ILLEGAL_STATE",
     "the operation cannot be performed in the present state"},
    {kSymbolNotFound, "cudaErrorSymbolNotFound", "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kAssert, "cudaErrorAssert", "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {kLaunchFailure, "cudaErrorLaunchFailure", "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {kCooperativeLaunchTooLarge, "cudaErrorCooperativeLaunchTooLarge",
     "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"},
    {kNotSupported, "cudaErrorNotSupported", "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {kStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {kStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {kStreamCaptureMerge, "cudaErrorStreamCaptureMerge", "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "operation would result in a merge of captures"},
    {kStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched", "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {kStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "capturing stream has unjoined work"},
    {kStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation", "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {kStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit", "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing stream"},
    {kCapturedEvent, "cudaErrorCapturedEvent", "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capture"},
    {kStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread", "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to end a capture from another thread"},
    {kGraphExecUpdateFailure, "cudaErrorGraphExecUpdateFailure", "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
     "the graph update was not performed: it violates constraints"},
    {kUnknown, "cudaErrorUnknown", "CUDA_ERROR_UNKNOWN", "unknown error"},
};

}  // namespace

const ErrorWords* words_for(Status status) {
  for (const ErrorWords& words : kWords) {
    if (words.status == status) return &words;
  }
  return nullptr;
}

}  // namespace sglab::runtime
