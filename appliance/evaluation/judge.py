"""Asks a model whether a finding means a golden, through the gate that reviews use: it adds the key, counts the tokens
and takes our secrets out of what comes back."""

import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from appliance import redaction
from appliance.core.evaluation.asking import answered, request
from appliance.core.evaluation.case import Golden, golden_digest
from appliance.core.findings import Finding
from appliance.core.outcomes import RULES, Ending, Outcome
from appliance.core.upstream import ending_of
from appliance.evaluation.ledger import Judgement
from appliance.gate import Gate, Upstream
from appliance.meter import Budgets, Meter

SECONDS = 300.0
PAUSES = (2.0, 10.0)  # before it asks again; Codex has its own
MAX_ANSWER = 1024 * 1024


@dataclass
class Judge:
    """Use it as a context manager. `pause` waits so many seconds. `stopped` is why no more is asked: what is wrong with
    one request after some tries (a login, a limit) is wrong with all."""

    model: str
    upstream: Upstream
    budgets: Budgets = field(default_factory=Budgets)
    pause: Callable[[float], object] = time.sleep
    stopped: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _open: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> "Judge":
        with ExitStack() as stack:
            # of its own: the path of a socket may have 107 bytes, and a state directory may lie deep
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="judge-", ignore_cleanup_errors=True))
            self._gate = stack.enter_context(Gate(Path(folder) / "gate.sock", self.upstream, Meter(self.budgets)))
            transport = httpx.HTTPTransport(uds=str(self._gate.path))
            self._client = stack.enter_context(
                httpx.Client(transport=transport, base_url="http://judge", timeout=SECONDS)
            )
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def ask(self, golden: Golden, finding: Finding) -> Judgement:
        """One request, repeated if the API is busy or away. Raises what the ledger of the day's tokens raises."""
        with self._lock:
            if self.stopped:
                return Judgement(None, f"not asked: {self.stopped}")
            before = len(self._gate.answers)
            for wait in (*PAUSES, None):
                same, why, ending = self._try(golden, finding)
                if ending is None or ending.outcome is not Outcome.MODEL_UNREACHABLE or wait is None:
                    break
                self.pause(wait)
            if ending is not None and RULES[ending.outcome].stops:
                self.stopped = ending.reason[:300]
            usage = [answer.usage for answer in self._gate.answers[before:] if answer.usage]
            tokens = sum(one.input_tokens + one.output_tokens for one in usage)
            return Judgement(same, redaction.redacted(why), tokens, golden_digest(golden))

    def _try(self, golden: Golden, finding: Finding) -> tuple[bool | None, str, Ending | None]:
        before = len(self._gate.answers)
        try:
            same, why = self._answer(golden, finding)
        except httpx.HTTPError as error:
            same, why = None, f"{type(error).__name__}: {error}"[:300]
        if self._gate.broken is not None:
            raise self._gate.broken
        ending = ending_of(self._gate.answers[before:])
        if ending is None:
            return same, why, None
        return None, f"{ending.outcome.value}: {ending.reason}"[:300], ending

    def _answer(self, golden: Golden, finding: Finding) -> tuple[bool | None, str]:
        with self._client.stream("POST", "/v1/responses", json=request(golden, finding, self.model)) as answer:
            told = bytearray()
            for chunk in answer.iter_bytes():
                told += chunk
                if len(told) > MAX_ANSWER:
                    return None, "the answer is too large"
        if answer.status_code != httpx.codes.OK:
            return None, f"HTTP {answer.status_code}"
        return answered(told.decode("utf-8", "replace"))
