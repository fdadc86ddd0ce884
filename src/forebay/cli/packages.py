"""Explains which optional group contains a missing package, and how to install it."""

import re

_ROLES = {
    "agent": ("agent",),
    "client": ("storage",),
    "history": ("ingest", "history", "profile", "diagnose", "advise", "replay", "slurm"),
    "studies": ("study", "simulate", "size", "show"),
    "service": ("serve", "token"),
    "forwarding": ("forward",),
    "scale": (),
    "postgresql": (),
    "mount": (),
    "train": (),
}
"""The groups, and the commands that need each of them."""
_DISTRIBUTIONS = {
    "yaml": "pyyaml",
    "markupsafe": "jinja2",
    "starlette": "fastapi",
    "sklearn": "scikit-learn",
    "psycopg": "psycopg[binary]",
}
"""Packages whose distribution has another name than their module."""


def describe_missing(error: ModuleNotFoundError, command: str) -> str | None:
    """Say what to install so that `command` finds a module; None if the module is in no group."""
    module = (error.name or "").partition(".")[0]
    distribution = _DISTRIBUTIONS.get(module, module.replace("_", "-"))
    installed = optional_groups()
    groups = [group for group in _ROLES if distribution in installed.get(group, ())]
    if not groups:
        return None
    group = next((group for group in groups if command in _ROLES[group]), groups[0])
    name = f"forebay {command}".rstrip()
    return f"{name} needs {distribution}, which is not installed; install it with: pip install 'forebay[{group}]'"


def optional_groups() -> dict[str, list[str]]:
    """List the distributions of each optional group."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        requirements = requires("forebay") or []
    except PackageNotFoundError:  # run from its sources, without an installation
        return {}
    groups: dict[str, list[str]] = {}
    for requirement in requirements:
        if marked := re.fullmatch(r"([\w.-]+(?:\[\w+\])?)[^;]*;\s*extra == ['\"]([\w-]+)['\"]", requirement):
            groups.setdefault(marked[2], []).append(marked[1].lower())
    return groups
