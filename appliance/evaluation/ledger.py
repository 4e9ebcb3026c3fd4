"""The results of an evaluation, a line of JSON each, on the disk as soon as they are known: what was paid for is not
lost by a crash and not paid for twice."""

import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from appliance import redaction
from appliance.core.evaluation.case import Golden, golden_digest
from appliance.core.evaluation.matching import Pair
from appliance.core.evaluation.runs import Run, read_run
from appliance.flock import try_lock

FILE = "results.jsonl"
FORMAT = 1
Key = tuple[str, int]


class BadLedger(Exception):
    """The results that are there cannot be gone on with; the message says why and what to do."""


@dataclass(frozen=True)
class Judgement:
    """What a judge said of one pair: `same` is None if nothing usable. `tokens` is what the request took."""

    same: bool | None
    why: str = ""
    tokens: int = 0
    of: str = ""  # the golden's digest: another golden in its place was not judged


@dataclass
class Ledger:
    """Use it as a context manager. `heading` is what all results of one file have in common."""

    folder: Path
    heading: Mapping[str, Any]
    resume: bool = False
    runs: dict[Key, Run] = field(default_factory=dict)
    judged: dict[Key, dict[tuple[str, Pair], Judgement]] = field(default_factory=dict)  # by judge and pair
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _held: int = -1
    _file: int = -1

    def __enter__(self) -> "Ledger":
        """Raises BadLedger, OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        held = try_lock(self.folder / ".lock")
        if held is None:
            raise BadLedger(f"{self.folder} is written by another evaluation now. Next: wait for it, or name another.")
        self._held = held
        try:
            self._open(self.folder / FILE)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (self._file, self._held):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._held = -1

    def add(self, run: Run) -> None:
        with self._lock:
            self._write({"type": "run", **run.to_json()})
            self._take(run)

    def add_judgement(self, run: Run, judge: str, pair: Pair, told: Judgement) -> None:
        golden, finding = pair
        line = {"type": "judgement", "case": run.case, "number": run.number, "judge": judge}
        with self._lock:
            self._write({**line, "golden": golden, "finding": finding, **vars(told)})
            self.judged.setdefault(run.key, {})[judge, pair] = told

    def said(self, run: Run, judge: str, goldens: Sequence[Golden]) -> dict[Pair, bool | None]:
        """What this judge said of these goldens and the run's findings."""
        of = dict(enumerate(map(golden_digest, goldens)))
        told = self.judged.get(run.key, {})
        return {pair: one.same for (name, pair), one in told.items() if name == judge and one.of == of.get(pair[0])}

    def judgements(self, judge: str) -> list[Judgement]:
        return [one for told in self.judged.values() for (name, _), one in told.items() if name == judge]

    def _take(self, run: Run) -> None:
        """A later run of the same name takes the place of an earlier one, and what was said of that is void."""
        self.runs[run.key] = run
        self.judged.pop(run.key, None)

    def _open(self, path: Path) -> None:
        there = path.exists() and path.stat().st_size > 0
        if there and not self.resume:
            raise BadLedger(f"{path} has results already. Next: --resume to go on with them, or another --output.")
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if there and self._read(path):
            return
        self._write({"type": "evaluation", "format": FORMAT, **self.heading})

    def _read(self, path: Path) -> bool:
        """Take up what is there; False if not even the first line was written. A line that a crash cut off goes."""
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.ftruncate(self._file, whole)
        for number, line in enumerate(content[:whole].split(b"\n")[:-1], 1):
            try:
                self._line(json.loads(line), number)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise BadLedger(
                    f"{path}, line {number} is no result: {error!r}. Next: take the line out, or name another --output."
                ) from None
        return whole > 0

    def _line(self, told: Mapping[str, Any], number: int) -> None:
        if number == 1:
            if told["type"] != "evaluation" or told["format"] != FORMAT:
                raise ValueError("it does not begin as a file of results does")
            other = [f"{key} was {told.get(key)!r}" for key, value in self.heading.items() if told.get(key) != value]
            if other:
                raise BadLedger(
                    f"{self.folder / FILE} is of another evaluation: {', '.join(other)}. Next: name another --output."
                )
        elif told["type"] == "run":
            self._take(read_run(told))
        elif told["type"] == "judgement":
            key, pair = (told["case"], told["number"]), (told["golden"], told["finding"])
            one = Judgement(told["same"], told["why"], told["tokens"], told["of"])
            self.judged.setdefault(key, {})[told["judge"], pair] = one
        else:
            raise ValueError(f"unknown type {told['type']!r}")

    def _write(self, line: Mapping[str, Any]) -> None:
        """Raises OSError; then there is none of it, or a torn end that `_read` takes away."""
        data = memoryview(f"{json.dumps(redaction.cleaned(line))}\n".encode())
        while data:
            data = data[os.write(self._file, data) :]
        os.fsync(self._file)
