import socket
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.model.storage import remote
from dragoman.model.storage.hosts import PUBLIC_ONLY, check_host, checked_socket
from dragoman.model.storage.places import is_address, is_writable, join, local_path


@pytest.mark.parametrize(
    ("place", "address"),
    [
        *((place, True) for place in ("s3://bucket/a/b", "gs://bucket", "https://host/x.tar?sig=1", "memory://m/x")),
        *((place, False) for place in ("artifacts", "/data/x:y", "file:///data/x", "C:x")),
    ],
)
def test_addresses_are_those_of_the_list_and_paths_stay_paths(place: str, address: bool) -> None:
    assert is_address(place) is address


def test_a_file_address_is_a_path() -> None:
    assert local_path("file:///data/a%20b") == Path("/data/a b")
    assert local_path("a%20b") == Path("a%20b")


@pytest.mark.parametrize(
    "place",
    [
        *(
            "pipe:cat /etc/passwd",
            "pipe://cat",
            "ftp://host/x",
            "http://host/x",
            "github://a:b@c/d",
            "s3://bucket/a::b",
        ),
        *("s3:///key", "s3://bucket/../other", "s3://bucket/%2e%2e/other", "https://host/a::ftp://b", "s3://[bucket"),
    ],
)
def test_what_is_on_no_list_is_refused(place: str) -> None:
    with pytest.raises(UserError):
        is_address(place)


def test_an_address_with_a_password_is_refused_and_the_password_not_shown() -> None:
    with pytest.raises(UserError) as refused:
        is_address("s3://AKIA:hidden@bucket/key")
    assert "hidden" not in str(refused.value) and "environment" in str(refused.value)


def test_https_can_only_be_read() -> None:
    assert is_writable("s3://bucket/x") and not is_writable("https://host/x")
    with pytest.raises(UserError, match="read only"):
        remote.write("https://host/x", b"")


def test_names_are_joined_below_a_place() -> None:
    assert join("s3://bucket/a/", "b", "c") == "s3://bucket/a/b/c"


@pytest.mark.parametrize(
    "number",
    [
        *("169.254.169.254", "::ffff:169.254.169.254", "fd00:ec2::254", "fd00:ec2::23", "fe80::1%eth0", "fd20:ce::254"),
        *("100.100.100.200", "192.0.0.192", "168.63.129.16"),  # Alibaba, Oracle, Azure
        *("64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "2002:a9fe:a9fe::1", "::169.254.169.254"),  # IPv4 in IPv6
    ],
)
def test_nothing_is_fetched_from_a_metadata_service(number: str) -> None:
    with pytest.raises(UserError, match="metadata"):
        check_host(number)


def test_private_hosts_are_closed_to_remote_users(monkeypatch: pytest.MonkeyPatch) -> None:
    check_host("10.0.0.1")
    monkeypatch.setenv(PUBLIC_ONLY, "1")
    for number in ("10.0.0.1", "127.0.0.1", "192.168.1.1", "::1", "64:ff9b::a00:1", "2002:7f00:1::", "::10.0.0.1"):
        with pytest.raises(UserError, match="private"):
            check_host(number)
    for number in ("93.184.216.34", "64:ff9b::808:808", "2001:4860:4860::8888"):  # 6to4: as the Python says
        check_host(number)


def test_hosts_are_checked_where_the_socket_is_made_and_never_asked() -> None:
    with pytest.raises(UserError, match="metadata"):
        checked_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("169.254.169.254", 80)))
    with pytest.raises(UserError, match="metadata"):
        remote.read("https://169.254.169.254/latest/meta-data", 1.0)
