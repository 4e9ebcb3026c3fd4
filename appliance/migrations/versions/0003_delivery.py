"""Delivery through an outbox, identity of a review, findings over heads, commands in comments."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def pulls() -> tuple["sa.Column[Any]", ...]:
    return (
        sa.Column("author", sa.Text(), server_default="", nullable=False),
        sa.Column("ready_since", sa.Float()),
        sa.Column("paused_at", sa.Float()),
        sa.Column("paused_by", sa.Text(), server_default="", nullable=False),
        sa.Column("head_seen_at", sa.Float()),
        sa.Column("asked_head", sa.Text(), server_default="", nullable=False),
        sa.Column("commands_read", sa.Text(), server_default="", nullable=False),
        sa.Column("base_checked", sa.Text(), server_default="", nullable=False),
    )


def reviews() -> tuple["sa.Column[Any]", ...]:
    return (
        sa.Column("base_sha", sa.Text(), server_default="", nullable=False),
        sa.Column("merge_base", sa.Text(), server_default="", nullable=False),
        sa.Column("digest", sa.Text(), server_default="", nullable=False),
        sa.Column("stale_at", sa.Float()),
        sa.Column("stale_reason", sa.Text(), server_default="", nullable=False),
    )


def upgrade() -> None:
    for column in pulls():
        op.add_column("pulls", column)
    for column in reviews():
        op.add_column("reviews", column)
    op.create_table(
        "bases",
        sa.Column("repository", sa.Text(), nullable=False),
        sa.Column("base_ref", sa.Text(), nullable=False),
        sa.Column("tip", sa.Text(), nullable=False),
        sa.Column("looked_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("repository", "base_ref"),
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("review", sa.Integer()),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("next_try", sa.Float()),
        sa.Column("tried_at", sa.Float()),
        sa.Column("sent_at", sa.Float()),
        sa.Column("abandoned_at", sa.Float()),
        sa.Column("remote_id", sa.Text(), server_default="", nullable=False),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.ForeignKeyConstraint(["review"], ["reviews.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    op.create_index("ix_outbox_target", "outbox", ["target"])
    for kind in ("summary", "gate"):  # of reviews that wait to be posted; `tried_at`: the comment may be there
        op.execute(
            "INSERT INTO outbox (review, target, kind, key, payload, created_at, tried_at) "
            f"SELECT id, target, '{kind}', 'review ' || id || ' {kind}', '{{}}', created_at, created_at FROM reviews "
            "WHERE delivered_at IS NULL AND abandoned_at IS NULL AND forgotten_at IS NULL ORDER BY id"
        )
    op.create_table(
        "findings",
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("first_head", sa.Text(), nullable=False),
        sa.Column("last_head", sa.Text(), nullable=False),
        sa.Column("commit", sa.Text(), server_default="", nullable=False),
        sa.Column("evidence", sa.Text(), server_default="", nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("who", sa.Text(), server_default="", nullable=False),
        sa.Column("finding", sa.Text(), server_default="", nullable=False),
        sa.Column("thread_id", sa.Text(), server_default="", nullable=False),
        sa.Column("comment_id", sa.Text(), server_default="", nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("target", "fingerprint"),
    )
    op.create_table(
        "commands",
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("comment_id", sa.Text(), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("done_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("target", "comment_id"),
    )


def downgrade() -> None:
    for table in ("commands", "findings", "outbox", "bases"):
        op.drop_table(table)
    for column in reviews():
        op.drop_column("reviews", column.name)
    for column in pulls():
        op.drop_column("pulls", column.name)
