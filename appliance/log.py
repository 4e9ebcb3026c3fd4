"""The log: one line an event on stderr, as text for people or as JSON for collectors."""

import logging
import sys
from typing import Any, Literal

import structlog

from appliance import redaction


def configure(form: Literal["text", "json"], *, debug: bool = False, quiet: bool = False) -> None:
    """Set up the log of this process. `quiet`: warnings and worse only."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%Y-%m-%dT%H:%M:%SZ", utc=True),
            structlog.processors.format_exc_info,
            _sayable,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.WARNING if quiet else logging.DEBUG if debug else logging.INFO
        ),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    _of_libraries()
    redaction.guard()


def _of_libraries() -> None:
    """What libraries log, in place of an earlier handler of ours."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Sayable("%(asctime)s %(name)s %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [other for other in root.handlers if not isinstance(other.formatter, _Sayable)]
    root.addHandler(handler)
    root.setLevel(logging.WARNING)


def _sayable(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Each value without secrets, and without what acts on a terminal; what is no JSON is shown as text."""
    return {name: redaction.cleaned(_text(value), redaction.say) for name, value in event.items()}


def _text(value: object) -> object:
    return value if isinstance(value, str | int | float | dict | list | tuple | None) else str(value)


class _Sayable(logging.Formatter):
    """For what libraries log."""

    def format(self, record: logging.LogRecord) -> str:
        return redaction.say(super().format(record))
