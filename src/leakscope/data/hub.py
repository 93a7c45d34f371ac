"""The Hugging Face hub: where it is, and whether it can be reached."""

from __future__ import annotations

import os
import socket
import urllib.parse
import urllib.request

_SECONDS_TO_REACH_HUB = 5.0


def hub_address() -> str:
    """Where the hub is."""
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co")


def reaches_hub() -> bool:
    """Whether the hub answers: transformers would try again and again for a minute."""
    if os.environ.get("HF_HUB_OFFLINE", "0").upper() in ("1", "ON", "YES", "TRUE"):
        return False
    if urllib.request.getproxies():
        return True  # a proxy decides
    address = urllib.parse.urlsplit(hub_address())
    port = address.port or (80 if address.scheme == "http" else 443)
    try:
        with socket.create_connection((address.hostname or "", port), timeout=_SECONDS_TO_REACH_HUB):
            return True
    except OSError:
        return False
