"""The tables, made at once for a new database, are those that the migrations lead to."""

from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from appliance import store, tables
from appliance.store import opening


def described(engine: sa.Engine) -> dict[str, Any]:
    """Tables with their columns and indexes, without the order of the indexes."""
    inspector = sa.inspect(engine)
    return {
        name: (
            [(c["name"], str(c["type"]), c["nullable"], c["default"]) for c in inspector.get_columns(name)],
            inspector.get_pk_constraint(name)["constrained_columns"],
            sorted((str(i["name"]), i["column_names"], i["unique"]) for i in inspector.get_indexes(name)),
            [(key["constrained_columns"], key["referred_table"]) for key in inspector.get_foreign_keys(name)],
        )
        for name in inspector.get_table_names()
    }


def migrated(path: Path) -> sa.Engine:
    engine = sa.create_engine(f"sqlite:///{path}")
    opening._upgrade(engine)
    return engine


def test_a_new_database_has_what_the_migrations_lead_to(tmp_path: Path) -> None:
    store.open_store(tmp_path / "new.db").close()
    fresh = sa.create_engine(f"sqlite:///{tmp_path / 'new.db'}")
    assert described(fresh) == described(migrated(tmp_path / "old.db"))


def test_the_migrations_lead_to_the_tables_and_to_the_revision_that_the_store_knows(tmp_path: Path) -> None:
    engine = migrated(tmp_path / "old.db")
    with engine.connect() as db:
        assert compare_metadata(MigrationContext.configure(db), tables.metadata) == []
    assert opening._revision(engine) == store.SCHEMA_REVISION
    scripts = ScriptDirectory(str(opening.MIGRATIONS))
    assert scripts.get_heads() == [store.SCHEMA_REVISION]


def test_a_database_that_was_left_without_its_revision_is_finished(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'torn.db'}")
    tables.meta.create(engine)
    store.open_store(tmp_path / "torn.db").close()
    assert opening._revision(engine) == store.SCHEMA_REVISION
    assert set(tables.metadata.tables) < set(sa.inspect(engine).get_table_names())
