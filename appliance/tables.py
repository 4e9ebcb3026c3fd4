"""The tables. A change here needs a migration in `migrations/versions` and a new SCHEMA_REVISION in `store.opening`."""

import sqlalchemy as sa

metadata = sa.MetaData()

etags = sa.Table(
    "etags",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("etag", sa.Text, nullable=False),
    sa.Column("link", sa.Text),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("stored_at", sa.Float, nullable=False),
)

pulls = sa.Table(
    "pulls",
    metadata,
    sa.Column("target", sa.Text, primary_key=True),
    sa.Column("forge", sa.Text, nullable=False),
    sa.Column("repository", sa.Text, nullable=False, index=True),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("head_sha", sa.Text, nullable=False),
    sa.Column("base_ref", sa.Text, nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("open", sa.Boolean, nullable=False),
    sa.Column("first_seen_at", sa.Float, nullable=False),
    sa.Column("looked_at", sa.Text, nullable=False, server_default=""),
    sa.Column("again_after", sa.Float),
    sa.Column("state", sa.Text, nullable=False, server_default="waiting"),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("reason", sa.Text, nullable=False, server_default=""),
    sa.Column("next_try", sa.Float),
    sa.Column("author", sa.Text, nullable=False, server_default=""),
    sa.Column("ready_since", sa.Float),
    sa.Column("paused_at", sa.Float),
    sa.Column("paused_by", sa.Text, nullable=False, server_default=""),
    sa.Column("head_seen_at", sa.Float),
    sa.Column("asked_head", sa.Text, nullable=False, server_default=""),
    sa.Column("commands_read", sa.Text, nullable=False, server_default=""),
    sa.Column("base_checked", sa.Text, nullable=False, server_default=""),
    sa.Column("threads_read", sa.Text, nullable=False, server_default=""),
)

# The tip of a base branch as it was last looked at.
bases = sa.Table(
    "bases",
    metadata,
    sa.Column("repository", sa.Text, primary_key=True),
    sa.Column("base_ref", sa.Text, primary_key=True),
    sa.Column("tip", sa.Text, nullable=False),
    sa.Column("looked_at", sa.Float, nullable=False),
)

attempts = sa.Table(
    "attempts",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("target", sa.Text, nullable=False, index=True),
    sa.Column("head_sha", sa.Text, nullable=False),
    sa.Column("base_ref", sa.Text, nullable=False),
    sa.Column("base_sha", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("started_at", sa.Float, nullable=False),
    sa.Column("ended_at", sa.Float),
    sa.Column("outcome", sa.Text),
    sa.Column("reason", sa.Text, nullable=False, server_default=""),
    sa.Column("forgotten_at", sa.Float),
)
# An attempt that has not ended is a lease: one for each pull request.
sa.Index(
    "one_attempt_at_a_time",
    attempts.c.target,
    unique=True,
    sqlite_where=attempts.c.ended_at.is_(None),
    postgresql_where=attempts.c.ended_at.is_(None),
)

reviews = sa.Table(
    "reviews",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("attempt", sa.Integer, sa.ForeignKey("attempts.id")),
    sa.Column("target", sa.Text, nullable=False, index=True),
    sa.Column("head_sha", sa.Text, nullable=False),
    sa.Column("base_ref", sa.Text, nullable=False),
    sa.Column("gate_state", sa.Text, nullable=False),
    sa.Column("gate_description", sa.Text, nullable=False),
    sa.Column("review", sa.Text),
    sa.Column("created_at", sa.Float, nullable=False),
    sa.Column("delivered_at", sa.Float),
    sa.Column("abandoned_at", sa.Float),
    sa.Column("comment_id", sa.Text),
    sa.Column("comment_url", sa.Text),
    sa.Column("forgotten_at", sa.Float),
    sa.Column("base_sha", sa.Text, nullable=False, server_default=""),
    sa.Column("merge_base", sa.Text, nullable=False, server_default=""),
    sa.Column("digest", sa.Text, nullable=False, server_default=""),
    sa.Column("stale_at", sa.Float),
    sa.Column("stale_reason", sa.Text, nullable=False, server_default=""),
    sa.Column("revision", sa.Integer, nullable=False, server_default="0"),
)

# What is to be written to a forge, each thing once: `key` names it.
outbox = sa.Table(
    "outbox",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("review", sa.Integer, sa.ForeignKey("reviews.id")),
    sa.Column("target", sa.Text, nullable=False, index=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False, unique=True),
    sa.Column("payload", sa.Text, nullable=False),
    sa.Column("created_at", sa.Float, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
    sa.Column("next_try", sa.Float),
    sa.Column("tried_at", sa.Float),
    sa.Column("sent_at", sa.Float),
    sa.Column("abandoned_at", sa.Float),
    sa.Column("remote_id", sa.Text, nullable=False, server_default=""),
    sa.Column("error", sa.Text, nullable=False, server_default=""),
)

# What became of each finding of a pull request, over all its heads.
findings = sa.Table(
    "findings",
    metadata,
    sa.Column("target", sa.Text, primary_key=True),
    sa.Column("fingerprint", sa.Text, primary_key=True),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("first_head", sa.Text, nullable=False),
    sa.Column("last_head", sa.Text, nullable=False),
    sa.Column("commit", sa.Text, nullable=False, server_default=""),
    sa.Column("evidence", sa.Text, nullable=False, server_default=""),
    sa.Column("reason", sa.Text, nullable=False, server_default=""),
    sa.Column("who", sa.Text, nullable=False, server_default=""),
    sa.Column("finding", sa.Text, nullable=False, server_default=""),
    sa.Column("thread_id", sa.Text, nullable=False, server_default=""),
    sa.Column("comment_id", sa.Text, nullable=False, server_default=""),
    sa.Column("updated_at", sa.Float, nullable=False),
)

# Comments that were read as a command, each carried out once.
commands = sa.Table(
    "commands",
    metadata,
    sa.Column("target", sa.Text, primary_key=True),
    sa.Column("comment_id", sa.Text, primary_key=True),
    sa.Column("command", sa.Text, nullable=False),
    sa.Column("author", sa.Text, nullable=False),
    sa.Column("done_at", sa.Float, nullable=False),
)

gates = sa.Table(
    "gates",
    metadata,
    sa.Column("target", sa.Text, primary_key=True),
    sa.Column("head_sha", sa.Text, primary_key=True),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("set_at", sa.Float, nullable=False),
)

local_gates = sa.Table(
    "local_gates",
    metadata,
    sa.Column("target", sa.Text, primary_key=True),
    sa.Column("head_sha", sa.Text, primary_key=True),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("description", sa.Text, nullable=False),
)

spending = sa.Table(
    "spending",
    metadata,
    sa.Column("day", sa.Text, primary_key=True),
    sa.Column("tokens", sa.BigInteger, nullable=False),
    sa.Column("refused_under", sa.BigInteger, nullable=False, server_default="0"),
)

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
