import socket
from pathlib import Path

import pytest

from forebay.act.forward.net.address import (
    Address,
    CantListen,
    listener_address,
    open_listener,
    open_socket,
    parse_address,
)
from forebay.model.errors import BadInput


@pytest.mark.parametrize("text", ["unix:/run/ion0", "host:7000", "10.0.0.1:0", "[::1]:7000"])
def test_an_address_is_written_as_it_is_read(text: str) -> None:
    assert str(parse_address(text)) == text


@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":7000", "host:70000", "host:-1", "unix:", "unix:/a\0b", "a b:1", "host:٣", "[]:1"]
)
def test_what_is_no_address_is_refused_with_the_place_it_stands_in(text: str) -> None:
    with pytest.raises(BadInput, match=r"^ion\.toml: node\[1\]: "):
        parse_address(text, "ion.toml: node[1]")


def test_the_path_of_a_socket_can_not_be_longer_than_the_system_allows() -> None:
    with pytest.raises(BadInput, match="107 bytes"):
        parse_address("unix:/" + "a" * 107)


@pytest.mark.parametrize("family", ["unix", "tcp"])
def test_an_address_in_use_is_one_line(tmp_path: Path, family: str) -> None:
    address = Address(path=str(tmp_path / "socket")) if family == "unix" else Address(host="127.0.0.1")
    with open_listener(address) as first, open_socket(listener_address(first), 5) as there:
        assert there.getpeername() is not None
        with pytest.raises(CantListen, match=r"^(unix:|127).*: the address is in use$"):
            open_listener(listener_address(first))


def test_the_socket_of_a_listener_that_is_dead_is_taken_over(tmp_path: Path) -> None:
    address = Address(path=str(tmp_path / "socket"))
    open_listener(address).close()
    with open_listener(address) as listener, open_socket(address, 5):
        assert listener_address(listener) == address


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "socket").write_text("precious")
    with pytest.raises(CantListen):
        open_listener(Address(path=str(tmp_path / "socket")))
    assert (tmp_path / "socket").read_text() == "precious"


def test_a_host_that_is_not_there_is_one_line() -> None:
    with pytest.raises(CantListen, match="cannot listen"):
        open_listener(Address(host="no-such-host.invalid", port=1))


def test_answers_go_out_at_once_over_tcp() -> None:
    with open_listener(Address(host="127.0.0.1")) as listener, open_socket(listener_address(listener), 5) as sock:
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
