"""Logs: one function, called once by each ``__main__``: JSON, or readable on a terminal."""

import logging
import sys

import structlog


def configure(service: str, *, level: str = "info", json: bool | None = None) -> None:
    """Send structlog's and the standard library's records through one pipeline to stderr.

    Args:
        service: bound to every record.
        level: the least severe level that is shown.
        json: force JSON or console; by default JSON unless stderr is a terminal.
    """
    as_json = not sys.stderr.isatty() if json is None else json
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # Tracebacks without the values of variables: some are secrets.
    console = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else console
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    finish: list[structlog.typing.Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta
    ]
    if as_json:
        finish.append(structlog.processors.format_exc_info)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[*finish, renderer]
        )
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    structlog.contextvars.bind_contextvars(service=service)
