"""The numbers of Bayplan's own card policy: one set for every trace and fleet.

Chosen on five traces with seeds 42 to 46; what else was tried is in docs/cards.md.
"""

from __future__ import annotations

import msgspec

_RATIO = 1.4008496871290008


class Constants(msgspec.Struct, frozen=True, kw_only=True):
    """`softness` (tau): GPUs of value that count as nearly the same.

    `rate` (eta): how far one step moves prices on an empty fleet; `haste`: as the fleet fills, by (all cards / idle
    cards) to this power further, at most `most_haste` times. `arrivals_per_step`: how often prices move; on fleets of
    more cards than that many times `cards_per_arrival` as much less often, so that a fleet is filled in as many steps.
    `first_steps`: how often before the first pod. `reserve` (delta): how much more than the idle cards hold is expected
    to come. `group_weight`: what the room for all kinds that name the same models counts beside a kind's own. `stop`
    (omega): the chance that nothing comes for a leftover. `floor`: no price below this part of the face value.
    `cpu_prices`: GPUs per vCPU that are tried.

    Of `learning`: `half_life`, the arrivals after which one counts half as much; `ignorance`, as how many pods counts
    what is believed before any has come, and `restarts`, after how many arrivals prices are then found anew. Of
    `power`: `card_watts` and `cpu_watts`, the GPUs that a kW is worth; they fade out as the share of the cards that is
    given out goes to `quiet_until`. Of `admission`: `margin`, by how many GPUs the fleet may lose more than the pod
    brings.
    """

    softness: float = 0.0077
    rate: float = 0.0035
    haste: float = 0.3
    most_haste: float = 3.0
    arrivals_per_step: int = 10
    cards_per_arrival: int = 620
    first_steps: int = 300
    reserve: float = -0.053
    group_weight: float = 0.5
    stop: float = 0.0038
    floor: float = 0.1
    half_life: float = 8000.0
    ignorance: float = 200.0
    restarts: tuple[int, ...] = (200, 600, 1500)
    card_watts: float = 0.2
    cpu_watts: float = 0.1
    quiet_until: float = 0.85
    margin: float = 0.02
    cpu_prices: tuple[float, ...] = (0.0, *(0.0015 * _RATIO**i for i in range(14)))
