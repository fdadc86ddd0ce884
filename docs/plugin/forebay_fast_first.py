"""A storage policy in a package of its own."""

from forebay.decide.policy import Input, storage
from forebay.decide.storage.policy_memory import REFUSED
from forebay.model.ledger import peak


@storage("fast-first", inputs=[Input.BOOKED], source="an example", prepares=True)
def fast_first(platform):
    """The first disk with room, those of kind SSD before all others."""
    order = sorted(range(len(platform.disks)), key=lambda d: platform.disks[d].fields.get("kind") != "SSD")

    def choose(ledger, size, start, end, duration, turn):
        for disk in order:
            most, _ = peak(ledger, disk, start, end)
            if ledger.disks["capacity"][disk] - most >= size:
                return disk
        return REFUSED

    return choose
