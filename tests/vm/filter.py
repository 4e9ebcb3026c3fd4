"""Makes of docker/seccomp.json the program that the kernel of this machine takes; the engine does the same.

python3 filter.py SECCOMP.JSON FILTER.BPF
"""

import json
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import seccomp

ARCHES = {"x86_64": "amd64", "aarch64": "arm64"}
OPERATORS = {"SCMP_CMP_EQ": seccomp.EQ, "SCMP_CMP_MASKED_EQ": seccomp.MASKED_EQ}


def action(rule: dict[str, Any]) -> Any:
    return seccomp.ALLOW if rule["action"] == "SCMP_ACT_ALLOW" else seccomp.ERRNO(rule["errnoRet"])


def arguments(rule: dict[str, Any]) -> Iterator[Any]:
    for arg in rule.get("args", []):
        values = (arg["value"], arg["valueTwo"]) if "valueTwo" in arg else (arg["value"],)
        yield seccomp.Arg(arg["index"], OPERATORS[arg["op"]], *values)


profile = json.loads(Path(sys.argv[1]).read_text())
program = seccomp.SyscallFilter(seccomp.ERRNO(profile["defaultErrnoRet"]))
here = ARCHES[platform.machine()]
for rule in profile["syscalls"]:
    if here in rule.get("includes", {}).get("arches", [here]):
        for name in rule["names"]:
            try:
                program.add_rule(action(rule), name, *arguments(rule))
            except RuntimeError as error:
                print(f"{name}: {error}", file=sys.stderr)
with Path(sys.argv[2]).open("wb") as compiled:
    program.export_bpf(compiled)
