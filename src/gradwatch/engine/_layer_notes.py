"""Notes on errors: the layer in which an error was raised."""

from __future__ import annotations

import traceback

from ..select import Tree


def address_in_traceback(error: BaseException, tree: Tree) -> str | None:
    """Returns the innermost layer that has a method in the traceback.

    The empty address means the model itself. Keras removes its own frames from
    tracebacks, so this finds the layers of users; Keras's own layers are named in the
    message of the error.
    """
    addresses = {id(node.layer): a for a, node in tree.layers.items()}
    addresses[id(tree.model)] = ""
    address = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        address = addresses.get(id(frame.f_locals.get("self")), address)
    return address


def note_layer(error: BaseException, tree: Tree, address: str | None) -> None:
    """Adds the address of a layer to an error as a note; None adds nothing."""
    if address is None:
        return
    where = f"in the `call` of {tree.model.name!r} itself"
    if address:
        kind = type(tree.layers[address].layer).__name__
        where = f"inside layer {address!r} ({kind}) of {tree.model.name!r}"
    error.add_note(f"gradwatch: raised {where}.")
