"""`python -m gradwatch` is the command `gradwatch`."""

from .cli import main

main(prog_name="gradwatch")
