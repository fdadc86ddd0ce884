"""The shared suite for volumes whose kernel parts are not on every machine: logical volumes and NVMe over Fabrics."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from support import vm

REPOSITORY = Path(__file__).parents[2]
MODULES = ("crc32c_generic", "loop", "ext4", "dm-mod", "configfs", "nvmet", "nvmet-tcp", "nvme-tcp")
# There is no udev in the machine, so the tools make the devices' names themselves; and they need not lock memory.
LVM = """
activation { udev_sync=0 udev_rules=0 monitoring=0 use_mlockall=0 reserved_memory=64 reserved_stack=64 }
devices { obtain_device_list_from_udev=0 use_devicesfile=0 }
backup { backup=0 archive=0 }
"""
SUITE = tuple(f"tests/act/volumes/test_{name}.py" for name in ("kinds", "lvm", "nvmf"))
# Nothing but what the suite needs: each module that Python reads takes its time in an emulated machine.
PYTEST = ("-m", "pytest", "-q", "-rs", "--noconftest", "--basetemp=/run/tests", "--durations=5")


@pytest.mark.parametrize("kind", ["lvm", "nvmet"])
def test_logical_volumes_pass_the_shared_suite(kind: str, tmp_path: Path) -> None:
    chosen = {"lvm": "[lvm] or test_lvm", "nvmet": "[nvmet] or test_nvmf"}[kind]
    prepare = f"mkdir /run/lvm; echo '{LVM}' > /run/lvm/lvm.conf; cd {shlex.quote(str(REPOSITORY))}; exec \"$@\""
    clean = vm.environment(LVM_SYSTEM_DIR="/run/lvm", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", FOREBAY_TEST_VM="1")
    command = (*clean, "sh", "-c", prepare, "sh", sys.executable, *PYTEST, "-k", chosen, *SUITE)
    try:
        ran = vm.run(command, modules=MODULES, folder=tmp_path, timeout=900)
    except vm.NoMachine as reason:
        pytest.skip(str(reason))
    assert ran.code == 0, ran.out
    assert re.search(r"\d\d passed", ran.out)
    assert "skipped" not in ran.out, ran.out
