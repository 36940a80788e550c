"""Programs inherit no file descriptors that were received: a new gateway would keep the API port taken."""

from __future__ import annotations

import os
import socket

import pytest

from windlass.base.received_files import receive_files


@pytest.mark.parametrize("is_guarded", [True, False])
def test_programs_inherit_no_file_that_was_received(is_guarded):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sent = os.open(os.devnull, os.O_RDONLY)
    socket.send_fds(theirs, [b"+"], [sent, sent])
    if is_guarded:
        body, files = receive_files(ours, 16, 2)
    else:  # as `socket.recv_fds` of Python 3.11 does
        body, ancillary, _, _ = ours.recvmsg(16, socket.CMSG_LEN(8))
        files = [*memoryview(ancillary[0][2]).cast("i")]
    assert body == b"+"
    assert [os.get_inheritable(file) for file in files] == [not is_guarded] * 2
    for file in (sent, *files):
        os.close(file)
    for end in (ours, theirs):
        end.close()
