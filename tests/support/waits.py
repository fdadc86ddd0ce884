"""Waits without a limit of their own, as far as they can be seen in the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_STARTS = {"run", "call", "check_call", "check_output"}
_SLEEPS = {"wait", "join", "result", "acquire", "get", "communicate"}
"""Methods that wait forever unless an argument says how long."""
_READS = {"read", "readline", "readlines"}
_LIMITED = {"wait_for", "timeout", "timeout_at", "limited"}


def endless_waits(source: str) -> list[tuple[int, str]]:
    """The line and the text of each.

    >>> endless_waits("process.wait()\\nprocess.wait(60)\\nsubprocess.run(argv)\\nawait wait_for(event.wait(), 60)")
    [(1, 'process.wait()'), (3, 'subprocess.run(argv)')]
    >>> endless_waits("while not path.exists(): sleep(0.1)")[0][0]
    1
    """
    tree = ast.parse(source)
    limited = set(_inside_limits(tree))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node not in limited]
    opened = {item.context_expr for node in ast.walk(tree) if isinstance(node, ast.With) for item in node.items}
    waits = [call for call in calls if _is_endless(call) or (call in opened and _name(call.func) == "Popen")]
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.While) and node not in limited]
    found: list[ast.Call | ast.While] = [*waits, *(loop for loop in loops if _only_sleeps(loop))]
    return sorted((node.lineno, ast.unparse(node)) for node in found)


def _inside_limits(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) in _LIMITED:
            yield from (inner for argument in node.args for inner in ast.walk(argument))
        if isinstance(node, ast.AsyncWith) and any(
            isinstance(item.context_expr, ast.Call) and _name(item.context_expr.func) in _LIMITED for item in node.items
        ):
            yield from ast.walk(node)


def _is_endless(call: ast.Call) -> bool:
    name, words = _name(call.func), {word.arg for word in call.keywords}
    on = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    if "timeout" in words or None in words:
        return False
    if (on == "subprocess" and name in _STARTS) or name == "urlopen":
        return True
    if on == "httpx" and name.endswith("Client"):  # which waits for five seconds, too short on a busy machine
        return True
    if name == "communicate":
        return True
    if name in _SLEEPS and on not in ("", "os.path"):
        return not call.args and not words
    if name == "select":
        return len(call.args) == 3 and isinstance(call.args[0], ast.List)
    if name == "waitpid":
        return ast.unparse(call.args[1]) == "0"
    return name in _READS and on.rpartition(".")[2] in ("stdout", "stderr")


def _only_sleeps(loop: ast.While) -> bool:
    """Whether nothing in the loop ends it if what it waits for never happens."""
    if len(loop.body) != 1 or not isinstance(loop.test, ast.UnaryOp):
        return False
    [step] = loop.body
    if isinstance(step, ast.Expr) and isinstance(step.value, ast.Call | ast.Await):
        call = step.value.value if isinstance(step.value, ast.Await) else step.value
        return isinstance(call, ast.Call) and _name(call.func) in ("sleep", "wait")
    return isinstance(step, ast.Pass)


def _name(function: ast.expr) -> str:
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )
