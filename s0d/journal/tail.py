"""The newest blocks, in memory while somebody reads, shared by all cursors."""

from collections import deque

from s0d.journal.record import Block


class Tail:
    """A bounded run of consecutive blocks that ends with the newest record."""

    __slots__ = ("_blocks", "_by_first", "_limit", "_nbytes", "readers")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._blocks: deque[Block] = deque()
        self._by_first: dict[int, Block] = {}
        self._nbytes = 0
        self.readers = 0

    def add(self, block: Block) -> None:
        """Put the newest block in; old ones make room. The newest one always stays."""
        if self.readers == 0:
            return
        self._blocks.append(block)
        self._by_first[block.first] = block
        self._nbytes += block.nbytes
        while self._nbytes > self._limit and len(self._blocks) > 1:
            old = self._blocks.popleft()
            del self._by_first[old.first]
            self._nbytes -= old.nbytes

    def find(self, seq: int) -> Block | None:
        """The block that stands for ``seq``."""
        block = self._by_first.get(seq)
        if block is not None or not self._blocks or seq < self._blocks[0].first:
            return block
        # Only a cursor that enters in the middle of a block comes here.
        for candidate in reversed(self._blocks):
            if candidate.first <= seq:
                return candidate if seq <= candidate.last else None
        return None

    def enter(self) -> None:
        """One more reader."""
        self.readers += 1

    def leave(self) -> None:
        """One reader less; without any nothing is kept."""
        self.readers -= 1
        if self.readers == 0:
            self._blocks.clear()
            self._by_first.clear()
            self._nbytes = 0
