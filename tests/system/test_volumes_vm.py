"""What needs another kernel than every machine has, logical volumes and NVMe over Fabrics, in a virtual machine.

There the shared suite of volumes runs for both, and an agent with a disk of each, whose service runs out here. It is
one machine and one interpreter for all of that, as each takes its time to start.
"""

import re
import shlex
import sys
from pathlib import Path

import pytest

from support import vm
from support.certificates import certificate
from support.control import running

REPOSITORY = Path(__file__).parents[2]
MODULES = ("crc32c_generic", "loop", "ext4", "dm-mod", "configfs", "nvmet", "nvmet-tcp", "nvme-tcp")
# There is no udev in the machine, so the tools make the devices' names themselves; they need not lock memory, nor look
# at anything but loop devices.
LVM = """
activation { udev_sync=0 udev_rules=0 monitoring=0 use_mlockall=0 reserved_memory=64 reserved_stack=64 }
devices { obtain_device_list_from_udev=0 use_devicesfile=0 hints="none" external_device_info_source="none"
          multipath_component_detection=0 md_component_detection=0 filter=["a|^/dev/loop|", "r|.*|"] }
global { use_lvmpolld=0 event_activation=0 }
backup { backup=0 archive=0 }
"""
SUITE = (
    *(f"tests/act/volumes/test_{name}.py" for name in ("kinds", "lvm", "nvmf")),
    "tests/act/control/test_agent_logical.py",
)
CHOSEN = "[lvm] or [nvmet] or test_lvm or test_nvmf or test_agent_logical"
# Nothing but what the suite needs: each module that Python reads takes its time in an emulated machine.
PYTEST = ("-m", "pytest", "-q", "-rs", "--noconftest", "--assert=plain", "--basetemp=/run/tests", "--durations=8")


def test_logical_volumes_pass_the_shared_suite_and_serve_an_agent(tmp_path: Path) -> None:
    own, key = certificate(tmp_path)
    with running(tmp_path, listen="127.0.0.1:0", certificate=own, key=key) as service:
        secrets = {"agent": service.token("vm", "agent", node="vm"), "user": service.token("user", "user", uid=1000)}
        for name, secret in secrets.items():
            (tmp_path / name).write_text(secret)
            (tmp_path / name).chmod(0o600)
        port = service.addresses[1].rpartition(":")[2]
        ran = in_the_machine(tmp_path, f"https://{vm.HOST}:{port}")
        grants = service.call("GET", "/v1/grants")["grants"]
    assert ran.code == 0, ran.out
    assert int(re.findall(r"(\d+) passed", ran.out)[0]) >= 44, ran.out
    assert "skipped" not in ran.out, ran.out
    assert [grant["state"] for grant in grants] == ["released", "released"]


def in_the_machine(folder: Path, service: str) -> vm.Ran:
    """The suite, or a skip with the reason."""
    prepare = f"mkdir /run/lvm; echo '{LVM}' > /run/lvm/lvm.conf; cd {shlex.quote(str(REPOSITORY))}; exec \"$@\""
    clean = vm.environment(
        LVM_SYSTEM_DIR="/run/lvm",
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
        FOREBAY_TEST_VM="1",
        FOREBAY_TEST_SERVICE=service,
        FOREBAY_TEST_FILES=str(folder),
    )
    command = (*clean, "sh", "-c", prepare, "sh", sys.executable, *PYTEST, "-k", CHOSEN, *SUITE)
    try:
        return vm.run(command, modules=MODULES, folder=folder, timeout=900)
    except vm.NoMachine as reason:
        pytest.skip(str(reason))
