"""Making a database, and bringing one up to date."""

import fcntl
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from appliance.tables import metadata

SCHEMA_REVISION = "0004"
BUSY_SECONDS = 30.0
MIGRATIONS = Path(__file__).parent.parent / "migrations"


def open_engine(path: Path) -> sa.Engine:
    """The engine of the database at `path`, made or brought up to date if need be.

    Raises sqlalchemy.exc.SQLAlchemyError, and ValueError for one that a later version made.
    """
    engine = sa.create_engine(f"sqlite:///{path}", connect_args={"timeout": BUSY_SECONDS})
    sa.event.listen(engine, "connect", _pragmas)
    if _revision(engine) != SCHEMA_REVISION:
        _migrate(engine, path)
    return engine


def words(error: Exception) -> str:
    """What the database itself said, on one line, without SQLAlchemy's advice to programmers."""
    return " ".join(str(getattr(error, "orig", None) or error).split())[:500]


def is_damage(error: Exception) -> bool:
    """Whether SQLite says that the file itself is no sound database."""
    said = words(error)
    return isinstance(error, sa.exc.SQLAlchemyError) and ("malformed" in said or "not a database" in said)


def damage(path: Path) -> str:
    """What SQLite finds wrong with the database at `path`; empty if nothing. Raises SQLAlchemyError if it gives up."""
    engine = sa.create_engine(f"sqlite:///{path}", connect_args={"timeout": BUSY_SECONDS})
    try:
        with engine.connect() as db:
            said = str(db.execute(sa.text("PRAGMA quick_check(1)")).scalar())
    finally:
        engine.dispose()
    return "" if said == "ok" else " ".join(said.split())


def _pragmas(connection: Any, _: object) -> None:
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _revision(engine: sa.Engine) -> str | None:
    """The schema's revision, asked without Alembic: its import costs more than half a second."""
    with engine.connect() as db:
        if not sa.inspect(db).has_table("alembic_version"):
            return None
        return db.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def _migrate(engine: sa.Engine, path: Path) -> None:
    with path.with_suffix(".migrating").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two processes may start at once
        revision = _revision(engine)
        if revision is None:
            _create(engine)
        elif revision != SCHEMA_REVISION:
            _upgrade(engine)


def _create(engine: sa.Engine) -> None:
    """The newest tables at once: Alembic costs the first start half a second, and 7 MB for as long as it runs."""
    with engine.begin() as db:
        metadata.create_all(db)
        db.execute(sa.text("CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
        db.execute(sa.text("INSERT INTO alembic_version VALUES (:revision)"), {"revision": SCHEMA_REVISION})


def _upgrade(engine: sa.Engine) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    try:
        with engine.begin() as db:
            config.attributes["connection"] = db
            command.upgrade(config, "head")
    except CommandError as error:
        raise ValueError(f"the database is of a later version of the appliance: {error}; update the image") from None
