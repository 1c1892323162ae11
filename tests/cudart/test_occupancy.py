"""How much fits on the emulated GPU, as host code asks before it launches."""

import ctypes

import pytest

from sglab import gpu
from sglab.cudart.runtime import LIBRARY, host_runtime

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="this build has no CUDA runtime")
CLUSTER_DIMENSION = 4


class Attribute(ctypes.Structure):
    """cudaLaunchAttribute"""

    _fields_ = (("id", ctypes.c_uint32), ("padding", ctypes.c_uint32), ("value", ctypes.c_uint32 * 16))


class Config(ctypes.Structure):
    """cudaLaunchConfig_t"""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("smem", ctypes.c_size_t),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint32),
    )


def clusters(threads: int, smem: int, cluster: tuple[int, int, int] | None) -> tuple[int, int]:
    """The status, and how many clusters fit on 20 SMs."""
    found = ctypes.c_int(-1)
    config = Config((64, 1, 1), (threads, 1, 1), smem)
    if cluster is not None:
        attribute = Attribute(CLUSTER_DIMENSION, 0, cluster)
        config.attributes, config.count = ctypes.pointer(attribute), 1
    runtime = host_runtime()
    with runtime.gpu_is(gpu.EmulatedDevice("sm_100a", sms=20)):
        status = runtime.library.cudaOccupancyMaxActiveClusters(ctypes.byref(found), None, ctypes.byref(config))
    return status, found.value


@pytest.mark.parametrize(
    ("threads", "smem", "cluster", "expected"),
    [
        (1024, 0, (2, 1, 1), 20),  # two CTAs an SM
        (384, 200_000, (2, 1, 1), 10),  # one
        (384, 200_000, (2, 4, 1), 2),
        (128, 0, None, 320),
    ],
)
def test_as_many_clusters_as_the_sms_hold_ctas(threads, smem, cluster, expected) -> None:
    assert clusters(threads, smem, cluster) == (0, expected)


def test_a_cluster_without_ctas_is_an_invalid_value() -> None:
    assert clusters(128, 0, (0, 1, 1))[0] == 1
