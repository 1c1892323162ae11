"""Python values to a kernel's parameter buffer, each checked against the PTX parameter it goes to."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from sglab.gpu.errors import LaunchError
from sglab.gpu.pointee import objection
from sglab.gpu.signature import Parameter, Signature
from sglab.gpu.struct_parameter import Struct, layout, size
from sglab.gpu.tensor_map import TensorMap, TiledEncoding

_address = itemgetter(0)
_FLOATS = {2: "<e", 4: "<f", 8: "<d"}
_VIEWS = (("is_conj", "resolve_conj"), ("is_neg", "resolve_neg"))
"""What tells a tensor whose memory does not hold its values, and what makes it one that does."""


@dataclass(frozen=True)
class Strided:
    """Says that a kernel is meant to get a tensor that is not contiguous: it knows the strides."""

    tensor: Any


class Allocation(NamedTuple):
    """Memory a launch may touch, in bytes, and the arguments it stands for."""

    address: int
    nbytes: int
    name: str


class Held(NamedTuple):
    """A tensor, and the address that a launch has of it."""

    name: str
    tensor: Any
    address: int


@dataclass(frozen=True)
class Addresses:
    """Where addresses are in a parameter buffer.

    Attributes:
        pointers: offset in the buffer and address of each.
        maps: offset and contents of each tensor map.
    """

    pointers: tuple[tuple[int, int], ...]
    maps: tuple[tuple[int, TiledEncoding], ...]


@dataclass(frozen=True)
class Packed:
    """The parameter buffer, the memory that its pointers and tensor maps lead to, and whose that is.

    Attributes:
        spans: the memory per argument; they may overlap.
    """

    params: bytes
    addresses: Addresses
    spans: tuple[Allocation, ...]
    tensors: tuple[Held, ...]

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """All the memory, nothing twice."""
        return merged(self.spans)


class Packer:
    """Packs one launch's arguments for one device.

    Args:
        device: the torch device its tensors must be on, such as "cpu" or "cuda:0".
        encode: the device's own encoding of a tensor map, 128 bytes.
        names: of the parameters in the source, where they are known.
    """

    def __init__(
        self,
        signature: Signature,
        device: str,
        encode: Callable[[TiledEncoding], bytes],
        names: Sequence[str] = (),
    ) -> None:
        self._signature, self._device, self._encode = signature, device, encode
        self._labels = signature.labels
        if len(names) == len(self._labels):
            self._labels = tuple(f"{name} (argument {index})" for index, name in enumerate(names))
        self._spans: list[Allocation] = []
        self._held: list[Held] = []
        self._pointers: list[tuple[int, int]] = []
        self._maps: list[tuple[int, TiledEncoding]] = []
        self._base = 0  # of the struct whose members are being packed

    def pack(self, arguments: Sequence[Any], extra: Sequence[Any] | Mapping[str, Any] = ()) -> Packed:
        """The bytes and addresses of a call's arguments.

        Args:
            arguments: one per parameter, in order.
            extra: tensors that the kernel reaches through no argument; by name, where they have names.
        """
        parameters = self._signature.parameters
        if not isinstance(extra, Mapping):
            extra = _numbered(self._signature.entry, extra)
        _check_list(self._signature.entry, "args", arguments)
        if len(arguments) != len(parameters):
            known = [label.partition(" (")[0] for label in self._labels]
            listed = ", ".join(map(str, parameters if self._labels == self._signature.labels else known)) or "none"
            given, wanted = len(arguments), len(parameters)
            remedy = f"Add {', '.join(known[given:])}" if given < wanted else f"Leave the last {given - wanted} out"
            raise LaunchError(f"{self._signature.entry}: takes {wanted} arguments ({listed}); got {given}. {remedy}")
        buffer = bytearray(self._signature.params_size)
        for name, parameter, value in zip(self._labels, parameters, arguments, strict=True):
            data = self._bytes_of(name, parameter, value)
            buffer[parameter.offset : parameter.offset + parameter.size] = data
        for name, tensor in extra.items():
            if not hasattr(tensor, "data_ptr"):
                self._refuse(name, f"expected a tensor, got {type(tensor).__name__}")
            self._span(name, tensor)
        addresses = Addresses(tuple(self._pointers), tuple(self._maps))
        return Packed(bytes(buffer), addresses, tuple(self._spans), tuple(self._held))

    def _bytes_of(self, name: str, parameter: Parameter, value: Any) -> bytes:
        if type(value) is int and not parameter.is_struct:  # the commonest, before all else is asked
            return self._integer(name, parameter, value)
        if isinstance(value, TensorMap):
            return self._map(name, parameter, value)
        if isinstance(value, Struct):
            return self._struct(name, parameter, value)
        if isinstance(value, Strided) or hasattr(value, "data_ptr"):
            return self._pointer(name, parameter, value)
        if hasattr(value, "dtype") and hasattr(value, "item"):
            if getattr(value, "ndim", 0):
                return self._array(name, parameter, value)
            value = value.item()  # a numpy scalar
        if value is None and parameter.size == 8:
            return bytes(8)
        if isinstance(value, (bool, int)) and not parameter.is_struct:
            return self._integer(name, parameter, int(value))
        if isinstance(value, float) and not parameter.is_struct:
            return self._float(name, parameter, value)
        return self._raw(name, parameter, value)

    def _array(self, name: str, parameter: Parameter, value: Any) -> bytes:
        """A numpy array: the bytes of a struct; never memory, for nothing says that the caller wants it written."""
        if not parameter.is_struct:
            self._refuse(name, f"got a numpy array of shape {value.shape}. Pass torch.from_numpy(array), or a number")
        return self._raw(name, parameter, value.tobytes())

    def _pointer(self, name: str, parameter: Parameter, value: Any) -> bytes:
        if parameter.size != 8 or parameter.kind == "float":
            remedy = f"bytes or a ctypes.Structure of {parameter.size} bytes" if parameter.is_struct else "a number"
            self._refuse(name, f"expected {remedy}, for the kernel takes {parameter} by value; got a tensor. Pass that")
        strided = isinstance(value, Strided)
        tensor = value.tensor if strided else value
        if not hasattr(tensor, "data_ptr"):
            self._refuse(name, f"gpu.Strided holds a tensor; got one of {type(tensor).__name__}")
        for view, resolve in _VIEWS:
            if getattr(tensor, view, bool)():
                self._refuse(name, f"this tensor's memory does not hold its values ({view}()). Pass .{resolve}()")
        if not strided and not tensor.is_contiguous():
            self._refuse(
                name,
                f"expected a contiguous tensor, got shape {tuple(tensor.shape)} with strides {tensor.stride()}. Call "
                ".contiguous(), or pass gpu.Strided(tensor) if the kernel knows the strides",
            )
        if parameter.pointee and (why := objection(parameter.pointee, str(tensor.dtype))):
            self._refuse(name, why)
        self._span(name, tensor)
        address: int = tensor.data_ptr()
        self._pointers.append((self._base + parameter.offset, address))
        return address.to_bytes(8, "little")

    def _map(self, name: str, parameter: Parameter, value: TensorMap) -> bytes:
        if parameter.size != 128:
            self._refuse(name, "a tensor map needs a 128-byte parameter")
        self._span(f"{name}, tensor map", value.tensor)
        self._maps.append((self._base + parameter.offset, value.encoding))
        return self._encode(value.encoding)

    def _struct(self, name: str, parameter: Parameter, value: Struct) -> bytes:
        if parameter.size != (got := size(type(value))):
            self._refuse(name, f"expected a struct of {parameter.size} bytes; {type(value).__name__} has {got}")
        data = bytearray(parameter.size)
        self._base = parameter.offset
        labels = _member_labels(name.partition(",")[0], type(value))
        for label, (member, content) in zip(labels, value.members(), strict=True):
            packed = self._bytes_of(label, member, content)
            data[member.offset : member.offset + member.size] = packed
        self._base = 0
        return bytes(data)

    def _integer(self, name: str, parameter: Parameter, value: int) -> bytes:
        if parameter.kind == "float":
            try:
                return self._float(name, parameter, float(value))
            except OverflowError:
                self._refuse(name, f"an integer of {value.bit_length()} bits is beyond any float")
        bits = 8 * parameter.size
        low, high = -(1 << (bits - 1)), (1 << bits) - 1  # PTX writes signed parameters as .u32 too: take either reading
        if not low <= value <= high:
            self._refuse(name, f"expected an integer of {bits} bits ({low} to {high}), got {value}")
        return (value & high).to_bytes(parameter.size, "little")

    def _float(self, name: str, parameter: Parameter, value: float) -> bytes:
        if parameter.kind == "integer" or parameter.size not in _FLOATS:
            self._refuse(name, f"expected an integer, got the float {value}. Pass an int, or bytes for raw bits")
        try:
            return struct.pack(_FLOATS[parameter.size], value)
        except OverflowError:
            return self._refuse(name, f"{value} is beyond a {8 * parameter.size}-bit float")

    def _raw(self, name: str, parameter: Parameter, value: Any) -> bytes:
        try:
            data = memoryview(value).tobytes()
        except TypeError:
            kinds = "bytes of this size" if parameter.is_struct else "a tensor, an integer, a float or bytes"
            self._refuse(name, f"expected {kinds}, got {type(value).__name__}")
        if len(data) != parameter.size:
            self._refuse(name, f"expected {parameter.size} bytes, got {len(data)}")
        return data

    def _span(self, name: str, tensor: Any) -> None:
        if str(tensor.device) != self._device:
            self._refuse(
                name, f"expected a tensor on {self._device}, got one on {tensor.device}; use .to('{self._device}')"
            )
        elements = tensor.numel()
        if elements and not tensor.is_contiguous():
            last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
            elements = last + 1
        if elements:
            address = tensor.data_ptr()
            self._spans.append(Allocation(address, elements * tensor.element_size(), name))
            self._held.append(Held(name, tensor, address))

    def _refuse(self, name: str, text: str) -> Any:
        raise LaunchError(f"{self._signature.entry}, {name}: {text}")


_labels: dict[tuple[str, type], tuple[str, ...]] = {}


def _member_labels(argument: str, struct: type[Struct]) -> tuple[str, ...]:
    if (argument, struct) not in _labels:
        _labels[argument, struct] = tuple(f"{argument}, {member.text}" for member in layout(struct))
    return _labels[argument, struct]


def merged(spans: Sequence[Allocation]) -> tuple[Allocation, ...]:
    """Spans in order of address, those that overlap joined into one."""
    out: list[Allocation] = []
    reached = 0
    for span in sorted(spans, key=_address):
        address, nbytes, name = span
        if address < reached:
            last = out.pop()
            reached = max(reached, address + nbytes)
            out.append(Allocation(last.address, reached - last.address, f"{last.name}; {name}"))
        else:
            reached = address + nbytes
            out.append(span)
    return tuple(out)


def _numbered(entry: str, extra: Sequence[Any]) -> dict[str, Any]:
    _check_list(entry, "extra", extra)
    return {f"extra tensor {index}": tensor for index, tensor in enumerate(extra)}


def _check_list(entry: str, what: str, values: Any) -> None:
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        raise LaunchError(
            f"{entry}: {what} must be a list of values; got {type(values).__name__}. Use [] for none and [value] for "
            "one"
        )
