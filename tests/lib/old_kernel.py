"""A kernel that lacks something, for the programs that a test starts."""
import ctypes
import errno
import struct

NEW_LISTENER = 1 << 3  # SECCOMP_FILTER_FLAG_NEW_LISTENER: Linux 5.0
WAIT_KILLABLE_RECV = 1 << 5  # SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV: Linux 5.19

_BPF_LOAD, _BPF_EQUAL, _BPF_SET, _BPF_RETURN = 0x20, 0x15, 0x45, 0x06
_SYS_SECCOMP, _SECCOMP_SET_MODE_FILTER = 317, 1
_RET_ALLOW, _RET_ERRNO = 0x7FFF0000, 0x00050000


def seccomp_without(flag):
    """For the calling process from now on: seccomp(2) with `flag` answers EINVAL, as kernels do that
    do not know it. Everything else goes on. Needs root. A preexec_fn, say."""
    program = b"".join(struct.pack("=HBBI", *instruction) for instruction in (
        (_BPF_LOAD, 0, 0, 0),  # the system call
        (_BPF_EQUAL, 0, 3, _SYS_SECCOMP),
        (_BPF_LOAD, 0, 0, 24),  # its second argument
        (_BPF_SET, 0, 1, flag),
        (_BPF_RETURN, 0, 0, _RET_ERRNO | errno.EINVAL),
        (_BPF_RETURN, 0, 0, _RET_ALLOW)))
    instructions = ctypes.create_string_buffer(program, len(program))
    filter_program = struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions))
    libc = ctypes.CDLL(None)
    if libc.syscall(_SYS_SECCOMP, _SECCOMP_SET_MODE_FILTER, 0, filter_program) != 0:
        raise OSError("cannot install the filter")
