"""Keys of exposed volumes. Only the grant's owner, the node's agent and administrators can read a key.

The service derives each key from the volume's name and one secret in the store, so that no journal, log or other
answer contains it.
"""

import hmac
import json
from collections.abc import Mapping

from forebay.act.control.documents import GrantDocument
from forebay.model.grant import SHARED

KEY = "key"  # the setting that is a secret
MEANS = ("nbd", SHARED)  # means of exposure that need a key


class Keys:
    """The keys of all volumes, derived from one secret."""

    def __init__(self, secret: str) -> None:
        self._secret = bytes.fromhex(secret)

    def of(self, means: str, volume: str) -> str:
        """The key of a volume; all volumes of a shared file system have the key of their grant."""
        name = volume.partition(".")[0] if means == SHARED else volume
        return hmac.new(self._secret, name.encode(), "sha256").hexdigest()

    def add_keys(self, grant: GrantDocument) -> GrantDocument:
        """Add the keys to a grant, for its owner. Only a volume that exists has settings."""
        if grant["expose"] in MEANS:
            for volume in grant["volumes"]:
                if volume["settings"]:
                    volume["settings"] = {**volume["settings"], KEY: self.of(grant["expose"], volume["name"])}
        return grant


def without_key(settings: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if name != KEY}


def public(line: str) -> str:
    """A line of the journal without the key that early versions stored in it."""
    if f'"{KEY}"' not in line or '"settings"' not in line:
        return line
    event = json.loads(line)
    return json.dumps({**event, "settings": without_key(event["settings"])}) if "settings" in event else line
