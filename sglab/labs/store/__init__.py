"""Where attempts, checks and hints are kept."""

from .file_store import FileStore
from .record import Record, Store, best_attempts, hints_taken
from .sqlite_store import SqliteStore

__all__ = ["FileStore", "Record", "SqliteStore", "Store", "best_attempts", "hints_taken"]
