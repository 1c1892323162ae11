"""clusterlaunchcontrol: running clusters take over those that have not started, each once."""

import numpy as np
import pytest

from tests.support.emulator.launching import launch
from tests.support.emulator.schedulers import SCHEDULERS

TAKES = """
.shared .align 16 .b8 answer[16];
.shared .align 8 .b64 full;
.entry k(.param .u64 out) {{
  .reg .b32 %x, %y, %z, %parity, %tid, %width, %rank; .reg .b64 %at; .reg .b128 %said; .reg .pred %first, %done, %more;
  ld.param.u64 %at, [out];
  mov.u32 %tid, %tid.x; setp.eq.u32 %first, %tid, 0;
  mov.u32 %rank, %cluster_ctarank;
  @%first mbarrier.init.shared.b64 [full], 1;
  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
  mov.u32 %x, %ctaid.x; mov.u32 %y, %ctaid.y; mov.u32 %parity, 0;
WORK:
  mov.u32 %width, %nctaid.x;
  mad.lo.u32 %y, %y, %width, %x;
  {{ .reg .b64 %place; mad.wide.u32 %place, %y, 4, %at; @%first red.global.add.u32 [%place], 1; }}
  @%first mbarrier.arrive.expect_tx.shared.b64 _, [full], 16;
  {{ .reg .pred %asks; .reg .b32 %leads; mov.u32 %leads, %tid; {leads}
     setp.eq.u32 %asks, %leads, 0;
     @%asks clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{multicast}.b128
       [answer], [full]; }}
WAIT: mbarrier.try_wait.parity.shared.b64 %done, [full], %parity;
  @!%done bra WAIT;
  xor.b32 %parity, %parity, 1;
  ld.shared.b128 %said, [answer];
  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %more, %said;
  @!%more bra END;
  clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {{%x, %y, %z, _}}, %said;
  clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %y, %said;
  add.u32 %x, %x, %rank;
  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
  bra WORK;
END: ret;
}}"""


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("cluster", [1, 2])
def test_every_cta_is_worked_on_once(cluster: int, scheduler: str) -> None:
    multicast = ".multicast::cluster::all" if cluster == 2 else ""
    ptx = TAKES.format(multicast=multicast, leads="or.b32 %leads, %leads, %rank;")
    out = np.zeros((5, 6), np.uint32)
    launch(ptx, [out], grid=(6, 5, 1), cluster=(cluster, 1, 1), block=(64, 1, 1), scheduler=scheduler, sms=2)
    assert (out == 1).all()
