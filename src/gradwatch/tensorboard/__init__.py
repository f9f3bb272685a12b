"""A run becomes the Gradients tab of TensorBoard.

Nothing is imported here: TensorBoard loads `_loader` at its start, whichever tab is
used.
"""
