"""BPF programs and maps: an object is loaded through libbpf, and a few calls work on its maps and programs.

libbpf is called through ctypes. What a network needs at every port (attaching a program, updating a map's entry) is one
bpf() call each, made directly: the library of Debian 12 is older than the tcx hook. Nothing is pinned: programs,
maps and attachments live as long as a process holds their file descriptors, so a crash leaves nothing behind.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from testbed.errors import XoffError

_MAP_CREATE, _MAP_LOOKUP, _MAP_UPDATE, _MAP_DELETE = 0, 1, 2, 3
_PROG_TEST_RUN, _OBJ_GET_INFO_BY_FD, _LINK_CREATE = 10, 15, 28
_RINGBUF = 27
TCX_INGRESS, TCX_EGRESS = 46, 47
_SYSCALL = 321  # bpf() on x86-64
_PAGE = mmap.PAGESIZE
_LONGEST_LOG = 1 << 20
_BUSY, _DISCARDED = 1 << 31, 1 << 30
_PRINTER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)

_libc = ctypes.CDLL(None, use_errno=True)


class BpfError(XoffError):
    """The kernel or its library refused a BPF program."""

    exit_code = 3


def _bpf(command: int, attributes: bytearray, what: str) -> int:
    buffer = (ctypes.c_char * len(attributes)).from_buffer(attributes)
    result: int = _libc.syscall(_SYSCALL, command, buffer, len(attributes))
    if result < 0:
        code = ctypes.get_errno()
        raise BpfError(f"{what}: {os.strerror(code)}")
    return result


@dataclass(frozen=True)
class Map:
    """A BPF map. The keys of an array are its indices; those of any other map are octets."""

    name: str
    fd: int
    value_size: int
    entries: int

    def __setitem__(self, index: int | bytes, value: bytes) -> None:
        if len(value) != self.value_size:
            raise BpfError(f"map {self.name}: a value has {self.value_size} octets, not {len(value)}")
        octets = struct.pack("=I", index) if isinstance(index, int) else index
        key = ctypes.create_string_buffer(octets, len(octets))
        data = ctypes.create_string_buffer(value, len(value))
        request = bytearray(struct.pack("=IIQQQ", self.fd, 0, ctypes.addressof(key), ctypes.addressof(data), 0))
        _bpf(_MAP_UPDATE, request, f"map {self.name}, entry {index!r}")

    def __getitem__(self, index: int | bytes) -> bytes:
        octets = struct.pack("=I", index) if isinstance(index, int) else index
        key = ctypes.create_string_buffer(octets, len(octets))
        data = ctypes.create_string_buffer(self.value_size)
        request = bytearray(struct.pack("=IIQQQ", self.fd, 0, ctypes.addressof(key), ctypes.addressof(data), 0))
        _bpf(_MAP_LOOKUP, request, f"map {self.name}, entry {index!r}")
        return data.raw

    def __delitem__(self, index: bytes) -> None:
        key = ctypes.create_string_buffer(index, len(index))
        request = bytearray(struct.pack("=IIQQQ", self.fd, 0, ctypes.addressof(key), 0, 0))
        _bpf(_MAP_DELETE, request, f"map {self.name}, entry {index!r}")

    def shared(self) -> mmap.mmap:
        """Return the whole map as memory; the map has to have been created with BPF_F_MMAPABLE."""
        size = self.entries * (-(-self.value_size // 8) * 8)
        return mmap.mmap(self.fd, -(-size // _PAGE) * _PAGE)


class Object:
    """A compiled BPF object. The kernel gets its maps and programs when this is constructed."""

    def __init__(self, code: bytes, constants: bytes = b"", left_out: Sequence[str] = ()) -> None:
        """`constants`: the values of what the program declares `const volatile`. `left_out`: maps and programs that it
        does not use with these.
        """
        self._library = _library()
        self._messages: list[str] = []
        self._object = self._library.bpf_object__open_mem(code, ctypes.c_size_t(len(code)), None)
        if not self._object:
            raise BpfError(f"the BPF object cannot be read: {os.strerror(ctypes.get_errno())}")
        if constants:
            made = self._library.bpf_map__set_initial_value(self._find_map(".rodata"), constants, len(constants))
            if made:
                raise BpfError(f"the constants of the BPF object do not have {len(constants)} octets")
        for name in left_out:
            self._leave_out(name)
        collected: list[str] = []

        def collect(level: int, text: bytes, arguments: int) -> int:
            if level == 0:
                line = ctypes.create_string_buffer(_LONGEST_LOG)  # what the verifier refuses is at its end
                _libc.vsnprintf(line, ctypes.c_size_t(_LONGEST_LOG), text, ctypes.c_void_p(arguments))
                collected.append(line.value.decode(errors="replace"))
            return 0

        printer = _PRINTER(collect)
        self._library.libbpf_set_print(printer)
        try:
            failed = self._library.bpf_object__load(self._object)
        finally:
            self._library.libbpf_set_print(_PRINTER(0))
        if failed:
            raise BpfError(
                f"the kernel refuses the BPF object: {os.strerror(-failed)}\n{''.join(collected)[-4000:]}".rstrip()
            )

    def map(self, name: str) -> Map:
        """Return the map of this name; BpfError if there is none."""
        known = self._find_map(name)
        return Map(
            name,
            self._library.bpf_map__fd(known),
            self._library.bpf_map__value_size(known),
            self._library.bpf_map__max_entries(known),
        )

    def program(self, name: str) -> int:
        """Return the file descriptor of the program of this name; BpfError if there is none."""
        fd: int = self._library.bpf_program__fd(self._find_program(name))
        return fd

    def attach(self, name: str) -> int:
        """Attach a program to the hook of its section; it stays while the returned descriptor is open."""
        link = self._library.bpf_program__attach(self._find_program(name))
        if not link:
            raise BpfError(f"program {name} cannot be attached: {os.strerror(ctypes.get_errno())}")
        fd: int = self._library.bpf_link__fd(link)
        return fd

    def close(self) -> None:
        """Close the object. Programs and maps that another process holds stay in the kernel."""
        if self._object:
            self._library.bpf_object__close(self._object)
            self._object = None

    def _leave_out(self, name: str) -> None:
        if program := self._library.bpf_object__find_program_by_name(self._object, name.encode()):
            self._library.bpf_program__set_autoload(program, False)
        else:
            self._library.bpf_map__set_autocreate(self._find_map(name), False)

    def _find_map(self, name: str) -> int:
        found = self._library.bpf_object__find_map_by_name(self._object, name.encode())
        if not found:
            raise BpfError(f"the BPF object has no map {name}")
        pointer: int = found
        return pointer

    def _find_program(self, name: str) -> int:
        found = self._library.bpf_object__find_program_by_name(self._object, name.encode())
        if not found:
            raise BpfError(f"the BPF object has no program {name}")
        pointer: int = found
        return pointer


def attach_tcx(program: int, interface: int, hook: int) -> int:
    """Attach a program to an interface of this network namespace, for as long as the returned descriptor is open."""
    request = bytearray(struct.pack("=IIII48x", program, interface, hook, 0))
    return _bpf(_LINK_CREATE, request, f"attaching to interface {interface}")


def run(program: int, context: bytearray) -> int:
    """Run a program of the section `syscall` on `context`, which it may change, and return the program's result."""
    buffer = (ctypes.c_char * len(context)).from_buffer(context)
    request = bytearray(
        struct.pack(
            "=4I2Q4I2Q4I", program, 0, 0, 0, 0, 0, 0, 0, len(context), 0, ctypes.addressof(buffer), 0, 0, 0, 0, 0
        )
    )
    _bpf(_PROG_TEST_RUN, request, "running a program")
    return int(struct.unpack_from("=I", request, 4)[0])


class Ring:
    """The reading end of a BPF ring buffer, and the memory it shares with the kernel.

    Two pages of positions stand before the data, which is mapped twice in a row, so that no record is ever cut.
    """

    def __init__(self, size: int) -> None:
        request = bytearray(struct.pack("=IIIII108x", _RINGBUF, 0, 0, size, 0))
        self.fd = _bpf(_MAP_CREATE, request, "making a ring buffer")
        self.size = size
        """The octets of data that it holds."""
        self._consumer = mmap.mmap(self.fd, _PAGE)
        self._producer = mmap.mmap(self.fd, _PAGE + 2 * size, mmap.MAP_SHARED, mmap.PROT_READ, offset=_PAGE)
        self._consumed = memoryview(self._consumer).cast("Q")
        self._produced = memoryview(self._producer).cast("Q")
        self._lengths = memoryview(self._producer).cast("I")
        self.memory = memoryview(self._producer)

    def map_pages(self) -> None:
        """Map the pages of the first record now, so that nothing has to be mapped when it comes."""
        self._consumed[0] = self._consumed[0]
        self._produced[0], self._lengths[_PAGE >> 2]

    @property
    def is_empty(self) -> bool:
        """True if no record waits."""
        return bool(self._consumed[0] >= self._produced[0])

    def records(self) -> Iterator[int]:
        """Yield the position in `memory` of each waiting record; its room is freed when the next one is asked for."""
        consumed, produced, lengths = self._consumed, self._produced, self._lengths
        mask = self.size - 1
        position = consumed[0]
        while position < produced[0]:
            offset = _PAGE + (position & mask)
            header = lengths[offset >> 2]
            if header & _BUSY:
                return
            if not header & _DISCARDED:
                yield offset + 8
            position += ((header & ~_DISCARDED) + 15) & ~7
            consumed[0] = position

    def close(self) -> None:
        for view in (self._consumed, self._produced, self._lengths, self.memory):
            view.release()
        self._consumer.close()
        self._producer.close()
        os.close(self.fd)


def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libbpf.so.1", use_errno=True)
    except OSError:
        raise BpfError("libbpf is missing; `xoff doctor` shows how to install it") from None
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    for name, result, arguments in (
        ("bpf_object__open_mem", pointer, [text, ctypes.c_size_t, pointer]),
        ("bpf_object__load", ctypes.c_int, [pointer]),
        ("bpf_object__close", None, [pointer]),
        ("bpf_object__find_map_by_name", pointer, [pointer, text]),
        ("bpf_object__find_program_by_name", pointer, [pointer, text]),
        ("bpf_map__set_initial_value", ctypes.c_int, [pointer, text, ctypes.c_size_t]),
        ("bpf_map__set_autocreate", ctypes.c_int, [pointer, ctypes.c_bool]),
        ("bpf_program__set_autoload", ctypes.c_int, [pointer, ctypes.c_bool]),
        ("bpf_map__fd", ctypes.c_int, [pointer]),
        ("bpf_map__value_size", ctypes.c_uint32, [pointer]),
        ("bpf_map__max_entries", ctypes.c_uint32, [pointer]),
        ("bpf_program__fd", ctypes.c_int, [pointer]),
        ("bpf_program__attach", pointer, [pointer]),
        ("bpf_link__fd", ctypes.c_int, [pointer]),
        ("libbpf_set_print", pointer, [_PRINTER]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
