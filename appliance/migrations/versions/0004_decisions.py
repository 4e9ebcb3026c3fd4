"""What people decide of findings in their conversations, and the review that follows it."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("pulls", sa.Column("threads_read", sa.Text(), server_default="", nullable=False))
    op.add_column("reviews", sa.Column("revision", sa.Integer(), server_default="0", nullable=False))


def downgrade() -> None:
    op.drop_column("reviews", "revision")
    op.drop_column("pulls", "threads_read")
