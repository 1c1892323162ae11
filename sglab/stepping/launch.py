"""A launch of a user's own kernel: what `sglab.step` returns, and what every widget of launches opens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from sglab.emulator.captures import CapturedLaunch
from sglab.emulator.device import EmulatedDevice
from sglab.emulator.session import Session
from sglab.events.cluster.columns import readable
from sglab.gpu.device import Launch
from sglab.gpu.fault import KernelError

if TYPE_CHECKING:
    from sglab.widgets import KernelDebugger


class Interpreted(Protocol):
    """A launch under an interpreter, on the tensors of the launch whose it is."""

    def run(self) -> None: ...

    def last_store(self, address: int, nbytes: int) -> object | None:
        """Runs it, too, and says what wrote to these bytes last."""
        ...


class KernelLaunch(CapturedLaunch):
    """A launch on the emulator with the memory that it found, not run or run already.

    All widgets of it share one session, so that they move together. A cell that ends with a launch of `sglab.step`
    shows it in the debugger.

    Attributes:
        tensors: what the kernel works on, by parameter name; host copies where the caller's are on a GPU.
        remarks: what a reader should know: which configuration was taken, that tensors were copied.
        shows: whether a cell that ends with it shows the debugger, which begins before the first instruction.
        interpreted: the same launch under Triton's interpreter, of a Triton kernel.
    """

    tensors: Mapping[str, Any]
    remarks: tuple[str, ...]
    shows: bool

    @classmethod
    def of(
        cls,
        device: EmulatedDevice,
        launch: Launch,
        tensors: Mapping[str, Any],
        remarks: tuple[str, ...] = (),
        shows: bool = True,
    ) -> KernelLaunch:
        """A launch that has not run; the memory is taken as it is now."""
        made = cls.prepared(device, launch)
        made.tensors, made.remarks, made.shows = tensors, remarks, shows
        return made

    interpreted: Interpreted | None = None
    _session: Session | None = None
    _debugger: KernelDebugger | None = None

    def session(self) -> Session:
        """The launch under control, the same one each time. The first call puts the memory back as the launch found it;
        so does `restart`."""
        if self._session is None:
            self._session = super().session()
        return self._session

    def restart(self) -> Session:
        """A new session, from the first instruction. Widgets that are open stay with the one before."""
        self._session = self._debugger = None
        return self.session()

    def run(self) -> Any:
        """Runs it from the start to its end; returns the device's report. A session there was is given up."""
        self._session = self._debugger = None
        try:
            self.report = super().run()
            return self.report
        except KernelError as error:
            if error.fault is None or error.fault.kind != "livelock" or "its limit of" not in str(error):
                raise
            device = f'device=gpu.EmulatedDevice("{self.device.arch}", sanitize=True, max_instructions=0)'
            remedy = f"If it ends later, step it with {device}, which has no limit"
            raise KernelError(f"{error}. {remedy}", error.fault, error.findings) from None

    def debugger(self) -> KernelDebugger:
        """The debugger on this launch, with the tensors under the names of their parameters."""
        if self._debugger is None:
            from sglab.widgets import KernelDebugger

            self._debugger = KernelDebugger(self.session(), tensors=self.tensors)
        return self._debugger

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        if not self.shows:
            return {"text/plain": repr(self)}
        for remark in self.remarks:
            print(remark)
        return self.debugger()._repr_mimebundle_(include=include, exclude=exclude)

    def __repr__(self) -> str:
        g = self.geometry
        state = "not run yet" if self.report is None else f"{self.report.warp_instructions:,} warp-instructions"
        return f"<launch of {readable(self.name)}: grid {g.grid}, block {g.block}, on {self.device.name}; {state}>"
