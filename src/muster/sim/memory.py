"""Keeps freed memory in the process, because arrays of the same size are allocated again at once.

glibc gives the end of its heap back to the system whenever 128 KiB are free there, and takes it again with the next
array, page by page; at thousands of nodes that is a fifth of the time a cycle takes. Other C libraries are left alone.
"""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # glibc's names for mallopt
_KEPT_BYTES = 64 << 20


def keep_freed_memory() -> None:
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
    mallopt(_TOP_PAD, 1 << 20)
    mallopt(_MMAP_THRESHOLD, _KEPT_BYTES)
