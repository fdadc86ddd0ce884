"""Callers behind a proxy. The service trusts only the proxies in its settings.

A TCP proxy sends the caller's address first, by HAProxy's PROXY protocol (version 1 or 2); an HTTP proxy sends it in
the header X-Forwarded-For of each call.
"""

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from forebay.model.errors import BadInput

_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
_LINE = re.compile(rb"PROXY (?:UNKNOWN[^\r]*|TCP[46] (\S+) \S+ \d+ \d+)\r\n")
_LONGEST_LINE = 107
_WITH_PORT = re.compile(r"\[([^\]]+)\](?::\d+)?|([\d.]+):\d+")
MOST = 16 + 65_535  # the longest head of the PROXY protocol, in bytes
_ADDRESS_BYTES = {0x11: 4, 0x21: 16}  # by family and transport: TCP over IPv4, over IPv6


class Proxies:
    """The trusted proxies, by address or network ("192.0.2.7", "2001:db8::/32")."""

    def __init__(self, named: Iterable[str] = ()) -> None:
        self._networks = []
        for name in named:
            try:
                self._networks.append(ip_network(name))
            except ValueError:
                raise BadInput("service.proxies", f"must be addresses or networks, not {name!r}") from None

    def has(self, address: str) -> bool:
        parsed = _parse_address(address)
        return parsed is not None and any(parsed in network for network in self._networks)

    def caller(self, forwarded: Iterable[str]) -> str:
        """The caller's address in the X-Forwarded-For headers of a trusted proxy; "" if they name none.

        The caller may have sent this header, too, so only the last address that is not a proxy's counts.

        >>> Proxies(["10.0.0.0/8"]).caller(["6.6.6.6, 192.0.2.1", "10.0.0.2"])
        '192.0.2.1'
        """
        for text in reversed(",".join(forwarded).split(",")):
            address = _parse_address(text.strip())
            if address is None or not self.has(str(address)):
                return str(address or "")
        return ""


def plain_address(text: str) -> str:
    """
    >>> plain_address("::ffff:192.0.2.1"), plain_address("[2001:db8::1]"), plain_address("192.0.2.1:40000")
    ('192.0.2.1', '2001:db8::1', '192.0.2.1')
    """
    return str(_parse_address(text) or text)


def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
    if match := _WITH_PORT.fullmatch(text):
        text = match[1] or match[2]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def read_head(received: bytes) -> tuple[int, str] | None:
    """The length of a proxy's head in bytes, and the caller's address; None if the head is incomplete.

    The length is 0 without a head. The address is "" if the proxy itself calls, or names no caller.

    >>> read_head(b"PROXY TCP4 192.0.2.1 192.0.2.2 40000 7443\\r\\nGET"), read_head(b"PROX"), read_head(b"GET / ")
    ((43, '192.0.2.1'), None, (0, ''))
    """
    if received.startswith(_SIGNATURE):
        return _read_binary(received)
    if match := _LINE.match(received):
        return match.end(), str(_parse_address((match[1] or b"").decode("ascii", "replace")) or "")
    begun = b"PROXY ".startswith(received[:6]) and len(received) < _LONGEST_LINE and b"\n" not in received
    return None if begun or _SIGNATURE.startswith(received) else (0, "")


def _read_binary(received: bytes) -> tuple[int, str] | None:
    if len(received) < 16:
        return None
    version, family, length = received[12], received[13], int.from_bytes(received[14:16], "big")
    if version >> 4 != 2:
        return 0, ""
    if len(received) < 16 + length:
        return None
    size = _ADDRESS_BYTES.get(family, 0)
    if version & 0xF == 0 or size == 0 or length < size:  # the proxy's own call, or not an IP address
        return 16 + length, ""
    return 16 + length, plain_address(str(ip_address(received[16 : 16 + size])))
