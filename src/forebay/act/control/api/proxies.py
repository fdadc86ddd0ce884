"""Callers behind a proxy: the service believes only proxies that the administrator named.

A proxy for TCP sends the caller's address first, by the PROXY protocol (versions 1 and 2, as HAProxy has them), a proxy
for HTTP in the header X-Forwarded-For of each call.
"""

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from forebay.model.errors import BadInput

_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
_LINE = re.compile(rb"PROXY (?:UNKNOWN[^\r]*|TCP[46] (\S+) \S+ \d+ \d+)\r\n")
_LONGEST_LINE = 107
_WITH_PORT = re.compile(r"\[([^\]]+)\](?::\d+)?|([\d.]+):\d+")
MOST = 16 + 65_535  # bytes that such a head can have
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
        parsed = _parse_address(address)
        return parsed is not None and any(parsed in network for network in self._networks)

    def caller(self, forwarded: Iterable[str]) -> str:
        """For whom a trusted proxy calls, by its X-Forwarded-For; "" if it does not say.

        Whoever called it may have sent such a header, too, so the last address counts that is not a proxy's.

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
    """The number of bytes of a proxy's head, and for whom it calls; None if more must come.

    0 bytes if there is no such head; "" for a call of the proxy itself, or if it does not say.

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
    if version & 0xF == 0 or size == 0 or length < size:  # the proxy's own, or no address of the internet
        return 16 + length, ""
    return 16 + length, plain_address(str(ip_address(received[16 : 16 + size])))
