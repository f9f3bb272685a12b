"""Says in which layer an error arose."""

from __future__ import annotations

import traceback

from ..select import Tree


def address_in_traceback(error: BaseException, tree: Tree) -> str | None:
    """Returns the innermost layer whose method is in the traceback; "" is the model.

    Keras takes its own frames out of tracebacks, so this finds the layers of users;
    Keras's own layers name themselves in the message.
    """
    addresses = {id(node.layer): a for a, node in tree.layers.items()}
    addresses[id(tree.model)] = ""
    found = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        found = addresses.get(id(frame.f_locals.get("self")), found)
    return found


def note_place(error: BaseException, tree: Tree, address: str | None) -> None:
    """Adds a note with the address to an error, which stays what it is."""
    if address is None:
        return
    if not address:
        error.add_note(
            f"gradwatch: raised in the `call` of {tree.model.name!r} itself."
        )
        return
    layer = type(tree.layers[address].layer).__name__
    error.add_note(
        f"gradwatch: raised inside layer {address!r} ({layer}) of {tree.model.name!r}."
    )
