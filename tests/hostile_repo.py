"""What no git would write: raw objects and packs, and a server that says what it likes."""

import hashlib
import http.server
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from gitrepo import Repo

FILE, FOLDER, LINK = "100644", "40000", "120000"
MIB = 1024**2
_TYPES = {"commit": 1, "tree": 2, "blob": 3}
OFS_DELTA = 6


def object_name(kind: str, data: bytes) -> str:
    return hashlib.sha1(b"%s %d\0%s" % (kind.encode(), len(data), data)).hexdigest()


def tree_data(*entries: tuple[str, str | bytes, str]) -> bytes:
    """Mode, name and object of each entry, as they are: in any order, twice, or with names that git refuses."""
    return b"".join(
        b"%s %s\0%s" % (mode.encode(), name.encode() if isinstance(name, str) else name, bytes.fromhex(sha))
        for mode, name, sha in entries
    )


def commit_data(tree: str, *parents: str) -> bytes:
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
    lines += [f"{role} Eve <eve@example.org> 1700000000 +0000" for role in ("author", "committer")]
    return "\n".join([*lines, "", "hostile", ""]).encode()


class Forge:
    """Writes loose objects into a repository, unchecked."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo

    def put(self, kind: str, data: bytes) -> str:
        sha = object_name(kind, data)
        path = self.repo.path / ".git" / "objects" / sha[:2] / sha[2:]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(zlib.compress(b"%s %d\0%s" % (kind.encode(), len(data), data), 1))
        return sha

    def blob(self, data: bytes = b"x\n") -> str:
        return self.put("blob", data)

    def tree(self, *entries: tuple[str, str | bytes, str]) -> str:
        return self.put("tree", tree_data(*entries))

    def head(self, tree: str, branch: str = "feature") -> str:
        """Let `branch` be a commit of this tree upon main."""
        sha = self.put("commit", commit_data(tree, self.repo.git("rev-parse", "main")))
        self.repo.git("update-ref", f"refs/heads/{branch}", sha)
        return sha

    def bomb(self, levels: int, width: int = 100) -> str:
        """A tree of `width` to the power of `levels` files in as many objects as levels."""
        tree = self.tree(*((FILE, f"{number:04}", self.blob()) for number in range(width)))
        for _ in range(levels - 1):
            tree = self.tree(*((FOLDER, f"{number:04}", tree) for number in range(width)))
        return tree

    def nested(self, depth: int, name: str = "d") -> str:
        tree = self.tree((FILE, "f", self.blob()))
        for _ in range(depth):
            tree = self.tree((FOLDER, name, tree))
        return tree


@dataclass
class Pack:
    """A pack, entry by entry."""

    entries: list[bytes] = field(default_factory=list)

    def add(self, kind: str, data: bytes) -> str:
        self.entries.append(_size(_TYPES[kind], len(data)) + zlib.compress(data))
        return object_name(kind, data)

    def zeros(self, mib: int) -> str:
        """A file of zeros: a thousandth of its size as packed."""
        pressed = zlib.compressobj(9, zlib.DEFLATED, -15)
        block = pressed.compress(bytes(MIB)) + pressed.flush(zlib.Z_FULL_FLUSH)
        size = mib * MIB
        adler = ((size % 65521) << 16) | 1
        stream = b"\x78\x9c" + block * mib + b"\x03\x00" + adler.to_bytes(4, "big")
        self.entries.append(_size(_TYPES["blob"], size) + stream)
        made = hashlib.sha1(b"blob %d\0" % size)
        for _ in range(mib):
            made.update(bytes(MIB))
        return made.hexdigest()

    def delta_bomb(self, mib: int) -> None:
        """A file of `mib` MiB as a delta of a few bytes for each, against one of a single MiB. Nobody needs its name:
        what reads the pack makes the file in its memory before."""
        base = _size(_TYPES["blob"], MIB) + zlib.compress(bytes(MIB))
        self.entries.append(base)
        copy = b"\xb0\xff\xff"  # 65,535 bytes from the beginning
        delta = _varint(MIB) + _varint(mib * 16 * 65535) + copy * (mib * 16)
        self.entries.append(_size(OFS_DELTA, len(delta)) + _offset(len(base)) + zlib.compress(delta))

    def data(self) -> bytes:
        body = b"PACK" + (2).to_bytes(4, "big") + len(self.entries).to_bytes(4, "big") + b"".join(self.entries)
        return body + hashlib.sha1(body).digest()


def _size(kind: int, size: int) -> bytes:
    byte, size = (kind << 4) | (size & 15), size >> 4
    out = bytearray()
    while size:
        out.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    return bytes([*out, byte])


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _offset(number: int) -> bytes:
    out = [number & 0x7F]
    while number := number >> 7:
        number -= 1
        out.insert(0, number & 0x7F | 0x80)
    return bytes(out)


def pkt(line: str) -> bytes:
    return f"{len(line) + 5:04x}{line}\n".encode()


@dataclass
class Server:
    """A smart HTTP server of one repository: `refs`, and for each fetch what `answer` gives, piece by piece.

    `authorizations` has the header of every request that came, to whatever address.
    """

    refs: dict[str, str]
    answer: Callable[[bytes], Iterator[bytes]]
    base: str = ""
    paths: list[str] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)
    other: dict[str, bytes] = field(default_factory=dict)

    def advertised(self) -> bytes:
        lines = [f"{sha} {ref}" for ref, sha in sorted(self.refs.items())]
        lines[0] += "\0agent=hostile ofs-delta"
        return b"".join([pkt("# service=git-upload-pack"), b"0000", *map(pkt, lines), b"0000"])


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def _begin(self, kind: str) -> None:
            server.paths.append(self.path)
            server.authorizations.append(self.headers.get("Authorization"))
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()

        def do_GET(self) -> None:
            path = self.path.split(".git", 1)[-1]
            if path in server.other:
                self._begin("text/plain")
                self.wfile.write(server.other[path])
            elif path.startswith("/info/refs?service=") and server.refs:
                self._begin("application/x-git-upload-pack-advertisement")
                self.wfile.write(server.advertised())
            else:
                server.paths.append(self.path)
                server.authorizations.append(self.headers.get("Authorization"))
                self.send_error(404)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._begin("application/x-git-upload-pack-result")
            try:
                self.wfile.write(pkt("NAK"))
                if b"0009done\n" in body:
                    for piece in server.answer(body):
                        self.wfile.write(piece)
            except OSError:
                pass  # git has gone

    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    server.base = f"http://127.0.0.1:{listener.server_address[1]}"
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join(5)


def packs_in_turn(packs: Sequence[bytes]) -> Callable[[bytes], Iterator[bytes]]:
    """The first fetch gets the first pack, and so on; the last for all that follow."""
    left = list(packs)

    def answer(_: bytes) -> Iterator[bytes]:
        yield left.pop(0) if len(left) > 1 else left[0]

    return answer
