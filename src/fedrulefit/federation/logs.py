"""Words of a process, each message on its line."""

from __future__ import annotations

import logging


class OneLine(logging.Formatter):
    """Keeps a message on its line: what others sent may stand in it, and imitate ours."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the message without what could steer a terminal or begin a line."""
        record.message = "".join(c if c.isprintable() else "�" for c in record.message)
        return super().formatMessage(record)


def set_up_logging(shape: str = "%(asctime)s %(levelname)s %(name)s: %(message)s") -> None:
    """Write warnings, and what we say ourselves, to the standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine(shape))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("fedrulefit").setLevel(logging.INFO)
