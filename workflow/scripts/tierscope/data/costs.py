"""What the hardware of a design costs: money, electricity, rack units; its room."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

# Hardware of which a design has a number.
OBJECT_SERVER, LINK, METADATA_SERVER = "object_server", "link", "metadata_server"
LFS_DEVICE, NODE = "lfs_device", "node"
ROOM = "room_gib"  # of all devices of the LFS
HARDWARE = (OBJECT_SERVER, LINK, METADATA_SERVER, LFS_DEVICE, NODE)
PRICE = "price"
SUMS = ("usable_tib", PRICE, "watts", "rack_units")


@dataclass(frozen=True)
class Unit:
    """What one piece of hardware costs and gives; None is not known.

    Parameters
    ----------
    price, price_per_gib : float or None
        Of a piece, and of each GiB of an LFS device, in the unit of the cost.
    watts, rack_units, usable_tib : float or None
        Of a piece.
    """

    price: float | None = None
    price_per_gib: float | None = None
    watts: float | None = None
    rack_units: float | None = None
    usable_tib: float | None = None


@dataclass(frozen=True)
class Cost:
    """Prices of hardware.

    Parameters
    ----------
    unit : str
        Unit of money.
    hours : float or None
        Hours over which a purchase is written off.
    units : mapping of str to Unit
        Cost of the kinds of `HARDWARE` that are known.
    accelerator_hour : float or None
        Price of an hour of an accelerator.
    """

    unit: str = ""
    hours: float | None = None
    units: Mapping[str, Unit] = field(default_factory=dict)
    accelerator_hour: float | None = None

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the cost from the output of `dataclasses.asdict`."""
        units = {name: Unit(**one) for name, one in content["units"].items()}
        return cls(**{**content, "units": units})

    def sums(self, numbers: Mapping[str, float]) -> dict[str, float]:
        """Return price, watts, rack units and usable TiB of a design.

        Parameters
        ----------
        numbers : mapping of str to float
            Pieces of each kind of `HARDWARE`, and GiB of all LFS devices (`ROOM`).

        Returns
        -------
        mapping of str to float
            Missing is what is given of no kind; kinds of which it is not given do not
            count.
        """
        return {name: self._sum(name, numbers) for name in SUMS}

    def _sum(self, quantity: str, numbers: Mapping[str, float]) -> float:
        parts = []
        for kind, unit in self.units.items():
            if (each := getattr(unit, quantity)) is not None:
                parts.append(numbers[kind] * each)
            if quantity == PRICE and unit.price_per_gib is not None:
                parts.append(numbers[ROOM] * unit.price_per_gib)
        return math.fsum(parts) if parts else math.nan

    def has_price(self, kind: str) -> bool:
        """Return whether a price of a kind of hardware is given."""
        unit = self.units.get(kind, Unit())
        return unit.price is not None or unit.price_per_gib is not None

    def hour_price(self, price: float, n: int, utilisation_percent: float) -> float:
        """Return the price of an hour in which an accelerator of `n` computes.

        It is missing without a price of the storage, its hours, a price of the
        accelerator's hour, or any computation.
        """
        if self.hours is None or self.accelerator_hour is None:
            return math.nan
        useful = n * utilisation_percent / 100
        hourly = price / self.hours + n * self.accelerator_hour
        return hourly / useful if useful else math.nan
