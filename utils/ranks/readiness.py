"""Wait for many pipes at once: a selector kept between calls, because making one anew costs more than what it finds."""

import selectors
from collections.abc import Callable
from typing import Any


class Readiness:
    """Connections and process sentinels, each with what to call when it has something to read (or has ended)."""

    def __init__(self):
        self._handlers: dict[Any, Callable[[], object]] = {}
        self._selector = selectors.DefaultSelector()

    def watch(self, source: Any, handler: Callable[[], object]) -> None:
        """Call `handler` whenever `source` is ready."""
        self._handlers[source] = handler
        self._selector.register(source, selectors.EVENT_READ, source)

    def forget(self, source: Any) -> None:
        """No longer look at `source`; nothing happens if it was not watched. Call it before closing the source."""
        if self._handlers.pop(source, None):
            self._selector.unregister(source)

    def handle(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s`, call the handler of each source that is ready; whether there was any."""
        ready = [key.data for key, _ in self._selector.select(timeout_s)]
        for source in ready:
            if source in self._handlers:  # an earlier handler may have dropped it
                self._handlers[source]()
        return bool(ready)

    def close(self) -> None:
        """Free the selector."""
        self._selector.close()
