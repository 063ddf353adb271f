"""What all journals of a sandbox retain: the oldest segments of the largest go first."""

from __future__ import annotations

from s0d.journal import JournalError
from s0d.supervisor.storage import Storage


class Journal:
    """Segments by size, the oldest first; the last is being written."""

    def __init__(self, *sizes: int, broken: bool = False) -> None:
        self.sizes = list(sizes)
        self.broken = broken

    @property
    def retained_bytes(self) -> int:
        return sum(self.sizes)

    def give_up_oldest(self) -> bool:
        if self.broken:
            raise JournalError("no")
        if len(self.sizes) < 2:
            return False
        self.sizes.pop(0)
        return True


def test_the_largest_gives_first() -> None:
    small, large = Journal(3, 3), Journal(5, 4, 4)
    Storage(lambda: [small, large], 12).grew()
    assert (small.sizes, large.sizes) == ([3], [4, 4]) or (small.sizes, large.sizes) == (
        [3, 3],
        [4],
    )


def test_as_much_as_is_needed_and_no_more() -> None:
    one, two = Journal(*[1] * 10), Journal(*[1] * 4)
    Storage(lambda: [one, two], 8).grew()
    assert one.retained_bytes + two.retained_bytes == 8
    assert (len(one.sizes), len(two.sizes)) == (4, 4)
    Storage(lambda: [one, two], 8).grew()
    assert one.retained_bytes + two.retained_bytes == 8


def test_what_is_being_written_stays() -> None:
    one, two = Journal(9), Journal(2, 2)
    Storage(lambda: [one, two], 1).grew()
    assert (one.sizes, two.sizes) == ([9], [2])


def test_one_that_cannot_give_leaves_it_to_the_others() -> None:
    broken, good = Journal(9, 9, broken=True), Journal(2, 2, 2)
    Storage(lambda: [broken, good], 20).grew()
    assert (broken.retained_bytes, good.retained_bytes) == (18, 2)
