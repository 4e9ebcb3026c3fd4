"""Attacks on the network: every kind of socket, every kind of address, and what a listener outside would hear."""

import errno
import os
import select
import socket
import struct
from collections.abc import Callable

from appliance.attacks.told import Plan, Told

WAIT_SECONDS = 0.15
# What says that not even a packet left: no route, no address, no such kind of socket, or not allowed.
NOWHERE = {
    errno.ENETUNREACH,
    errno.EHOSTUNREACH,
    errno.EADDRNOTAVAIL,
    errno.EAFNOSUPPORT,
    errno.EPROTONOSUPPORT,
    errno.ESOCKTNOSUPPORT,
    errno.EPERM,
    errno.EACCES,
    errno.ENOENT,
    errno.ENODEV,
    errno.EINVAL,
}
METADATA = ("169.254.169.254", 80), ("fd00:ec2::254", 80)
PRIVATE = (("10.0.0.1", 80), ("172.16.0.1", 80), ("172.17.0.1", 2375), ("192.168.0.1", 80), ("100.64.0.1", 80))
PUBLIC = (("1.1.1.1", 443), ("8.8.8.8", 53), ("2606:4700:4700::1111", 443), ("2001:4860:4860::8888", 53))
LOCAL_NET = (("fe80::1", 80), ("ff02::1", 5353), ("224.0.0.251", 5353), ("255.255.255.255", 67))
# Families for which Python has no name.
AF_KEY, AF_BLUETOOTH, AF_VSOCK, AF_XDP = 15, 31, 40, 44
# What reaches further than the network namespace, or listens on the wire.
RAW: tuple[tuple[str, int, int, int], ...] = (
    ("a packet socket", socket.AF_PACKET, socket.SOCK_RAW, 0x0300),
    ("a packet socket (datagrams)", socket.AF_PACKET, socket.SOCK_DGRAM, 0x0300),
    ("a raw IPv4 socket", socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW),
    ("a raw ICMP socket", socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
    ("a raw IPv6 socket", socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW),
    ("a socket to the hypervisor (vsock)", AF_VSOCK, socket.SOCK_STREAM, 0),
    ("an XDP socket", AF_XDP, socket.SOCK_RAW, 0),
    ("a Bluetooth socket", AF_BLUETOOTH, socket.SOCK_RAW, 1),
    ("a key management socket", AF_KEY, socket.SOCK_RAW, 2),
)
ANY_BUT_UNIX: tuple[tuple[str, int, int, int], ...] = (
    ("an IPv4 socket", socket.AF_INET, socket.SOCK_STREAM, 0),
    ("an IPv4 socket (datagrams)", socket.AF_INET, socket.SOCK_DGRAM, 0),
    ("an IPv6 socket", socket.AF_INET6, socket.SOCK_STREAM, 0),
    ("an IPv6 socket (datagrams)", socket.AF_INET6, socket.SOCK_DGRAM, 0),
    ("a netlink socket", socket.AF_NETLINK, socket.SOCK_RAW, 0),
)


def tcp(plan: Plan) -> Told:
    """Connect to what listens outside, to the engine's bridge, to metadata, private and public addresses."""
    told = Told(control=_own(plan, socket.SOCK_STREAM))
    addresses = [*METADATA, *PRIVATE, *PUBLIC, *LOCAL_NET, *(tuple(one) for one in plan.around["addresses"])]
    told.reached += _connect_all(addresses, socket.SOCK_STREAM)
    for host, port in plan.around["tcp"]:
        if _connects(host, port):
            told.reached.append(f"a listener outside, {host} port {port}")
    return told


def udp(plan: Plan) -> Told:
    """Send datagrams to the same places, a DNS question among them, and to the resolver that the container uses."""
    told = Told(control=_own(plan, socket.SOCK_DGRAM))
    told.reached += _connect_all([*METADATA, *PRIVATE, *PUBLIC, *LOCAL_NET], socket.SOCK_DGRAM)
    question = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03com\x00\x00\x01\x00\x01"
    for host in plan.around["nameservers"]:
        if _answers(host, 53, question):
            told.reached.append(f"the name server {host}")
    for host, port in plan.around["udp"]:
        _answers(host, port, plan.nonce.encode())  # whoever listens there tells
    return told


def names(plan: Plan) -> Told:
    """Ask for a host's name as programs do. The control: an address that needs no asking."""
    told = Told()
    told.control = socket.getaddrinfo("127.0.0.1", 1, flags=socket.AI_NUMERICHOST)[0][4][0] == "127.0.0.1"
    if plan.around["asks_names"]:
        for name in ("example.com", "host.docker.internal"):
            try:
                socket.getaddrinfo(name, 80)
                told.reached.append(f"the address of {name}")
            except OSError:
                pass
    return told


def interfaces(plan: Plan) -> Told:
    """Network devices that are up, routes and addresses: none but the loopback's own."""
    told = Told()
    for line in _lines("/proc/net/dev")[2:]:
        name = line.split(":")[0].strip()
        told.control = told.control or name == "lo"
        if name != "lo" and _is_up(name):
            told.reached.append(f"the network device {name}")
    told.reached += [f"an IPv4 route through {line.split()[0]}" for line in _lines("/proc/net/route")[1:]]
    for line in _lines("/proc/net/if_inet6"):
        if line.split()[-1] != "lo":
            told.reached.append(f"an IPv6 address on {line.split()[-1]}")
    return told


def unix(plan: Plan) -> Told:
    """Unix sockets: abstract ones live in the network's namespace, the others in the files that are shown."""
    told = Told(control=_own_abstract(plan))
    for name in plan.around["abstract"]:
        if _connects_unix(f"\0{name}"):
            told.reached.append("an abstract Unix socket outside")
    for path in plan.around["sockets"]:
        if _connects_unix(path):
            told.reached.append(f"the Unix socket {path}")
    listed = "\n".join(_lines("/proc/net/unix"))
    told.reached += [f"the name of the Unix socket {name}" for name in plan.around["abstract"] if name in listed]
    if plan.around["allowed_socket"]:  # the way to the model: the jail has it
        told.control = told.control and _connects_unix(plan.around["allowed_socket"])
    return told


def raw(plan: Plan) -> Told:
    """Sockets below or beside the network: packets, raw protocols, the hypervisor; in the sandbox any but Unix."""
    told = Told(control=bool(_opens(socket.AF_UNIX, socket.SOCK_STREAM, 0)))
    for what, family, kind, protocol in (*RAW, *(ANY_BUT_UNIX if plan.around["unix_only"] else ())):
        if _opens(family, kind, protocol):
            told.reached.append(what)
    return told


def _opens(family: int, kind: int, protocol: int) -> bool:
    try:
        socket.socket(family, kind, protocol).close()
    except OSError:
        return False
    return True


def _own(plan: Plan, kind: socket.SocketKind) -> bool:
    """The control: a listener of one's own is reached. Where no such socket may be had, a pair of Unix ones speaks."""
    if plan.around["unix_only"]:
        return _own_pair(kind)
    try:
        with socket.socket(socket.AF_INET, kind) as listener:
            listener.bind(("127.0.0.1", 0))
            host, port = listener.getsockname()
            if kind == socket.SOCK_STREAM:
                listener.listen()
                return _connects(host, port)
            with socket.socket(socket.AF_INET, kind) as sender:
                sender.sendto(b"x", (host, port))
            return bool(select.select([listener], [], [], 1.0)[0])
    except OSError:
        return False


def _own_pair(kind: socket.SocketKind) -> bool:
    one, other = socket.socketpair(socket.AF_UNIX, kind)
    with one, other:
        os.write(one.fileno(), b"x")  # not `send`: the sandbox forbids the call
        return os.read(other.fileno(), 1) == b"x"


def _own_abstract(plan: Plan) -> bool:
    if plan.around["unix_only"]:
        return _own_pair(socket.SOCK_STREAM)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0own-{plan.nonce}")
        listener.listen()
        return _connects_unix(f"\0own-{plan.nonce}")


def _connect_all(addresses: list[tuple[str, int]], kind: socket.SocketKind) -> list[str]:
    """The addresses to which anything leaves: a connection, a refusal from there, or no answer yet."""
    reached = []
    for host, port in dict.fromkeys(addresses):
        try:
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind) as one:
                one.setblocking(False)
                code = one.connect_ex((host, port))
        except OSError as error:
            code = error.errno or 0
        if code not in NOWHERE:
            how = {0: "reached", errno.EINPROGRESS: "a way to it"}.get(code, errno.errorcode.get(code, str(code)))
            reached.append(f"{host} port {port}{' (UDP)' if kind == socket.SOCK_DGRAM else ''}: {how}")
    return reached


def _connects(host: str, port: int) -> bool:
    return _tries(
        lambda: socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET),
        lambda one: one.connect((host, port)),
    )


def _connects_unix(path: str) -> bool:
    return _tries(lambda: socket.socket(socket.AF_UNIX), lambda one: one.connect(path))


def _answers(host: str, port: int, question: bytes) -> bool:
    def ask(one: socket.socket) -> None:
        one.connect((host, port))
        one.send(question)
        one.recv(512)

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return _tries(lambda: socket.socket(family, socket.SOCK_DGRAM), ask)


def _tries(make: Callable[[], socket.socket], act: Callable[[socket.socket], None]) -> bool:
    try:
        with make() as one:
            one.settimeout(WAIT_SECONDS)
            act(one)
    except OSError:
        return False
    return True


def _is_up(name: str) -> bool:
    """By its flags; a device that nobody can be asked about counts as up."""
    import fcntl

    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
            told = fcntl.ioctl(one, 0x8913, struct.pack("16sH14x", name.encode()[:15], 0))  # SIOCGIFFLAGS
    except OSError:
        return True
    return bool(struct.unpack("16sH14x", told)[1] & 1)


def _lines(path: str) -> list[str]:
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return []
    with os.fdopen(handle, encoding="utf-8", errors="replace") as file:
        return file.read().splitlines()
