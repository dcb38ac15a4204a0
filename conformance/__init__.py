"""One suite of laws that every backend of zeropower obeys: ``python -m zeropower.conformance --backend all``."""

from zeropower.backend import Backend

__all__ = ["Backend"]
