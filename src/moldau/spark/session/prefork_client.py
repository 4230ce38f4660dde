"""What Spark starts as the process of a stream's source: asks a ready process for a copy of itself.

Run by path, without ``site``: nothing of ours and nothing installed is imported, so that it takes some
milliseconds. Where no process is ready, this one becomes the source's process in the ordinary way.

Invariant: when this process ends, the copy ends, and the other way round; the copy writes to this one's
output. The environment that is passed on has secrets of Spark's, so only a directory that no other user can
write to is trusted.
"""

import os
import socket
import stat
import struct
import sys

#: After this the fork is given up, and this process starts in the ordinary way.
_ANSWER_SECONDS = 5.0


def trusted(directory: str) -> bool:
    """Whether it is this user's own, and closed to others."""
    about = os.lstat(directory)
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o077


def main(directory: str, *ordinary: str) -> None:
    with socket.socket(socket.AF_UNIX) as ready:
        ready.settimeout(_ANSWER_SECONDS)
        try:
            if not trusted(directory):
                raise PermissionError(directory)
            ready.connect(os.path.join(directory, str(os.getppid())))
            given = b"\0".join(name + b"=" + value for name, value in os.environb.items())
            socket.send_fds(ready, [struct.pack("<i", len(given))], [0, 1, 2])
            ready.sendall(given)
            started = ready.recv(1) == b"+"
        except OSError:
            started = False
        if started:
            ready.settimeout(None)
            code = ready.recv(1)
            os._exit(code[0] if code else 1)
    os.execv(sys.executable, [sys.executable, *ordinary])


if __name__ == "__main__":
    main(*sys.argv[1:])
