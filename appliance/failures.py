"""The one place where what the edges raise becomes a fault with its cause and next step."""

import traceback

import structlog
from sqlalchemy.exc import SQLAlchemyError

from appliance import facts, redaction
from appliance.core.disk import shortage
from appliance.core.ending import REPORT_REMEDY
from appliance.core.faults import Fault, named
from appliance.forge import ForgeError
from appliance.git import GitError
from appliance.process import ProgramMissing
from appliance.store import is_damage, words

log = structlog.get_logger()

LOST_WITH_IT = "history, attempts and today's count of tokens, so that APPLIANCE_TOKENS_PER_DAY begins anew"
DAMAGED_REMEDY = (
    "delete the database: `docker compose stop && docker compose run --rm --no-deps appliance sh -c "
    "'rm -f /var/lib/appliance/appliance.db*' && docker compose start`. Reviews are read back from the forge; lost "
    f"are {LOST_WITH_IT}. Keep signing.key."
)


def fault_of(error: Exception) -> Fault:
    """The workstation's fault, the forge's, or a defect of ours: whatever it is, it is not the pull request's.

    A defect is logged with its traceback. `permanent` among a forge's facts says that a person has to act. No secret is
    in what it tells.
    """
    return redaction.fault(_fault_of(error))


def _fault_of(error: Exception) -> Fault:
    match error:
        case ForgeError():
            return Fault(error.cause, str(error), error.remedy, str(error), {"permanent": error.permanent})
        case GitError():
            return Fault(error.cause, f"{error.sentence}.", f"{error.remedy}.", str(error))  # str has the next step too
        case ProgramMissing():
            return Fault(
                "program-missing", f"A program is missing: {error}", "rebuild the image: `docker compose build`."
            )
        case SQLAlchemyError() if is_damage(error):
            return damaged(words(error))
        case SQLAlchemyError() | OSError():
            return shortage_of(error) or _refused(words(error))
        case RuntimeError() if "can't start new thread" in str(error):  # Python's words
            return named("pids-limit", str(error))
    log.error("defect", traceback="".join(traceback.format_exception(error)))
    sentence = f"The appliance has a defect: {type(error).__name__}: {error}"[:300]
    return Fault("defect", sentence, REPORT_REMEDY, repr(error))


def shortage_of(error: Exception) -> Fault | None:
    """The fault if it is a full disk or a /tmp that is not there; None for any other error."""
    number = error.errno if isinstance(error, OSError) else None
    return shortage(words(error), number, facts.tmp())


def damaged(said: str) -> Fault:
    """The database is no sound one, as SQLite said."""
    return Fault("state", f"The database is damaged: {said[:300]}", DAMAGED_REMEDY, said)


def _refused(said: str) -> Fault:
    return Fault("workstation", f"The workstation refused a system call: {said}", REPORT_REMEDY, said)
