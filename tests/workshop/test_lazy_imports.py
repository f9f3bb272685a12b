"""`import gradwatch` loads the running backend, and nothing heavy beside it."""

import keras

HEAVY = ("tensorflow", "jax", "torch", "matplotlib", "tensorboard", "keras_hub")

# `None` in sys.modules makes an import fail as if the library were not installed. Keras
# itself loads matplotlib where it finds it, so to look for it afterwards is no proof.
WITHOUT_THE_OTHERS = """
import sys
sys.modules.update(dict.fromkeys({absent}))
import gradwatch
print(*sorted(m for m in sys.modules if m.startswith("gradwatch.backends.")))
"""


def test_import_needs_no_other_framework_and_no_plotting(python):
    """With the other backends and matplotlib not installed the import still works."""
    mine = keras.config.backend()
    absent = [name for name in HEAVY if name != mine]
    done = python("-c", WITHOUT_THE_OTHERS.format(absent=absent))
    assert done.returncode == 0, done.stderr
    others = {"tensorflow", "jax", "torch"} - {mine}
    loaded = {module.split(".")[2].lstrip("_") for module in done.stdout.split()}
    assert not loaded & others
