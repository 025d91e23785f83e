"""Loggers, one for each area, and the structured fields of their records.

A field is an attribute of the record (`extra=`), for programs that search logs; the text says the same to people.
docs/troubles.md lists areas and fields. None holds a message body, a message key or a secret. Tracebacks are escaped
and cut in `exc_text`, which every formatter uses (D-14); `exc_info` stays unchanged.
"""

from __future__ import annotations

import logging

from tolliver_proto import NoticeKind

from .ends import traced

dial = logging.getLogger("tolliver.dial")
events = logging.getLogger("tolliver.events")
messages = logging.getLogger("tolliver.messages")
store = logging.getLogger("tolliver.store")
status = logging.getLogger("tolliver.status")
streams = logging.getLogger("tolliver.streams")
tls = logging.getLogger("tolliver.tls")

_OTHERS = (
    logging.getLogger("tolliver"),
    logging.getLogger("tolliver.local"),
    logging.getLogger("tolliver.spark"),
    logging.getLogger("tolliver.staging"),
)
ALL = (dial, events, messages, store, status, streams, tls, *_OTHERS)
"""All loggers of this package."""


class _Escaping(logging.Filter):
    """Formats tracebacks with error texts escaped and cut, as those may quote a peer (for one, a message body)."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[1] is not None and not record.exc_text:
            record.exc_text = traced(record.exc_info[1])
        return True


for _logger in ALL:
    _logger.addFilter(_Escaping())

_AREAS = {
    dial: (
        NoticeKind.DIAL_FAILED,
        NoticeKind.DIAL_GAVE_UP,
        NoticeKind.DUPLICATE_CLOSED,
        NoticeKind.DUPLICATE_IDENTITY,
        NoticeKind.HANDSHAKE_TIMEOUT,
        NoticeKind.PROBE_UNANSWERED,
        NoticeKind.PROTOCOL_ERROR,
        NoticeKind.SELF_CONNECTION,
        NoticeKind.TOO_MANY_HANDSHAKES,
    ),
    store: (
        NoticeKind.COMMITS_MISSING,
        NoticeKind.CORRUPT_MESSAGE,
        NoticeKind.DISK_LOW,
        NoticeKind.NOT_RECORDED,
        NoticeKind.RESERVE_RESTORED,
        NoticeKind.RESERVE_USED,
        NoticeKind.STORE_ERROR,
    ),
    tls: (
        NoticeKind.ACCESS_DENIED,
        NoticeKind.CERTIFICATE_ENDS,
        NoticeKind.CERTIFICATE_REFUSED,
        NoticeKind.IDENTITY_MISMATCH,
    ),
}
_BY_KIND = {kind: area for area, kinds in _AREAS.items() for kind in kinds}


def of(kind: NoticeKind) -> logging.Logger:
    """The logger for a notice of this kind: that of its area, or that of messages."""
    return _BY_KIND.get(kind, messages)


def fields(**values: object) -> dict[str, object]:
    """Mapping for `extra=` with the values that are not None, as numbers or text."""
    known = {name: value for name, value in values.items() if value is not None}
    return {name: value if type(value) in (int, float) else str(value) for name, value in known.items()}
