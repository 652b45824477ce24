"""Operations: the `_bulk` operations of a slice, built by columns.

An operation is a row of parts, most of which are the same for every event. So the parts are put down column by column,
which costs a fraction of what building row by row does, and joined once.
"""

from collections.abc import Sequence

type Column = bytes | Sequence[bytes]  # one part for all rows, or one for each


class Operations:
    """So many rows; each event's operation is its row's parts, one behind the other."""

    def __init__(self, count: int, columns: Sequence[Column]) -> None:
        self._width = len(columns)
        self._parts = [column if isinstance(column, bytes) else b"" for column in columns] * count
        for place, column in enumerate(columns):
            if not isinstance(column, bytes):
                self._parts[place :: self._width] = column

    def put(self, row: int, place: int, part: bytes) -> None:
        """This part in place of the column's own."""
        self._parts[self._width * row + place] = part

    def replace(self, row: int, operation: bytes) -> None:
        """This operation in place of the whole row."""
        begin = self._width * row
        self._parts[begin : begin + self._width] = [operation, *[b""] * (self._width - 1)]

    def joined(self) -> bytes:
        """All rows, one behind the other."""
        return b"".join(self._parts)
