"""What needs another kernel than every machine has, logical volumes and NVMe over Fabrics, in a virtual machine.

Logical volumes run in a kernel that is a process of this machine, which is fast. NVMe over Fabrics needs an emulated
machine, where an agent with a disk of each kind runs too; its service is out here.
"""

import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from support import uml, vm
from support.certificates import certificate
from support.control import running

REPOSITORY = Path(__file__).parents[2]
MODULES = ("loop", "dm-mod")
NVME_MODULES = ("crc32c_generic", *MODULES, "ext4", "configfs", "nvmet", "nvmet-tcp", "nvme-tcp")
AFTERWARDS = (
    "tests/act/volumes/test_lvm.py::test_who_reaches_the_device_finds_nothing_of_the_one_before",
    "tests/act/volumes/test_nvme.py",
    "tests/act/control/agent/test_logical_volumes.py",
)
# There is no udev in the machine, so the tools make the devices' names themselves; they need not lock memory, nor look
# at anything but loop devices. Each command of LVM looks at every name in /dev, and most there are of terminals.
LVM = """
activation { udev_sync=0 udev_rules=0 monitoring=0 use_mlockall=0 reserved_memory=64 reserved_stack=64 }
devices { obtain_device_list_from_udev=0 use_devicesfile=0 hints="none" external_device_info_source="none"
          multipath_component_detection=0 md_component_detection=0 filter=["a|^/dev/loop|", "r|.*|"] }
global { use_lvmpolld=0 event_activation=0 }
backup { backup=0 archive=0 }
"""
KINDS = "tests/act/volumes/test_kinds.py"
# Nothing but what the suite needs: each module that Python reads takes its time in an emulated machine.
PYTEST = ("-m", "pytest", "-q", "-rs", "--noconftest", "--assert=plain", "--basetemp=/run/tests", "--durations=8")
# A volume behind NVMe over Fabrics is a logical volume with a subsystem: what concerns the subsystem.
BEHIND_A_SUBSYSTEM = (
    "test_a_volume_is_whole_and_the_users_alone",
    "test_after_a_restart_of_the_node_it_is_brought_up_with_what_was_written",
    "test_a_volume_that_is_down_is_released_without_a_trace",
    "test_a_make_that_dies_at_any_step_is_found_and_undone_by_release",
    "test_a_release_that_dies_at_any_step_is_finished_by_the_next",
)


def test_logical_volumes_pass_the_shared_suite(tmp_path: Path) -> None:
    words = ("-k", "[lvm] or test_lvm and not test_who_reaches", KINDS, "tests/act/volumes/test_lvm.py")
    ran = in_a_machine(uml.run, tmp_path, MODULES, words)
    assert passed(ran) >= 20, ran.out


def test_volumes_behind_nvme_over_fabrics_pass_and_serve_an_agent(tmp_path: Path) -> None:
    own, key = certificate(tmp_path)
    with running(tmp_path, listen="127.0.0.1:0", certificate=own, key=key) as service:
        secrets = {"agent": service.token("vm", "agent", node="vm"), "user": service.token("user", "user", uid=1000)}
        for name, secret in secrets.items():
            (tmp_path / name).write_text(secret)
            (tmp_path / name).chmod(0o600)
        port = service.addresses[1].rpartition(":")[2]
        tests = (*(f"{KINDS}::{name}[nvmet]" for name in BEHIND_A_SUBSYSTEM), *AFTERWARDS)
        outside = {"FOREBAY_TEST_SERVICE": f"https://{vm.HOST}:{port}", "FOREBAY_TEST_FILES": str(tmp_path)}
        ran = in_a_machine(vm.run, tmp_path, NVME_MODULES, tests, **outside)
        grants = service.call("GET", "/v1/grants")["grants"]
    assert passed(ran) >= len(BEHIND_A_SUBSYSTEM) + 7, ran.out
    assert [grant["state"] for grant in grants] == ["released", "released"]


def passed(ran: vm.Ran) -> int:
    """How many tests passed, if all did."""
    assert ran.code == 0, ran.out
    assert "skipped" not in ran.out, ran.out
    return int(re.findall(r"(\d+) passed", ran.out)[0])


def in_a_machine(
    run: Callable[..., vm.Ran], folder: Path, modules: Sequence[str], words: Sequence[str], **more: str
) -> vm.Ran:
    """What pytest says there, or a skip with the reason."""
    lvm = f"rm -f /dev/[pt]ty?*; mkdir /run/lvm; echo '{LVM}' > /run/lvm/lvm.conf"
    prepare = f'{lvm}; cd {shlex.quote(str(REPOSITORY))}; exec "$@"'
    clean = vm.environment(LVM_SYSTEM_DIR="/run/lvm", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", FOREBAY_TEST_VM="1", **more)
    command = (*clean, "sh", "-c", prepare, "sh", sys.executable, *PYTEST, *words)
    try:
        return run(command, modules=modules, folder=folder, timeout=250)
    except vm.NoMachine as reason:
        pytest.skip(str(reason))
