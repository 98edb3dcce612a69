"""What designs cost."""

import math

from tierscope.data.costs import Cost, Unit

NUMBERS = {
    "object_server": 4,
    "link": 8,
    "metadata_server": 1.5,
    "lfs_device": 16,
    "node": 8,
    "room_gib": 16_000.0,
}
UNITS = {
    "object_server": Unit(price=1000.0, watts=300.0, usable_tib=50.0),
    "lfs_device": Unit(price=100.0, price_per_gib=0.5, watts=10.0),
    "metadata_server": Unit(price=400.0),
}


def test_pieces_and_room_of_all_kinds_are_summed():
    sums = Cost(units=UNITS).sums(NUMBERS)
    assert sums["price"] == 4 * 1000 + 16 * 100 + 16_000 * 0.5 + 1.5 * 400
    assert sums["watts"] == 4 * 300 + 16 * 10
    assert sums["usable_tib"] == 200
    assert math.isnan(sums["rack_units"])  # nobody has given them


def test_nothing_is_invented():
    assert all(map(math.isnan, Cost().sums(NUMBERS).values()))
    unknown = {**NUMBERS, "room_gib": math.nan}
    assert math.isnan(Cost(units=UNITS).sums(unknown)["price"])
    assert math.isnan(Cost(hours=1.0).hour_price(1.0, 4, 50.0))
    assert math.isnan(Cost(accelerator_hour=1.0).hour_price(1.0, 4, 50.0))


def test_an_idle_accelerator_costs_too():
    """600 an hour for storage and 4 accelerators of 50, of which half compute."""
    cost = Cost(hours=10.0, accelerator_hour=50.0)
    assert cost.hour_price(4000.0, 4, 50.0) == (400 + 200) / 2
    assert math.isnan(cost.hour_price(4000.0, 4, 0.0))
