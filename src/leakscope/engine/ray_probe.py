"""Whether a Ray cluster is at an address, within seconds: Ray itself would try for half a minute or more.

The head of a cluster is a gRPC server, and gRPC is HTTP/2. The probe speaks just enough of it to greet a
server and to call one method that every head has and that takes no arguments. Another server of HTTP/2, or
another gRPC server, ends the call without a message.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from contextlib import closing
from enum import IntEnum
from typing import NamedTuple

SECONDS_TO_RESPOND = 4.0
_METHOD = b"/ray.rpc.NodeInfoGcsService/GetClusterId"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_END_STREAM, _ACKNOWLEDGED, _END_HEADERS = 1, 1, 4
_LONGEST_FRAME = 1 << 14
_NOT_RAY = "what listens there is no Ray cluster"


class _Kind(IntEnum):
    """Frames of HTTP/2 (RFC 9113, section 6)."""

    DATA = 0
    HEADERS = 1
    RESET = 3
    SETTINGS = 4
    PING = 6
    GO_AWAY = 7


class _Frame(NamedTuple):
    """One frame; `stream` is 0 for those about the whole connection."""

    kind: int
    flags: int
    stream: int
    payload: bytes

    def encoded(self) -> bytes:
        size = struct.pack(">I", len(self.payload))[1:]
        return size + struct.pack(">BBI", self.kind, self.flags, self.stream) + self.payload


def require_server(head: str) -> None:
    """Raises OSError or ValueError unless a server of HTTP/2 is at HOST:PORT; with TLS, any server."""
    with closing(_Conversation(head)) as conversation:
        if not _uses_tls():
            conversation.greet()


def require_head(head: str) -> None:
    """Raises OSError or ValueError unless the head of a Ray cluster is at HOST:PORT.

    Where the cluster asks for TLS or a token, any server will do.
    """
    if _uses_tls() or os.environ.get("RAY_AUTH_MODE", "disabled") != "disabled":
        require_server(head)
        return
    with closing(_Conversation(head)) as conversation:
        conversation.greet()
        conversation.send(*_call(head.encode()))
        while not conversation.receives_message():
            pass


def _uses_tls() -> bool:
    return os.environ.get("RAY_USE_TLS", "0") != "0"


class _Conversation:
    """Frames to and from a server, which has a few seconds for all of them together."""

    def __init__(self, head: str) -> None:
        host, _, port = head.rpartition(":")
        if not host or not port.isdigit():
            raise ValueError("give HOST:PORT")
        self._socket = socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_RESPOND)
        self._until = time.monotonic() + SECONDS_TO_RESPOND

    def close(self) -> None:
        self._socket.close()

    def greet(self) -> None:
        """Exchanges settings, the first frames of either side."""
        self._socket.sendall(_PREFACE)
        self.send(_Frame(_Kind.SETTINGS, 0, 0, b""))
        if self._received().kind != _Kind.SETTINGS:
            raise ConnectionError(_NOT_RAY)
        self.send(_Frame(_Kind.SETTINGS, _ACKNOWLEDGED, 0, b""))

    def send(self, *frames: _Frame) -> None:
        self._socket.sendall(b"".join(frame.encoded() for frame in frames))

    def receives_message(self) -> bool:
        """Whether the next frame has a message; raises ConnectionError once the call ends without one."""
        frame = self._received()
        if frame.kind == _Kind.PING and not frame.flags & _ACKNOWLEDGED:
            self.send(_Frame(_Kind.PING, _ACKNOWLEDGED, 0, frame.payload))
        if frame.kind == _Kind.DATA and frame.payload:
            return True
        is_call = frame.stream == 1 and frame.kind in (_Kind.DATA, _Kind.HEADERS)
        if (is_call and frame.flags & _END_STREAM) or frame.kind in (_Kind.RESET, _Kind.GO_AWAY):
            raise ConnectionError(_NOT_RAY)
        return False

    def _received(self) -> _Frame:
        head = self._exactly(9)
        size = int.from_bytes(head[:3], "big")
        kind, flags, stream = struct.unpack(">BBI", head[3:])
        if size > _LONGEST_FRAME:
            raise ConnectionError(_NOT_RAY)
        return _Frame(kind, flags, stream, self._exactly(size))

    def _exactly(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            self._socket.settimeout(max(self._until - time.monotonic(), 0.001))
            more = self._socket.recv(size - len(received))
            if not more:
                raise ConnectionError(_NOT_RAY)
            received += more
        return received


def _call(authority: bytes) -> list[_Frame]:
    """The call of a method with an empty message; headers are literals (RFC 7541, section 6.2.2)."""
    headers = b"\x83\x86"  # :method POST, :scheme http
    headers += b"\x04" + _text(_METHOD) + b"\x01" + _text(authority)  # :path, :authority
    headers += b"\x0f\x10" + _text(b"application/grpc")  # content-type
    headers += b"\x00" + _text(b"te") + _text(b"trailers")
    empty_message = bytes(5)  # not compressed, no bytes
    return [
        _Frame(_Kind.HEADERS, _END_HEADERS, 1, headers),
        _Frame(_Kind.DATA, _END_STREAM, 1, empty_message),
    ]


def _text(value: bytes) -> bytes:
    """A string of fewer than 127 bytes, without Huffman's code."""
    return bytes([len(value[:126])]) + value[:126]
