"""Certificates for services on this machine."""

import subprocess
from pathlib import Path

from support.vm import HOST


def certificate(folder: Path) -> tuple[Path, Path]:
    """One for 127.0.0.1, also as a virtual machine sees it, which is its own authority; and its key."""
    names = f"IP:127.0.0.1,IP:{HOST}"
    own, key = folder / "service.pem", folder / "service.key"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
            "-addext", f"subjectAltName={names}", "-keyout", str(key), "-out", str(own),
        ],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    key.chmod(0o600)
    return own, key
