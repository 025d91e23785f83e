"""CloudEvents 1.0 in structured JSON mode, with their official library.

The protocol has no headers, so a message carries the whole event: its id, source, type and time, and extensions such as
`traceparent`. When reading, the library accepts invalid events and fills in missing attributes. So the JSON is
validated here, and the library checks and creates the event (P-44).
"""

from __future__ import annotations

import base64
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .._extras import needed
from ._strict_json import loads

if TYPE_CHECKING:
    from cloudevents.core.v1.event import CloudEvent

_VERSION = "1.0"
_REQUIRED = ("id", "source", "type", "specversion")


class CloudEvents:
    """Codec for CloudEvents 1.0, `cloudevents.core.v1.event.CloudEvent`. Needs the extra `cloudevents`.

    Binary data is encoded as `data_base64`, other data as JSON in `data`.
    """

    def __init__(self) -> None:
        needed("cloudevents", "cloudevents")
        from cloudevents.core.formats.json import JSONFormat
        from cloudevents.core.v1.event import CloudEvent

        self._kind = CloudEvent
        self._write = JSONFormat().write

    def encode(self, value: CloudEvent, /) -> bytes:
        if not isinstance(value, self._kind):
            raise TypeError(f"the value is a {type(value).__name__}, not a CloudEvent of version {_VERSION}")
        body: bytes = self._write(value)
        if self.decode(body).get_data() != value.get_data():  # the library encodes any data, if necessary as its `str`
            raise ValueError("its data is another one when it is read again: give what JSON has, or bytes")
        return body

    def decode(self, body: bytes, /) -> CloudEvent:
        fields = loads(body)
        if not isinstance(fields, dict):
            raise TypeError(f"an event is an object, not a {type(fields).__name__}")
        missing = [name for name in _REQUIRED if name not in fields]
        if missing:
            raise ValueError(f"the event has no {', '.join(missing)}")
        if fields["specversion"] != _VERSION:
            raise ValueError(f"specversion is {fields['specversion']!r:.40}, not {_VERSION!r}")
        data, has_time = _data(fields), "time" in fields
        if has_time:
            fields["time"] = datetime.fromisoformat(fields["time"])
        event = self._kind(fields, data)
        if not has_time:
            fields.pop("time", None)  # invented by the library
        return event

    def __repr__(self) -> str:
        return "CloudEvents()"


def _data(fields: dict[str, Any]) -> Any:
    if "data_base64" not in fields:
        return fields.pop("data", None)
    if "data" in fields:
        raise ValueError("the event has both data and data_base64")
    return base64.b64decode(fields.pop("data_base64"), validate=True)
