"""Alembic's entry: the connection is the store's own."""

from alembic import context

from appliance.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
