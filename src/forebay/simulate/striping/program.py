"""The applications of Kim et al. 2022, section 5: what each process writes, and how."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.model.layout import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """An application's I/O: `block` bytes of every process at a time, one file each or all into one `shared` file.

    `process_bytes` is what each process writes in all; where it is 0, all together write `total_bytes`.
    `aligned` blocks begin and end where stripes of a power of two do.
    """

    name: str
    block: int
    shared: bool = False
    collective: bool = False
    random: bool = False
    aligned: bool = True
    process_bytes: int = 0
    total_bytes: int = 0

    def __post_init__(self) -> None:
        if self.block < 1 or (self.process_bytes < 1) == (self.total_bytes < 1):
            raise ValueError(f"{self.name}: blocks, and either process_bytes or total_bytes, must be at least 1 byte")
        if self.collective and not self.shared:
            raise ValueError(f"{self.name}: collective I/O needs a shared file")

    def volume(self, processes: int) -> int:
        """What a run writes in all."""
        return self.total_bytes or self.process_bytes * processes

    def files(self, processes: int) -> int:
        return 1 if self.shared else processes


GB = 10**9
FIO_SEQUENTIAL = Program(name="FIO sequential", block=MIB, total_bytes=8 * GB)
FIO_RANDOM = Program(name="FIO random", block=MIB, total_bytes=8 * GB, random=True)
# 8 variables of 8 Mi particles of 4 bytes each (what the kernel writes unless told otherwise), a call for each.
VPIC = Program(name="VPIC-IO", block=32 * MIB, process_bytes=256 * MIB, shared=True, collective=True)
# Assumed, as the kernel takes its grid as input: 25 levels of 81,920 cells of 4 bytes, 38 variables.
GCRM = Program(
    name="GCRM-IO", block=8_192_000, process_bytes=38 * 8_192_000, shared=True, collective=True, aligned=False
)
# Assumed, as the kernel takes its blocks as input: 100 x 100 x 60 doubles, 3 components, 20 steps.
VORPAL = Program(
    name="VORPAL-IO", block=4_800_000, process_bytes=60 * 4_800_000, shared=True, collective=True, aligned=False
)
VPIC_INDEPENDENT = Program(name="VPIC-IO independent", block=32 * MIB, process_bytes=256 * MIB, shared=True)
VPIC_COLLECTIVE = Program(
    name="VPIC-IO collective", block=32 * MIB, process_bytes=256 * MIB, shared=True, collective=True
)
