"""PTX modules and their kernels: loaded once, launched on any device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sglab.gpu.arguments import Packer
from sglab.gpu.device import Device, Launch, Log, Recorder, Stepped, Stepper
from sglab.gpu.errors import GpuError, LaunchError
from sglab.gpu.geometry import Dims, LaunchConfig, LaunchOptions, launch_config, make_geometry
from sglab.gpu.names import entries_called, source_name
from sglab.gpu.ptx import Entry, Ptx

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Module(Ptx):
    """PTX text. `module["entry"]` is a kernel; iterating gives the entries' names.

    Args:
        name: for messages, such as the file it came from.
        folder: where that file is.
        types: C++ types of entries' parameters, for entries whose names do not tell (extern "C").

    Raises:
        GpuError: the text is not PTX.
    """

    def __init__(
        self,
        ptx: str,
        name: str = "<ptx>",
        folder: Path | None = None,
        types: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__(ptx, name, folder, types)
        self._kernels: dict[str, Kernel] = {}

    def __getitem__(self, entry: str) -> Kernel:
        """The kernel of this name, as PTX or as the source has it ("scale<float>"); a part of it will do where only one
        entry has it."""
        entries = self._header.entries
        found = [entry] if entry in entries else entries_called(entry, entries)
        if len(found) != 1:
            problem = "several entries match" if found else "no entry is called"
            listed = ", ".join(source_name(name) for name in found or entries) or "none"
            near = get_close_matches(entry, [source_name(name) for name in entries], 1)
            meant = f". Did you mean '{near[0]}'?" if near and not found else ""
            raise GpuError(f"{self.name}: {problem} '{entry}'; it has {listed}{meant}")
        name = found[0]
        if name not in self._kernels:
            self._kernels[name] = Kernel(self, entries[name])
        return self._kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._header.entries)

    def __len__(self) -> int:
        return len(self._header.entries)

    def __repr__(self) -> str:
        return f"Module({self.name!r}, target={self.target}, entries={list(self)})"


class Kernel(Entry):
    """One entry of a module, which can be launched."""

    def launch(
        self,
        device: Device,
        config: LaunchConfig | Dims | None = None,
        block: Dims | None = None,
        *,
        args: Sequence[Any] = (),
        extra: Sequence[Any] = (),
        **options: Unpack[LaunchOptions],
    ) -> Any:
        """Runs the kernel on `device`; everything is checked first, and a refused launch changes nothing.

        Args:
            device: an EmulatedDevice or a CudaDevice.
            config: a LaunchConfig, or the grid alone; then `block`, and the other fields of LaunchConfig as keywords.
            args: one per parameter: a tensor (its address), int, float, None (a null pointer), bytes or a gpu.Struct,
                a TensorMap.
            extra: tensors that the kernel reaches through pointers inside structs or other tensors.

        Returns:
            The device's report (Device.run).

        Raises:
            LaunchError: an argument or a size does not fit.
            KernelError: the kernel failed.
        """
        return device.run(self.prepare(device, config, block, args=args, extra=extra, **options))

    def record(
        self,
        device: Recorder[Log],
        config: LaunchConfig | Dims | None = None,
        block: Dims | None = None,
        *,
        args: Sequence[Any] = (),
        extra: Sequence[Any] = (),
        details: bool = True,
        **options: Unpack[LaunchOptions],
    ) -> Log:
        """Launches the kernel on an emulated device and keeps what every instruction did; see EventLog.

        Args:
            device, config, block, args, extra, options: as in `launch`.
            details: memory accesses, barriers and waits, too; without, recording costs little time.
        """
        self._require(device, "record", "recorded")
        return device.record(self.prepare(device, config, block, args=args, extra=extra, **options), details)

    def _require(self, device: Any, ability: str, done: str) -> None:
        if not hasattr(device, ability):
            raise LaunchError(f"{self.name}: {device.name} cannot be {done}; use gpu.EmulatedDevice('{device.arch}')")

    def session(
        self,
        device: Stepper[Stepped],
        config: LaunchConfig | Dims | None = None,
        block: Dims | None = None,
        *,
        args: Sequence[Any] = (),
        extra: Sequence[Any] = (),
        **options: Unpack[LaunchOptions],
    ) -> Stepped:
        """The launch under control: nothing has run yet; see Session. Arguments as in `launch`; only an emulated device
        can do this."""
        self._require(device, "session", "stepped")
        launch = self.prepare(device, config, block, args=args, extra=extra, **options)
        return device.session(launch, keep=(args, extra))

    def prepare(
        self,
        device: Device,
        config: LaunchConfig | Dims | None = None,
        block: Dims | None = None,
        *,
        args: Sequence[Any] = (),
        extra: Sequence[Any] | Mapping[str, Any] = (),
        names: Sequence[str] = (),
        **options: Unpack[LaunchOptions],
    ) -> Launch:
        """The launch, checked and packed but not run. Arguments as in `launch`; `names`: the parameters, in messages
        and of the memory that they point to."""
        if not device.arch.runs(self.module.target):
            raise LaunchError(
                f"{self.name}: {self.module.name} was compiled for {self.module.target}, which {device.name} does not "
                f"run. Compile it for {device.arch}"
            )
        wanted = launch_config(self.name, config, block, options)
        geometry = make_geometry(self.signature, device.arch, wanted)
        packed = Packer(self.signature, device.torch_device, device.encode, names).pack(args, extra)
        return Launch(
            self,
            geometry,
            packed.params,
            packed.spans,
            wanted.overlaps,
            keep=(args, extra),
            tensors=packed.tensors,
            addresses=None if extra else packed.addresses,  # in such tensors there may be more
        )

    def __repr__(self) -> str:
        return f"Kernel({self.name}({', '.join(map(str, self.params))}))"
