"""Callers that come by a proxy: who they are only a proxy that the administrator named can tell.

One for TCP says it before anything else, by the PROXY protocol (versions 1 and 2, as HAProxy has them); one for HTTP in
the header X-Forwarded-For of each call. Nobody else is believed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address, ip_network

from forebay.model.errors import BadInput

_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
_LINE = re.compile(rb"PROXY (?:UNKNOWN[^\r]*|TCP[46] (\S+) \S+ \d+ \d+)\r\n")
_LONGEST_LINE = 107
_WITH_PORT = re.compile(r"\[([^\]]+)\](?::\d+)?|([\d.]+):\d+")
MOST = 16 + 65_535
"""Bytes that such a head can have."""
_ADDRESS_BYTES = {0x11: 4, 0x21: 16}  # by family and transport: TCP over IPv4, over IPv6


class Proxies:
    """The proxies that are believed, by their addresses or networks ("192.0.2.7", "2001:db8::/32")."""

    def __init__(self, named: Iterable[str] = ()) -> None:
        self._networks = []
        for name in named:
            try:
                self._networks.append(ip_network(name))
            except ValueError:
                raise BadInput("service.proxies", f"must be addresses or networks, not {name!r}") from None

    def has(self, address: str) -> bool:
        try:
            found = ip_address(plain_address(address))
        except ValueError:
            return False
        return any(found in network for network in self._networks)

    def caller(self, forwarded: Iterable[str]) -> str:
        """For whom a trusted proxy calls, by its X-Forwarded-For; "" if it does not tell.

        Whoever called it may have sent such a header too, so the last of the addresses counts that is no proxy.

        >>> Proxies(["10.0.0.0/8"]).caller(["6.6.6.6, 192.0.2.1", "10.0.0.2"])
        '192.0.2.1'
        """
        for word in reversed(",".join(forwarded).split(",")):
            address = plain_address(word.strip())
            if not _is_address(address):
                return ""
            if not self.has(address):
                return address
        return ""


def plain_address(text: str) -> str:
    """
    >>> plain_address("::ffff:192.0.2.1"), plain_address("[2001:db8::1]"), plain_address("192.0.2.1:40000")
    ('192.0.2.1', '2001:db8::1', '192.0.2.1')
    """
    if match := _WITH_PORT.fullmatch(text):
        text = match[1] or match[2]
    try:
        found = ip_address(text)
    except ValueError:
        return text
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def read_head(heard: bytes) -> tuple[int, str] | None:
    """Of what a proxy sent first: how many bytes its head has, and for whom it calls; None if more must come.

    0 bytes if there is no such head; "" for a call of the proxy itself, or if it does not tell.

    >>> read_head(b"PROXY TCP4 192.0.2.1 192.0.2.2 40000 7443\\r\\nGET"), read_head(b"PROX"), read_head(b"GET / ")
    ((43, '192.0.2.1'), None, (0, ''))
    """
    if heard.startswith(_SIGNATURE):
        return _read_binary(heard)
    if match := _LINE.match(heard):
        address = (match[1] or b"").decode("ascii", "replace")
        return match.end(), plain_address(address) if _is_address(address) else ""
    begun = b"PROXY ".startswith(heard[:6]) and len(heard) < _LONGEST_LINE and b"\n" not in heard
    return None if begun or _SIGNATURE.startswith(heard) else (0, "")


def _read_binary(heard: bytes) -> tuple[int, str] | None:
    if len(heard) < 16:
        return None
    version, family, length = heard[12], heard[13], int.from_bytes(heard[14:16], "big")
    if version >> 4 != 2:
        return 0, ""
    if len(heard) < 16 + length:
        return None
    size = _ADDRESS_BYTES.get(family, 0)
    if version & 0xF == 0 or size == 0 or length < size:  # the proxy's own, or no address of the internet
        return 16 + length, ""
    return 16 + length, plain_address(str(ip_address(heard[16 : 16 + size])))
