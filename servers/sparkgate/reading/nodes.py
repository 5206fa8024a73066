"""Walking a parsed page without recursion, however deep it is."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

from selectolax.lexbor import LexborNode

Node = LexborNode
LINES = frozenset({"div", "p", "li", "tr"})


def walk(root: Node, enter: Callable[[Node], bool], leave: Callable[[Node], None]) -> None:
    """Call `enter` before and `leave` after what is in each node; what `enter` says no to is passed over."""
    stack = [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            leave(node)
        elif enter(node):
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(list(children(node))))


def children(node: Node) -> Iterator[Node]:
    child = node.child
    while child is not None:
        yield child
        child = child.next


def ancestors(node: Node, most: int) -> Iterator[Node]:
    """The node itself and those around it."""
    around: Node | None = node
    for _ in range(most):
        if around is None or not around.is_element_node:
            return
        yield around
        around = around.parent


def words_of(node: Node, name: str) -> list[str]:
    """The words of an attribute such as `class`, in lower case."""
    return (node.attributes.get(name) or "").lower().split()


def plain(root: Node, skip: Container[int]) -> str:
    """The characters of a node as they are, with a line for each of its lines."""
    pieces: list[str] = [""]
    ends_line = False

    def put(text: str) -> None:
        nonlocal ends_line
        if ends_line and not text.startswith("\n"):
            pieces.append("\n")
        ends_line = False
        pieces.append(text)

    def line() -> None:
        nonlocal ends_line
        ends_line |= not pieces[-1].endswith("\n") and len(pieces) > 1

    def enter(node: Node) -> bool:
        if node.is_text_node:
            put(node.text_content or "")
        elif node.tag == "br":
            put("\n")
        elif node.tag in LINES:
            line()
        return node.mem_id not in skip

    def leave(node: Node) -> None:
        if node.tag in LINES:
            line()

    walk(root, enter, leave)
    return "".join(pieces)
