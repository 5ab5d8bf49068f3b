"""Alembic's entry: migrate over the connection that ``zerofleet.database.migrate`` hands in.

The connection is in a transaction already, which makes functions, views and rights too and is
committed by its owner.
"""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
