"""The attacks of the battery where nothing holds them: as root in a privileged container. All must get through.

Prints one JSON object, from the name of each attack to where it got to. Run it nowhere else: it mounts and unmounts.
"""

import json
import os
import socket
from pathlib import Path

from appliance.attacks import run
from appliance.attacks.told import Needle, Plan, digest

SECRET = "0123456789abcdef0123456789abcdef"


def main() -> None:
    Path("/root/secret").write_text(f"KEY={SECRET}\n")
    Path("/root/control").write_text("f" * 32)
    needles = tuple(Needle(name, 32, digest("s", text.encode())) for name, text in (("it", SECRET), ("ok", "f" * 32)))
    with socket.socket(socket.AF_UNIX) as abstract, Path("/dev/null").open():
        abstract.bind("\0unheld")
        abstract.listen()
        around = {
            "environment": [],
            "hidden": ["/root"],
            "shown": [],
            "state": "/var/lib",
            "mounts": {},
            "below": {},
            "read_only": ["/root"],
            "looked_after": [],
            "kept": ["/root/control"],
            "writable": "/tmp",
            "sized": {"/tmp": 1 << 20},
            "processes": 100,
            "locked": ["/", "/usr", "/checkout", "/checkout/.git", "/proc"],
            "namespaces": {name: str(Path(f"/proc/self/ns/{name}").readlink()) for name in ("user", "net")},
            "not_before": 1 << 62,
            "addresses": [],
            "nameservers": [],
            "tcp": [],
            "udp": [],
            "abstract": ["unheld"],
            "sockets": [],
            "allowed_socket": "",
            "unix_only": False,
            "asks_names": True,
        }
        plan = Plan("jail", "n" * 32, "s", needles, "ok", around)
        last = ["mounting"]  # without /proc the others see little
        told = {}
        for name in [name for name in run.ATTACKS if name not in last] + last:
            told[name] = run.ATTACKS[name](plan).reached
    print(json.dumps(told))


if __name__ == "__main__":
    os.chdir("/")
    main()
