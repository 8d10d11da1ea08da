"""System calls that reach the kernel of the engine `um` by a jump: for a process they are what they were before."""

from __future__ import annotations

from testbed.lab import Run, experiment

# With rdi pointing to what fills vector register 7 (16 octets), room for what it holds afterwards (16 octets), the
# address of a function and three arguments for it: push rbx; mov rbx, rdi; movdqu xmm7, [rbx]; mov rax, [rbx+32];
# mov rdi, [rbx+40]; mov rsi, [rbx+48]; mov rdx, [rbx+56]; call rax; movdqu [rbx+16], xmm7; pop rbx; ret.
_CALL = "53 4889fb f30f6f3b 488b4320 488b7b28 488b7330 488b5338 ffd0 f30f7f7b10 5b c3"
_CLEAR = "660fefff c3"  # a signal's handler: pxor xmm7, xmm7; ret


@experiment(_in_lab_time=True, timeout="30s")
def test_registers_survive_calls_signals_forks_and_threads(run: Run) -> None:
    """Calls are tried that block, that a signal interrupts or ends, of a child and of a thread beside another."""
    import ctypes
    import mmap
    import os
    import signal
    import struct
    import threading
    import time
    from pathlib import Path

    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(bytes.fromhex(_CALL).ljust(64, b"\x90") + bytes.fromhex(_CLEAR))
    place = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(place)
    libc = ctypes.CDLL(None)
    pattern = bytes(range(1, 17))

    def address(name: str) -> int:
        return ctypes.cast(getattr(libc, name), ctypes.c_void_p).value or 0

    def kept(name: str, *arguments: int) -> tuple[int, bool]:
        """Return what a function returned, and True if the vector register holds what it held before."""
        block = ctypes.create_string_buffer(pattern + bytes(16) + struct.pack("<4Q", address(name), *arguments), 64)
        result = call(ctypes.addressof(block))
        return result, block.raw[16:32] == pattern

    jumps = {name: b"\xe9" in ctypes.string_at(address(name), 24) for name in ("poll", "read", "sendto", "recvmmsg")}
    on_um = "User Mode Linux" in Path("/proc/cpuinfo").read_text()
    run.claim("calls of the C library that jump", jumps, equals=dict.fromkeys(jumps, on_um))
    run.claim("a call that waits", kept("poll", 0, 0, 20), equals=(0, True))
    reading, writing = os.pipe()
    os.write(writing, b"12345678")
    room = ctypes.create_string_buffer(8)
    run.claim("a call with a result", kept("read", reading, ctypes.addressof(room), 8), equals=(8, True))
    run.claim("what it read", room.raw.decode(), equals="12345678")

    ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(address("signal"))(signal.SIGALRM, place + 64)
    signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
    run.claim("a call that a signal interrupts", kept("poll", 0, 0, 20), equals=(-1, True))
    begun = time.monotonic_ns()
    interrupted = [kept("poll", 0, 0, 20) for _ in range(50)]
    run.claim("of fifty more, those that were interrupted", interrupted.count((-1, True)), equals=50)
    run.claim("ms between the signals", round((time.monotonic_ns() - begun) / 50e6), equals=5)
    # read() is begun anew after a signal: the handler was set with SA_RESTART.
    threading.Timer(0.022, os.write, (writing, b"abcdefgh")).start()
    run.claim("a call that goes on after signals", kept("read", reading, ctypes.addressof(room), 8), equals=(8, True))
    signal.setitimer(signal.ITIMER_REAL, 0)

    child = os.fork()
    if not child:
        os._exit(0 if kept("poll", 0, 0, 5) == (0, True) else 1)
    run.claim("in a child", os.waitpid(child, 0)[1], equals=0)
    killed = os.fork()
    if not killed:
        kept("read", reading, ctypes.addressof(room), 8)
        os._exit(1)
    time.sleep(0.01)
    os.kill(killed, signal.SIGKILL)
    run.claim("killed in a call", os.waitpid(killed, 0)[1], equals=signal.SIGKILL)

    found: list[tuple[int, bool]] = []
    threads = [
        threading.Thread(target=lambda: found.extend(kept("poll", 0, 0, 1) for _ in range(50))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run.claim("of 150 calls of threads, those that return", found.count((0, True)), equals=150)
    run.claim("after threads", kept("poll", 0, 0, 1), equals=(0, True))
