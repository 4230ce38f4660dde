"""Which fields of a date decide where they contradict each other: the moments are those of Java 17."""

import pytest

from moldau.connect.data.date_fields import DateFields, Field


@pytest.mark.parametrize(
    ("read", "days"),
    [
        ([], 0),
        ([(Field.DAY_OF_YEAR, 40), (Field.DAY, 5)], 4),
        ([(Field.DAY, 5), (Field.DAY_OF_YEAR, 40)], 39),
        ([(Field.WEEKDAY, 2)], 4),  # the first Monday of January 1970
        ([(Field.WEEKDAY, 44)], 4),
        ([(Field.WEEKDAY, 2), (Field.DAY, 9)], 8),
        ([(Field.WEEK_YEAR, 1970), (Field.WEEK, 2), (Field.WEEKDAY, 1)], 3),
    ],
)
def test_the_group_that_was_completed_last_decides(read: list[tuple[Field, int]], days: int) -> None:
    fields = DateFields()
    for field, value in read:
        fields.set(field, value)
    assert fields.epoch_ms() == days * 86_400_000


def test_hours_of_the_day_and_of_its_halves() -> None:
    fields = DateFields()
    fields.set(Field.HOUR, 5)
    fields.set(Field.HOUR_OF_HALF_DAY, 3)
    assert fields.epoch_ms() == 5 * 3_600_000
    fields.set(Field.HALF_DAY, 1)
    assert fields.epoch_ms() == 15 * 3_600_000
